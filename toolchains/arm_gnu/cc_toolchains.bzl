"""The C++ toolchains that the Arm GNU toolchain's repository defines, one for each core."""

load("@rules_cc//cc/toolchains:cc_toolchain.bzl", "cc_toolchain")
load("//platforms:cores.bzl", "CORES")
load(":cc_toolchain_config.bzl", "arm_gnu_cc_toolchain_config")

def arm_gnu_cc_toolchains(archiver_files, builtin_include_directories, nano_include_directory, root):
    """Defines `cc_toolchain` targets `cc_<core>` in the toolchain's own repository, where paths to its tools are short.

    Args:
      archiver_files: Label of the files that archiving needs, and other tools for object files.
      builtin_include_directories: List of GCC's own include directories, relative to the repository.
      nano_include_directory: The directory of newlib-nano's newlib.h, relative to the repository.
      root: The toolchain's directory in the repository, with a slash.
    """

    # A core's actions read its own variant of the libraries only, so that another core costs them nothing.
    common, variants, libraries = ["tools/*", root + "**"], ["**/thumb/**"], ["**/*.a", "**/*.o"]
    for multilib in {core.multilib: None for core in CORES.values()}:
        own = [root + "**/" + multilib + "/**"]

        # The compiler without the libraries, so that an action has few inputs.
        native.filegroup(
            name = multilib + "/compiler_files",
            srcs = native.glob(common, exclude = variants + libraries) + native.glob(own, exclude = libraries),
        )
        native.filegroup(
            name = multilib + "/all_files",
            srcs = native.glob(common, exclude = variants) + native.glob(own) + [Label(":link.sh")],
        )
    for name, core in CORES.items():
        arm_gnu_cc_toolchain_config(
            name = name + "_config",
            builtin_include_directories = builtin_include_directories,
            core_flags = core.flags,
            nano_include_directory = nano_include_directory,
        )
        cc_toolchain(
            name = "cc_" + name,
            all_files = core.multilib + "/all_files",
            ar_files = archiver_files,
            as_files = core.multilib + "/compiler_files",
            compiler_files = core.multilib + "/compiler_files",
            dwp_files = archiver_files,
            linker_files = core.multilib + "/all_files",
            objcopy_files = archiver_files,
            strip_files = archiver_files,
            supports_param_files = True,
            toolchain_config = name + "_config",
        )
