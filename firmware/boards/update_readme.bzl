"""The `update_readme` rule: `bazel run` writes the tables of boards into documents."""

load("//rules:launcher.bzl", "create_launcher")

def _update_readme_impl(ctx):
    return [create_launcher(ctx, ctx.attr._table, ctx.files.boards + ["--brief", ctx.attr.brief, "--full", ctx.attr.full], [])]

update_readme = rule(
    implementation = _update_readme_impl,
    doc = "`bazel run` writes the tables of boards into documents of the workspace.",
    attrs = {
        "boards": attr.label(mandatory = True, doc = "The boards' definitions."),
        "brief": attr.string(mandatory = True, doc = "Path, from the workspace's root, of the document with the short table."),
        "full": attr.string(mandatory = True, doc = "Path of the one with all that definitions say."),
        "_table": attr.label(default = "//tools/artifacts/board:table", executable = True, cfg = "exec"),
    },
    executable = True,
)
