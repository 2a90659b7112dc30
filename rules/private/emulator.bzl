"""What rules that start an emulator share."""

load("//rules:providers.bzl", "FirmwareInfo")

QEMU_ATTRS = {
    "_qemu": attr.label(default = "@qemu//:qemu-system-arm", allow_single_file = True, cfg = "exec"),
}

EMULATOR_ATTRS = QEMU_ATTRS | {
    "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The torch_firmware to run."),
    "_emulate": attr.label(default = "//tools/emulate", executable = True, cfg = "exec"),
}

def emulator_arguments(ctx):
    """Arguments of //tools/emulate for `ctx.attr.firmware`, as create_launcher takes them."""
    firmware = ctx.attr.firmware[FirmwareInfo]
    if not firmware.board.emulated:
        fail("%s: board %s has no emulator; use one with emulator_machine set" % (ctx.label, firmware.board.name))
    return [
        "--elf",
        firmware.elf,
        "--board",
        firmware.board.description,
        "--plan",
        firmware.plan,
        "--qemu",
        ctx.file._qemu,
        "--golden",
        firmware.program.golden,
        "--manifest",
        firmware.program.manifest,
    ]
