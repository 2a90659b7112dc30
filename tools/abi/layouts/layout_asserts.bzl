"""The `layout_asserts` rule: a C++ source that holds layouts.py to the headers."""

def _layout_asserts_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".cpp")
    arguments = ctx.actions.args()
    arguments.add("--output", output)
    ctx.actions.run(
        executable = ctx.executable._asserts,
        arguments = [arguments],
        outputs = [output],
        mnemonic = "LayoutAsserts",
        progress_message = "Generating the assertions %{label}",
    )
    return [DefaultInfo(files = depset([output]))]

layout_asserts = rule(
    implementation = _layout_asserts_impl,
    doc = "Writes `<name>.cpp`, a static_assert for each number and each field of layouts.py.",
    attrs = {
        "_asserts": attr.label(default = "//tools/abi/layouts:generate", executable = True, cfg = "exec"),
    },
)
