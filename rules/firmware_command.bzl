"""The `firmware_command` rule: runs a tool on an image on a board, in an emulator or on the simulator."""

load("//rules/private:emulator.bzl", "QEMU_ATTRS")
load("//rules/private:toolchain_files.bzl", "tools_of")
load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "FirmwareInfo")

def _firmware_command_impl(ctx):
    firmware = ctx.attr.firmware[FirmwareInfo]
    if "files" in ctx.attr.uses:
        arguments = []
        for file in ctx.attr.firmware[DefaultInfo].files.to_list():
            arguments += ["--file", file]
    else:
        arguments = ["--elf", firmware.elf, "--board", firmware.board.description]
    files = []
    if "qemu" in ctx.attr.uses and firmware.board.emulated:
        arguments += ["--qemu", ctx.attr._qemu]
    if "algorithm" in ctx.attr.uses and firmware.board.flash_algorithm:
        arguments += ["--algorithm", firmware.board.flash_algorithm]
    if "report" in ctx.attr.uses:
        arguments += ["--report", firmware.report_json]
    if "golden" in ctx.attr.uses and firmware.program:
        arguments += ["--golden", firmware.program.golden]
    if "addr2line" in ctx.attr.uses:
        files = ctx.files._arm_gnu_toolchain
        arguments += ["--addr2line", tools_of(files)["addr2line"]]
    return [create_launcher(ctx, ctx.attr.tool, arguments, files)]

firmware_command = rule(
    implementation = _firmware_command_impl,
    doc = """`bazel run` starts a tool for an image. The tool gets `--elf`, `--board` and the options for `uses`, or
`--file` for each of the image's files, followed by the user's arguments after `--`.
""",
    attrs = QEMU_ATTRS | {
        "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The torch_firmware."),
        "tool": attr.label(mandatory = True, executable = True, cfg = "exec", doc = "The tool, such as //tools/commands/infer."),
        "uses": attr.string_list(doc = "Options with files that the tool gets: `qemu`, `algorithm` (if the board has one), `report`, `golden` (of the first model) and `addr2line`; or `files`, see above."),
        "_arm_gnu_toolchain": attr.label(default = "@arm_gnu_toolchain//:compiler_files", cfg = "exec"),
    },
    executable = True,
)
