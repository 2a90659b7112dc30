"""The `firmware_prove` rule: proves an image on a board."""

load("//rules/private:page.bzl", "PAGE_ATTRS", "describe_graph")
load("//rules/private:toolchain_files.bzl", "tools_of")
load("//rules/private:transitions.bzl", "profile_transition")
load(":firmware_flash.bzl", "flash_arguments")
load(":launcher.bzl", "create_launcher", "link_apart")
load(":providers.bzl", "FirmwareInfo")

def _firmware_prove_impl(ctx):
    (target,) = ctx.attr.firmware
    firmware = target[FirmwareInfo]
    if firmware.models:
        fail("%s: the image has several models; prove an image of each" % ctx.label)
    (spdx,) = [file for file in target[DefaultInfo].files.to_list() if file.basename.endswith(".spdx.json")]
    program = firmware.program
    apart = {file: link_apart(ctx, "program", file) for file in [program.golden, program.manifest, program.program, program.report] if file}
    toolchain = ctx.files._arm_gnu_toolchain
    arguments = flash_arguments(firmware) + [
        "--golden",
        apart[program.golden],
        "--manifest",
        apart[program.manifest],
        "--program",
        apart[program.program],
        "--spdx",
        spdx,
        "--objdump",
        tools_of(toolchain)["objdump"],
        "--sizes",
        firmware.report_json,
        "--graph",
        describe_graph(ctx, firmware, ctx.label.name + ".data"),
    ]
    for target in ctx.attr.layers:
        image = target[FirmwareInfo]
        files = [link_apart(ctx, image.program.name, file) for file in [image.program.golden, image.program.manifest, image.program.program]]
        arguments += ["--layers", image.elf, image.hex] + files + ([image.uf2] if image.uf2 else [])
    arguments += ["--quantization", apart[program.report]] if program.report else []
    for option, files in {"--library": ctx.files._libraries, "--licence": ctx.files._licences}.items():
        for file in files:
            arguments += [option, file]
    return [create_launcher(ctx, ctx.attr._prove, arguments, toolchain)]

firmware_prove = rule(
    implementation = _firmware_prove_impl,
    doc = """`bazel run` programs a board, runs the model's golden inputs over the console, then those of `layers`, compares with PyTorch, and writes
`board_report.json` and `board_report.html` where it is started. Options after `--`: those of `<name>.flash`, `--simulate`, `--report FILE`; `--help` lists them.""",
    attrs = PAGE_ATTRS | {
        "firmware": attr.label(
            mandatory = True,
            cfg = profile_transition,
            providers = [FirmwareInfo],
            doc = "The torch_firmware with the usual application; it is built with //firmware:profiling=on.",
        ),
        "layers": attr.label_list(
            cfg = profile_transition,
            providers = [FirmwareInfo],
            doc = "Further images for the same board, with layers of each kind: each is programmed, compared and measured, too.",
        ),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
        "_arm_gnu_toolchain": attr.label(default = "@arm_gnu_toolchain//:compiler_files", cfg = "exec"),
        "_prove": attr.label(default = "//tools/commands/prove", executable = True, cfg = "exec"),
    },
    executable = True,
)
