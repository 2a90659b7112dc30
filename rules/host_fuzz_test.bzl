"""Coverage-guided fuzzing with this machine's Clang and its libFuzzer, for a bounded count of inputs."""

load("@host_compiler//:constraints.bzl", "HOST_CLANG_WITH_LIBFUZZER")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":copts.bzl", "COPTS")
load(":host_cc_test.bzl", "SANITIZERS")

# Memory beyond this is taken for a leak or an allocation that trusts its input.
_MEMORY_LIMIT_MB = 2048

_TEST = """\
#!/bin/sh
# What the fuzzer finds and learns goes where Bazel keeps a test's outputs; the seeds stay as they are.
set -eu
export TEST_TMPDIR="${{TEST_TMPDIR:-$(mktemp -d)}}"
found=${{TEST_UNDECLARED_OUTPUTS_DIR:-$TEST_TMPDIR}}
mkdir -p "$TEST_TMPDIR/corpus" "$TEST_TMPDIR/seeds"
for seed in {seeds}; do cp -L "$seed" "$TEST_TMPDIR/seeds/$(echo "$seed" | tr / _)"; done
exec {fuzzer} -runs={runs} -seed=1 -timeout=25 -rss_limit_mb={memory} -print_final_stats=1 \
  -artifact_prefix="$found/" "$@" "$TEST_TMPDIR/corpus" "$TEST_TMPDIR/seeds"
"""

def _compile(ctx, source, compilation):
    output = ctx.actions.declare_file("_fuzz/{}/{}.o".format(ctx.label.name, source.short_path))
    arguments = ctx.actions.args()
    arguments.add_all(["-std=c++17", "-O1", "-g", "-fno-exceptions", "-fno-rtti"] + COPTS + SANITIZERS)

    # The checks of calls through pointers need a part of the runtime library that only clang++ links.
    arguments.add_all(["-fsanitize=fuzzer-no-link", "-fno-sanitize=function"])
    arguments.add_all(ctx.attr.defines + compilation.defines.to_list(), before_each = "-D")
    arguments.add_all(compilation.quote_includes, before_each = "-iquote")
    arguments.add_all(depset(transitive = [compilation.includes, compilation.system_includes]), before_each = "-isystem")
    arguments.add("-c", source)
    arguments.add("-o", output)
    ctx.actions.run(
        executable = ctx.executable._clang,
        arguments = [arguments],
        inputs = depset([source], transitive = [compilation.headers]),
        outputs = [output],
        mnemonic = "FuzzCompile",
        progress_message = "Compiling {} for fuzzing".format(source.short_path),
    )
    return output

def _host_fuzz_test_impl(ctx):
    compilation = cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]).compilation_context
    objects = [_compile(ctx, source, compilation) for source in ctx.files.srcs]
    fuzzer = ctx.actions.declare_file("_fuzz/{}/fuzzer".format(ctx.label.name))
    arguments = ctx.actions.args()
    arguments.add_all(SANITIZERS)
    arguments.add("-fsanitize=fuzzer")
    arguments.add_all(objects)
    arguments.add_all(["-lstdc++", "-lm"])
    arguments.add("-o", fuzzer)
    ctx.actions.run(
        executable = ctx.executable._clang,
        arguments = [arguments],
        inputs = objects,
        outputs = [fuzzer],
        mnemonic = "FuzzLink",
        progress_message = "Linking fuzzer %{label}",
    )
    test = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(test, is_executable = True, content = _TEST.format(
        fuzzer = "\"$PWD/{}\"".format(fuzzer.short_path),
        memory = _MEMORY_LIMIT_MB,
        runs = ctx.attr.runs,
        seeds = " ".join(["'{}'".format(seed.short_path) for seed in ctx.files.seeds]),
    ))
    return [DefaultInfo(executable = test, runfiles = ctx.runfiles([fuzzer] + ctx.files.seeds))]

_host_fuzz_test = rule(
    implementation = _host_fuzz_test_impl,
    test = True,
    attrs = {
        "defines": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "runs": attr.int(default = 20000),
        "seeds": attr.label_list(allow_files = True),
        "srcs": attr.label_list(allow_files = [".cpp", ".cc"], mandatory = True),
        "_clang": attr.label(default = "@host_compiler//:clang", allow_single_file = True, executable = True, cfg = "exec"),
    },
)

def host_fuzz_test(name, srcs, seeds, deps = [], runs = 20000, defines = [], target_compatible_with = [], **kwargs):
    """Fuzzes LLVMFuzzerTestOneInput under the address and undefined-behaviour sanitizers.

    Everything fuzzed is compiled for it, so that the fuzzer sees which code an input reaches; of `deps` only headers,
    include directories and definitions are used. Fuzz on with `./bazelw run TARGET -- -runs=-1`.
    On a machine without Clang and libFuzzer the test is incompatible, and is reported as skipped.

    Args:
      name: Name of the test.
      srcs: All C++ sources: the fuzz target and what it fuzzes.
      seeds: Files to start from.
      deps: `cc_library` targets with the headers of srcs.
      runs: Inputs to try, besides the seeds.
      defines: More definitions for the preprocessor.
      target_compatible_with: More constraints.
      **kwargs: Attributes that every test has.
    """
    _host_fuzz_test(
        name = name,
        srcs = srcs,
        defines = defines,
        deps = deps,
        runs = runs,
        seeds = seeds,
        target_compatible_with = HOST_CLANG_WITH_LIBFUZZER + target_compatible_with,
        **kwargs
    )
