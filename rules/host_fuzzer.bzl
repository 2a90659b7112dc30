"""Coverage-guided fuzzers: Clang's libFuzzer on this machine."""

load("@host_compiler//:constraints.bzl", "HOST_LIBFUZZER", "HOST_SYMBOLIZER")
load("@rules_cc//cc:cc_binary.bzl", "cc_binary")
load(":copts.bzl", "COPTS", "SANITIZERS")

_COPT = "//command_line_option:copt"

def _instrumented_transition_impl(settings, _attr):
    # Calls at each comparison guide libFuzzer's own mutations, but took 70 % of the time.
    return {_COPT: settings[_COPT] + ["-O1", "-fsanitize=fuzzer-no-link", "-fno-sanitize-coverage=trace-cmp"]}

_instrumented = transition(
    # All code below a fuzzer counts its branches, which tells the fuzzer what an input reaches.
    implementation = _instrumented_transition_impl,
    inputs = [_COPT],
    outputs = [_COPT],
)

def _host_fuzzer_impl(ctx):
    program = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = program, target_file = ctx.executable.program, is_executable = True)
    runfiles = ctx.runfiles([program]).merge(ctx.attr.program[0][DefaultInfo].default_runfiles)
    if ctx.file.symbolizer:
        runfiles = runfiles.merge(ctx.runfiles([ctx.file.symbolizer])).merge(ctx.attr.symbolizer[DefaultInfo].default_runfiles)
    return [DefaultInfo(executable = program, runfiles = runfiles)]

_host_fuzzer = rule(
    implementation = _host_fuzzer_impl,
    executable = True,
    attrs = {
        "program": attr.label(doc = "The `cc_binary`.", mandatory = True, executable = True, cfg = _instrumented),
        "symbolizer": attr.label(doc = "The program that names the source lines of a report.", allow_single_file = True),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)

def host_fuzzer(name, srcs, deps, **kwargs):
    """Makes a program that calls LLVMFuzzerTestOneInput with new inputs, with the address and undefined-behaviour sanitizers.

    Its arguments are libFuzzer's. Its libraries are `sanitized_library`, and are compiled again for it,
    with instrumentation that tells the fuzzer which code an input reaches. Without a Clang with libFuzzer (see
    third_party/host_compiler for the selected compiler) the target is incompatible.

    Args:
      name: Name of the program.
      srcs: The fuzz target's C++ sources.
      deps: `cc_library` targets.
      **kwargs: Attributes that every rule has.
    """
    cc_binary(
        name = name + ".program",
        testonly = True,
        srcs = srcs,
        copts = ["-std=c++17"] + COPTS + SANITIZERS,
        linkopts = SANITIZERS + ["-fsanitize=fuzzer"],
        linkstatic = True,
        tags = ["manual"],
        target_compatible_with = HOST_LIBFUZZER,
        deps = deps,
    )
    _host_fuzzer(
        name = name,
        testonly = True,
        program = name + ".program",
        symbolizer = HOST_SYMBOLIZER,
        target_compatible_with = HOST_LIBFUZZER,
        **kwargs
    )
