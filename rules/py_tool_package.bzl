"""The `py_tool_package` macro: declares a folder with a Python tool, or a library for tools, and its tests."""

load("@rules_python//python:py_library.bzl", "py_library")
load(":py_tool.bzl", "py_tool", "py_tool_test")

# The rooms of tools/ whose package groups are in tools/BUILD.bazel.
_ROOMS = ["artifacts", "commands", "pipeline", "verify"]

def py_tool_package(name, data = [], deps = [], env = {}, module = "", test_data = [], test_deps = [], test_env = {}, test_size = "small", tool = False, visibility = None):
    """Declares the targets of a folder of Python files.

    Creates the `py_library` `lib` of all files besides tests, the `py_tool` `<name>` of a `tool`, of a `module`
    or of a `__main__.py`, and the `py_tool_test` `<name>_test` of all files `*_test.py`, if there are any.

    Args:
      name: the folder's name.
      data: files that the library reads at run time.
      deps: dependencies of the library.
      env: environment variables of the tool under `bazel run`; $(rootpath ...) of `data` is expanded.
      module: the module that the tool runs, if it isn't the one with the folder's name.
      test_data: files that the tests read, besides those that test_env names.
      test_deps: dependencies of tests besides the library.
      test_env: environment variables of the tests; $(rootpath ...) of targets is expanded.
      test_size: Bazel's test size.
      tool: whether the folder is a tool: main() of its module with the folder's name.
      visibility: of all targets; by default, a room of tools/ is visible to those above it, and others to what their
        package says.
    """
    room = native.package_name().removeprefix("tools/").partition("/")[0]
    if room in _ROOMS and not visibility:
        visibility = ["//tools:above_" + room]
    py_library(
        name = "lib",
        srcs = native.glob(["*.py"], exclude = ["*_test.py"]),
        data = data,
        visibility = visibility,
        deps = deps,
    )
    if tool or module or native.glob(["__main__.py"], allow_empty = True):
        py_tool(name = name, data = data, env = env, module = module, visibility = visibility, deps = [":lib"])
    tests = native.glob(["*_test.py"], allow_empty = True)
    if tests:
        py_tool_test(
            name = name + "_test",
            size = test_size,
            srcs = tests,
            data = test_data,
            env = test_env,
            visibility = visibility,
            deps = [":lib"] + test_deps,
        )
