"""The C++ toolchain that Debian's Clang makes, for tests that run on the machine that builds."""

load("@rules_cc//cc/toolchains:cc_toolchain.bzl", "cc_toolchain")
load(":cc_toolchain_config.bzl", "host_clang_cc_toolchain_config")

def host_clang_cc_toolchain(name, compiler_files, all_files):
    """Defines the `cc_toolchain` in the compiler's own repository, where paths to its tools are short.

    Args:
      name: Name of the `cc_toolchain`.
      compiler_files: Label of what compiling needs.
      all_files: Label of what linking needs.
    """
    host_clang_cc_toolchain_config(name = name + "_config")
    cc_toolchain(
        name = name,
        all_files = all_files,
        ar_files = compiler_files,
        as_files = compiler_files,
        compiler_files = compiler_files,
        dwp_files = compiler_files,
        linker_files = all_files,
        objcopy_files = compiler_files,
        strip_files = compiler_files,
        supports_param_files = True,
        toolchain_config = name + "_config",
    )
