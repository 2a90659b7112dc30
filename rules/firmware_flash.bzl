"""The `firmware_flash` rule: programs a board."""

load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "FirmwareInfo")

def flash_arguments(firmware):
    """Returns the arguments of //tools/commands/flash for create_launcher.

    Args:
      firmware: FirmwareInfo of the image.

    Returns:
      list of str and File.
    """
    arguments = ["--elf", firmware.elf, "--hex", firmware.hex, "--board", firmware.board.description]
    if firmware.board.flash_algorithm:
        arguments += ["--algorithm", firmware.board.flash_algorithm]
    if firmware.uf2:
        arguments += ["--uf2", firmware.uf2]
    return arguments

def _firmware_flash_impl(ctx):
    return [create_launcher(ctx, ctx.attr._flash, flash_arguments(ctx.attr.firmware[FirmwareInfo]), [])]

firmware_flash = rule(
    implementation = _firmware_flash_impl,
    doc = """`bazel run` programs and verifies the image on the connected board, and resets it. Options after `--`:
`--follow`, `--probe ID`, `--tool openocd`, `--simulate`; `--help` lists them.""",
    attrs = {
        "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The torch_firmware to program."),
        "_flash": attr.label(default = "//tools/commands/flash", executable = True, cfg = "exec"),
    },
    executable = True,
)
