"""An application of the project of this folder, and the test that runs it."""

load("//rules:defs.bzl", "cmake_firmware", "cmake_firmware_test")
load("//rules:py_tool.bzl", "NIGHTLY")

def application(name, board, packages, models, definitions, is_brief, test_constraints = [], **kwargs):
    """The project with some packages for an emulated board, `name`, and `<name>_test`, which holds their self-tests.

    Args:
      name: the image.
      board: name of the board.
      packages: names of packages, targets of this folder.
      models: list of str, those whose self-tests it runs.
      definitions: CMake's variables besides these.
      is_brief: whether the test is one of each run of all tests, or run at night.
      test_constraints: `target_compatible_with` of the test.
      **kwargs: attributes of `cmake_firmware`.
    """
    cmake_firmware(
        name = name,
        srcs = native.glob(
            ["*"],
            exclude = ["*.bazel", "*.bzl", "sizes_test.py", "stream.py"],
        ),
        board = "//firmware/boards/" + board,
        definitions = definitions | {"MODELS": ";".join(models), "PACKAGES": ";".join(packages)},
        executable_target = "firmware",
        packages = packages,
        project = "CMakeLists.txt",
        summary = False,
        tags = ["manual"],
        **kwargs
    )
    cmake_firmware_test(
        name = name + "_test",
        size = "small",
        firmware = name,
        tags = [] if is_brief else NIGHTLY,
        target_compatible_with = test_constraints,
    )
