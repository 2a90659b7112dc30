"""The `update_readme` rule: `bazel run` writes the table of boards into a document."""

load("//rules:launcher.bzl", "create_launcher")

def _update_readme_impl(ctx):
    return [create_launcher(ctx, ctx.attr._table, ctx.files.boards + ["--document", ctx.attr.document], [])]

update_readme = rule(
    implementation = _update_readme_impl,
    doc = "`bazel run` writes the table of boards into a document of the workspace.",
    attrs = {
        "boards": attr.label(mandatory = True, doc = "The boards' definitions."),
        "document": attr.string(mandatory = True, doc = "Path of the document from the workspace's root."),
        "_table": attr.label(default = "//tools/artifacts/board:table", executable = True, cfg = "exec"),
    },
    executable = True,
)
