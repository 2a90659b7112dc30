"""The `firmware_flash` rule: programs a board."""

load(":providers.bzl", "FirmwareInfo")
load("//rules/private:launcher.bzl", "create_launcher")

def _firmware_flash_impl(ctx):
    firmware = ctx.attr.firmware[FirmwareInfo]
    return [create_launcher(ctx, ctx.attr._flash, [
        "--elf",
        firmware.elf,
        "--hex",
        firmware.hex,
        "--board",
        firmware.board.description,
    ], [])]

firmware_flash = rule(
    implementation = _firmware_flash_impl,
    doc = """`bazel run` programs and verifies the image on the connected board, and resets it. Options after `--`:
`--follow`, `--probe ID`, `--tool openocd`; `--help` lists them.""",
    attrs = {
        "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The torch_firmware to program."),
        "_flash": attr.label(default = "//tools/flash", executable = True, cfg = "exec"),
    },
    executable = True,
)
