"""The `mbed_firmware` macro: builds an application for Mbed OS as one target."""

load(":cmake_firmware.bzl", "cmake_firmware")
load(":torch_package.bzl", "torch_package")

def mbed_firmware(
        name,
        mbed_os,
        board,
        mbed_target,
        models = [],
        app = None,
        project = "CMakeLists.txt",
        executable_target = "",
        map = "",
        float_abi = "softfp",
        build_type = "Release",
        definitions = {},
        python_packages = [],
        heap_stack = 4096,
        tags = [],
        visibility = None,
        **kwargs):
    """Builds an application for Mbed CE, with models, by its own CMakeLists.txt and a tree of Mbed OS that you provide.

    Its outputs and commands are those of cmake_firmware. The project finds the models by `find_package(<name>_models)`
    after `add_subdirectory(mbed-os)`, and links with `<name>_models`.

    Args:
      name: the image.
      mbed_os: all files of Mbed OS: a filegroup of a repository that you fetch, or of your own folder; the project has
        it as `mbed-os`.
      board: the board, which determines the core and the limits.
      mbed_target: that board's name in Mbed OS, such as `NUCLEO_WB55RG`.
      models: every torch_program that it runs.
      app: files of the application; by default all files of the folder except Bazel's.
      project: its CMakeLists.txt.
      executable_target: the target of add_executable(); the rule's name by default.
      map: the map that Mbed OS writes; by default `<executable_target>.elf.map`.
      float_abi: the float ABI with which Mbed OS links.
      build_type: CMAKE_BUILD_TYPE: Mbed CE supports Debug, Develop and Release.
      definitions: further variables of CMake.
      python_packages: every py_library with packages that the scripts of Mbed OS import.
      heap_stack: the largest stack in bytes that a thread takes from the heap, by default that of Mbed's threads; 0 if all
        have static stacks.
      tags: tags of the image.
      visibility: visibility of all targets.
      **kwargs: attributes of `cmake_firmware_rule`.
    """
    if build_type not in _BUILD_TYPES:
        fail("mbed_firmware %s: build_type = \"%s\"; Mbed CE takes %s" % (name, build_type, _BUILD_TYPES))
    packages = []
    if models:
        torch_package(
            name = name + "_models",
            board = board,
            layout = "cmake",
            models = models,
            tags = ["manual"],
        )
        packages = [name + "_models"]
    executable = executable_target or name
    cmake_firmware(
        name = name,
        srcs = app if app != None else native.glob(["**"], exclude = ["**/BUILD.bazel", "**/*.bzl"]),
        board = board,
        build_type = build_type,
        definitions = {"MBED_TARGET": mbed_target} | definitions,
        executable_target = executable,
        float_abi = float_abi,
        heap_stack = heap_stack,
        libstdcxx = True,
        map = map or executable + ".elf.map",
        own_toolchain = True,
        packages = packages,
        project = project,
        python_packages = python_packages,
        tags = tags,
        trees = {mbed_os: "mbed-os"},
        visibility = visibility,
        **kwargs
    )

_BUILD_TYPES = ["Debug", "Develop", "Release"]
