"""The `cmake_firmware_test` rule: a firmware project's image in its board's emulator."""

load("//rules/private:emulator.bzl", "QEMU_ATTRS")
load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "FirmwareInfo")

def _cmake_firmware_test_impl(ctx):
    firmware = ctx.attr.firmware[FirmwareInfo]
    if not firmware.board.emulated:
        fail("%s: board %s of %s has no emulator; use one with emulator_machine set" % (ctx.label, firmware.board.name, ctx.attr.firmware.label))
    arguments = ["--elf", firmware.elf, "--board", firmware.board.description, "--qemu", ctx.attr._qemu]
    for line in ctx.attr.expect:
        arguments += ["--expect", line]
    return [create_launcher(ctx, ctx.attr._run_firmware, arguments, [])]

cmake_firmware_test = rule(
    implementation = _cmake_firmware_test_impl,
    doc = """Runs an image of cmake_firmware in QEMU. The test passes when the console has shown the expected text, in
order; without `expect`, when the image exits by Arm's semihosting with status 0.
""",
    attrs = QEMU_ATTRS | {
        "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The cmake_firmware."),
        "expect": attr.string_list(doc = "Parts of lines of the console."),
        "_run_firmware": attr.label(default = "//tools/verify/run_firmware", executable = True, cfg = "exec"),
    },
    test = True,
)
