"""What this machine's own C++ compiler can do, for unit tests that run on this machine; nothing else may use it."""

_CONSTRAINTS = """\
\"\"\"What targets that need this machine's compiler put into target_compatible_with. Empty where the machine has it.\"\"\"

HOST_CC_COMPILER = {cc}

HOST_CLANG_WITH_LIBFUZZER = {fuzzer}
"""

def _builds(rctx, compiler, flags):
    """Whether the compiler builds a program with the flags (its libraries may be missing)."""
    return rctx.execute([compiler, "-x", "c++", "probe.cc", "-o", "probe"] + flags).return_code == 0

def _host_compiler_impl(rctx):
    compiler = rctx.os.environ.get("CC") or "gcc"
    compiler = rctx.path(compiler) if compiler.startswith("/") else rctx.which(compiler)
    rctx.file("probe.cc", "#include <vector>\nint main() { return static_cast<int>(std::vector<int>().size()); }\n")
    has_cc = compiler != None and _builds(rctx, compiler, ["-std=c++17", "-fsanitize=address,undefined", "-lstdc++"])

    rctx.file("probe.cc", "#include <cstddef>\n#include <cstdint>\nextern \"C\" int LLVMFuzzerTestOneInput(const uint8_t*, size_t) { return 0; }\n")
    clang = None
    for name in ["clang", "clang++"] + ["clang-{}".format(version) for version in range(30, 10, -1)]:
        candidate = rctx.which(name)
        if candidate and _builds(rctx, candidate, ["-std=c++17", "-fsanitize=fuzzer,address,undefined", "-lstdc++"]):
            clang = candidate
            break
    rctx.delete("probe.cc")
    rctx.delete("probe")

    rctx.file("constraints.bzl", _CONSTRAINTS.format(
        cc = [] if has_cc else '[Label("@torch_fusion//platforms:host_cc_compiler")]',
        fuzzer = [] if clang else '[Label("@torch_fusion//platforms:host_clang_with_libfuzzer")]',
    ))
    rctx.file("clang", "#!/bin/sh\nexec \"{}\" \"$@\"\n".format(clang or "clang"))
    rctx.file("BUILD.bazel", "exports_files([\"clang\"], visibility = [\"//visibility:public\"])\n")

host_compiler = repository_rule(
    doc = "constraints.bzl says which of the tests of C++ code this machine can build; `clang` runs its Clang, if it has libFuzzer.",
    implementation = _host_compiler_impl,
    environ = ["CC"],
    configure = True,
)
