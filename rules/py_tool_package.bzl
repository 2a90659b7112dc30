"""The `py_tool_package` macro: declares a folder with a Python tool, or a library for tools, and its tests."""

load("@rules_python//python:py_library.bzl", "py_library")
load(":py_tool.bzl", "py_tool", "py_tool_test")

def py_tool_package(name, args = [], data = [], deps = [], module = "", test_data = [], test_deps = [], test_env = {}, test_size = "small"):
    """Declares the targets of a folder of Python files.

    Creates the `py_library` `lib` of all files besides tests, the `py_tool` `<name>` if there is a `__main__.py` or a
    `module`, and the `py_tool_test` `<name>_test` of all files `*_test.py`.

    Args:
      name: the folder's name.
      args: arguments that the tool is started with, before the user's.
      data: files that the library reads at run time.
      deps: dependencies of the library.
      module: the module that the tool runs, of a folder without `__main__.py`.
      test_data: files that the tests read, besides those that test_env names.
      test_deps: dependencies of tests besides the library.
      test_env: environment variables of the tests; $(rootpath ...) of targets is expanded.
      test_size: Bazel's test size.
    """
    py_library(
        name = "lib",
        srcs = native.glob(["*.py"], exclude = ["*_test.py"]),
        data = data,
        deps = deps,
    )
    if module or native.glob(["__main__.py"], allow_empty = True):
        py_tool(name = name, args = args, module = module, deps = [":lib"])
    py_tool_test(
        name = name + "_test",
        size = test_size,
        srcs = native.glob(["*_test.py"]),
        data = test_data,
        env = test_env,
        deps = [":lib"] + test_deps,
    )
