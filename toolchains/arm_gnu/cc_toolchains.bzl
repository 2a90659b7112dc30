"""The C++ toolchains that the Arm GNU toolchain's repository defines, one for each core."""

load("@rules_cc//cc/toolchains:cc_toolchain.bzl", "cc_toolchain")
load(":cc_toolchain_config.bzl", "arm_gnu_cc_toolchain_config")

# GCC's flags by core; the names are those of //platforms:core. All use the hard-float calling convention.
CORE_FLAGS = {
    "cortex_m4": ["-mcpu=cortex-m4", "-mfpu=fpv4-sp-d16", "-mfloat-abi=hard"],
    "cortex_m33": ["-mcpu=cortex-m33", "-mfloat-abi=hard"],
    # GCC 12 makes conversions conditional (vcvtne), which its assembler takes for a vector instruction.
    "cortex_m55": ["-mcpu=cortex-m55", "-mfloat-abi=hard", "-fno-if-conversion2"],
}

def arm_gnu_cc_toolchains(compiler_files, all_files, builtin_include_directories, nano_include_directory):
    """Defines `cc_toolchain` targets `cc_<core>` in the toolchain's own repository, where paths to its tools are short.

    Args:
      compiler_files: Label of what compiling needs.
      all_files: Label of what linking needs.
      builtin_include_directories: List of GCC's own include directories, relative to the repository.
      nano_include_directory: The directory of newlib-nano's newlib.h, relative to the repository.
    """
    for core, flags in CORE_FLAGS.items():
        arm_gnu_cc_toolchain_config(
            name = core + "_config",
            builtin_include_directories = builtin_include_directories,
            core_flags = flags,
            nano_include_directory = nano_include_directory,
        )
        cc_toolchain(
            name = "cc_" + core,
            all_files = all_files,
            ar_files = compiler_files,
            as_files = compiler_files,
            compiler_files = compiler_files,
            dwp_files = compiler_files,
            linker_files = all_files,
            objcopy_files = compiler_files,
            strip_files = compiler_files,
            supports_param_files = True,
            toolchain_config = core + "_config",
        )
