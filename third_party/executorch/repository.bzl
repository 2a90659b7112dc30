"""ExecuTorch's public C++ headers, program schema and operator lists, taken out of its wheel."""

load("//third_party:shared.bzl", "shared_restore", "shared_store")
load("//third_party/python:repository.bzl", "PIP_ENVIRON", "install_packages")

# Copies out of the installed package $1.
_COPY = """\
set -eu
cp -R "$1/include" .
cp "$1"-*.dist-info/licenses/LICENSE .
here=$PWD
cd "$1"
find . '(' -name '*.fbs' -o -name '*.yaml' ')' -not -path './include/*' -exec cp --parents -t "$here" {} +
"""

_BUILD = """\
load("@rules_cc//cc:cc_library.bzl", "cc_library")

package(default_visibility = ["//visibility:public"])

# The public API that //runtime implements. The headers bring PyTorch's few header-only parts (c10) along; the
# definition tells those that there is no file of build settings.
cc_library(
    name = "headers",
    hdrs = glob(["include/**/*.h"]),
    defines = ["C10_USING_CUSTOM_GENERATED_MACROS"],
    includes = [
        "include",
        "include/executorch/runtime/core/portable_type/c10",
    ],
)

filegroup(
    name = "header_files",
    srcs = glob(["include/**/*.h"]),
)

exports_files(["LICENSE", "version.txt"] + glob(["schema/*.fbs", "**/*.yaml"]))
"""

def _executorch_impl(rctx):
    lock = rctx.path(rctx.attr.lock)
    decisive = [line for line in rctx.read(lock).split("\n") if line.startswith("executorch==")]
    if not shared_restore(rctx, "executorch", decisive + [_COPY]):
        # The wheel by itself: C++ needn't wait for PyTorch.
        install_packages(rctx, rctx.path(rctx.attr.python).dirname.get_child("python"), lock, only = ["executorch"])
        rctx.file("copy.sh", _COPY, executable = False)
        result = rctx.execute(["sh", "copy.sh", "site-packages/executorch"])
        if result.return_code:
            fail(result.stderr)
        rctx.delete("copy.sh")
        rctx.delete("site-packages")
        shared_store(rctx, "executorch")
    for patch in rctx.attr.patches:
        rctx.patch(patch, strip = 1)
    rctx.file("version.txt", decisive[0].removeprefix("executorch==").partition(" ")[0] + "\n", executable = False)
    rctx.file("BUILD.bazel", _BUILD)

executorch = repository_rule(
    doc = "`//:headers`, the schema and lists of operators as files with the paths they have in the wheel, and `version.txt`.",
    implementation = _executorch_impl,
    attrs = {
        "lock": attr.label(doc = "Requirements with hashes; only the line of executorch counts.", mandatory = True),
        "patches": attr.label_list(doc = "Patches (-p1) on the files taken, each of which says at its head what it mends."),
        "python": attr.label(doc = "BUILD.bazel of a `python3` repository.", mandatory = True),
    },
    environ = PIP_ENVIRON,
)
