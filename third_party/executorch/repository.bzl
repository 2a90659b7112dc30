"""ExecuTorch's public C++ headers, program schema and operator lists, taken out of its wheel."""

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

exports_files(glob(["schema/*.fbs", "**/*.yaml"]))
"""


def _executorch_impl(rctx):
    package = rctx.path(rctx.attr.pypi).dirname.get_child("site-packages", "executorch")
    if not package.exists:
        fail("The wheel of executorch is not among the packages of {}.".format(rctx.attr.pypi))
    rctx.file("copy.sh", """\
set -eu
cp -R "$1/include" .
cd "$1"
find . '(' -name '*.fbs' -o -name '*.yaml' ')' -not -path './include/*' | while IFS= read -r file; do
  mkdir -p "$2/$(dirname "$file")"
  cp "$file" "$2/$file"
done
""", executable = False)
    result = rctx.execute(["sh", "copy.sh", str(package), str(rctx.path("."))])
    if result.return_code:
        fail(result.stderr)
    rctx.delete("copy.sh")
    for patch in rctx.attr.patches:
        rctx.patch(patch, strip = 1)
    rctx.file("BUILD.bazel", _BUILD)

executorch = repository_rule(
    doc = "`//:headers`, and the schema and lists of operators as files with the paths they have in the wheel.",
    implementation = _executorch_impl,
    attrs = {
        "patches": attr.label_list(doc = "Patches (-p1) on the files taken, each of which says at its head what it mends."),
        "pypi": attr.label(doc = "BUILD.bazel of the `pypi` repository.", mandatory = True),
    },
)
