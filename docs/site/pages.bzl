"""The `pages` rule: the documents as a site."""

def _pages_impl(ctx):
    folder = ctx.actions.declare_directory(ctx.label.name)
    arguments = ctx.actions.args()
    arguments.add("--output", folder.path)
    arguments.add_all(ctx.files.boards, before_each = "--board")
    arguments.add_all(ctx.files.srcs)
    ctx.actions.run(
        executable = ctx.executable._site,
        arguments = [arguments],
        inputs = ctx.files.srcs + ctx.files.boards,
        outputs = [folder],
        mnemonic = "Site",
        progress_message = "Writing the site of %{label}",
    )
    return [DefaultInfo(files = depset([folder]))]

pages = rule(
    implementation = _pages_impl,
    doc = "Makes a folder of HTML pages of documents; index.html is that of README.md.",
    attrs = {
        "boards": attr.label(allow_files = [".json"], doc = "Definitions of boards, each of which gets a page."),
        "srcs": attr.label_list(mandatory = True, allow_files = True, doc = "Documents and their pictures."),
        "_site": attr.label(default = ":site", executable = True, cfg = "exec"),
    },
)
