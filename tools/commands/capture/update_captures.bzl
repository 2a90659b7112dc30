"""The `update_captures` rule: `bazel run` makes the documents' pictures of commands."""

load("//rules:launcher.bzl", "create_launcher")
load("//rules:providers.bzl", "BoardBinaryInfo", "FirmwareInfo", "TorchProgramInfo")

def _update_captures_impl(ctx):
    sine = ctx.attr.sine[FirmwareInfo]
    digits = ctx.attr.digits[FirmwareInfo]
    (addr2line,) = [file for file in ctx.files._arm_gnu_toolchain if file.path.endswith("/tools/addr2line")]
    return [create_launcher(ctx, ctx.attr._capture, [
        "--board",
        sine.board.description,
        "--algorithm",
        sine.board.flash_algorithm,
        "--addr2line",
        addr2line,
        "--sine",
        sine.elf,
        sine.hex,
        "--digits",
        digits.elf,
        "--dataset",
        ctx.attr.dataset[TorchProgramInfo].golden,
        "--fault",
        ctx.attr.fault[BoardBinaryInfo].elf,
        "--output",
        ctx.attr.output,
    ], ctx.files._arm_gnu_toolchain)]

update_captures = rule(
    implementation = _update_captures_impl,
    doc = "`bazel run` writes pictures of flash, monitor, infer and plot into a folder of the workspace.",
    attrs = {
        "dataset": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The model digits."),
        "digits": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "Its image for a simulated board."),
        "fault": attr.label(mandatory = True, providers = [BoardBinaryInfo], doc = "An image for that board that faults."),
        "output": attr.string(mandatory = True, doc = "Folder of the pictures, from the workspace's root."),
        "sine": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The model sine's image for that board."),
        "_arm_gnu_toolchain": attr.label(default = "@arm_gnu_toolchain//:compiler_files", cfg = "exec"),
        "_capture": attr.label(default = "//tools/commands/capture", executable = True, cfg = "exec"),
    },
    executable = True,
)
