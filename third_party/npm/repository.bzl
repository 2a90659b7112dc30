"""Libraries out of npm packages: JavaScript of pages, one file of each, which is whole in itself, and C sources."""

load(":registry.bzl", "npm_url")

_BUILD = """\
exports_files(["{file}", "LICENSE"], visibility = ["//visibility:public"])
"""

def _npm_library_impl(rctx):
    rctx.download_and_extract(
        url = npm_url(rctx, rctx.attr.package, rctx.attr.version),
        sha256 = rctx.attr.sha256,
        stripPrefix = "package",
    )
    for file in rctx.path(".").readdir():
        if file.basename not in [rctx.attr.file.partition("/")[0], "LICENSE"]:
            rctx.delete(file)
    if rctx.attr.build_file:
        rctx.symlink(rctx.attr.build_file, "BUILD.bazel")
    else:
        rctx.file("BUILD.bazel", _BUILD.format(file = rctx.attr.file))

npm_library = repository_rule(
    doc = "A file or folder of an npm package, and its licence.",
    implementation = _npm_library_impl,
    attrs = {
        "build_file": attr.label(doc = "The repository's BUILD.bazel; by default it exports the file."),
        "file": attr.string(doc = "The path in the package of the file, or of the folder.", mandatory = True),
        "package": attr.string(doc = "The package's name.", mandatory = True),
        "sha256": attr.string(doc = "Of the package's archive.", mandatory = True),
        "version": attr.string(doc = "The package's version.", mandatory = True),
    },
)
