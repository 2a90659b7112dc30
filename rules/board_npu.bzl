"""The `board_npu` rule: the NPU of a board, as the build setting //rules:npu names it."""

load(":providers.bzl", "NpuInfo")

def _board_npu_impl(ctx):
    if not ctx.attr.description:
        return [NpuInfo(accelerator = "", description = None)]
    description = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(description, ctx.attr.description + "\n")
    return [
        DefaultInfo(files = depset([description])),
        NpuInfo(accelerator = json.decode(ctx.attr.description)["accelerator"], description = description),
    ]

board_npu = rule(
    implementation = _board_npu_impl,
    doc = "The NPU of a board; every `board()` has one, `<name>.npu`.",
    attrs = {
        "description": attr.string(doc = "What `ethos_u()` returned; empty for a board without an NPU."),
    },
    provides = [NpuInfo],
)
