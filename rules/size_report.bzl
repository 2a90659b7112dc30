"""The `size_report` rule: flash and RAM of several images side by side."""

load(":providers.bzl", "FirmwareInfo")

def _size_report_impl(ctx):
    firmware = [target[FirmwareInfo] for target in ctx.attr.firmware]
    text = ctx.actions.declare_file(ctx.label.name + ".txt")
    data = ctx.actions.declare_file(ctx.label.name + ".json")
    arguments = ctx.actions.args()
    arguments.add_all([f.report_json for f in firmware], before_each = "--compare")
    arguments.add("--text", text)
    arguments.add("--json", data)
    ctx.actions.run(
        executable = ctx.executable._report,
        arguments = [arguments],
        inputs = [f.report_json for f in firmware],
        outputs = [text, data],
        mnemonic = "SizeReport",
        progress_message = "Comparing sizes for %{label}",
    )
    return [DefaultInfo(files = depset([text, data]))]

size_report = rule(
    implementation = _size_report_impl,
    doc = "Compares the size reports of images in a table, in text and JSON, and prints it.",
    attrs = {
        "firmware": attr.label_list(mandatory = True, allow_empty = False, providers = [FirmwareInfo], doc = "The torch_firmware targets."),
        "_report": attr.label(default = "//tools/pipeline/report", executable = True, cfg = "exec"),
    },
)
