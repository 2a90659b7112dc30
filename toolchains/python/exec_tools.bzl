"""The toolchain of Python's build tools, for versions of rules_python that have one.

Without a toolchain of this type of the project's own, rules_python resolves its default, and fetches a second CPython for it.
Debian's rules_python is older and has no such type.
"""

_BUILD = """\
load("@rules_python//python:py_exec_tools_toolchain.bzl", "py_exec_tools_toolchain")

# Its interpreter is that of the runtime toolchain, @python3.
py_exec_tools_toolchain(name = "tools")

toolchain(
    name = "python3",
    exec_compatible_with = ["@platforms//os:linux"],
    toolchain = ":tools",
    toolchain_type = "@rules_python//python:exec_tools_toolchain_type",
)
"""

def _python_exec_tools_impl(rctx):
    rules = rctx.path(Label("@rules_python//python:BUILD.bazel")).dirname
    rctx.file("BUILD.bazel", _BUILD if rules.get_child("py_exec_tools_toolchain.bzl").exists else "")

python_exec_tools = repository_rule(
    doc = "`//:all`: the toolchain of the build tools for Python, or nothing if this rules_python knows none.",
    implementation = _python_exec_tools_impl,
)
