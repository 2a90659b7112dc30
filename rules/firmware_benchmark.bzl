"""The `firmware_benchmark` rule: sizes and instruction counts of images."""

load(":providers.bzl", "FirmwareInfo")
load("//rules/private:emulator.bzl", "QEMU_ATTRS")
load("//rules/private:launcher.bzl", "create_launcher")

def _firmware_benchmark_impl(ctx):
    index = ctx.actions.declare_file(ctx.label.name + ".index.json")
    root = "../" * index.short_path.count("/")
    rows = []
    files = []
    for target, row in ctx.attr.firmware.items():
        firmware = target[FirmwareInfo]
        model, _, variant = row.partition(" ")
        if not variant:
            fail("%s: row '%s' of %s is not 'model variant', such as 'sine float32'" % (ctx.label, row, target.label))
        if not firmware.board.emulated:
            fail("%s: board %s of %s has no emulator" % (ctx.label, firmware.board.name, target.label))
        rows.append({
            "model": model,
            "variant": variant,
            "board": firmware.board.name,
            "elf": root + firmware.elf.short_path,
            "plan": root + firmware.plan.short_path,
            "description": root + firmware.board.description.short_path,
            "report": root + firmware.report_json.short_path,
            "golden": root + firmware.program.golden.short_path,
        })
        files += [firmware.elf, firmware.plan, firmware.board.description, firmware.report_json, firmware.program.golden]
    # Paths are relative to the index, wherever the runfiles are.
    ctx.actions.write(index, json.encode_indent(rows, indent = "  ") + "\n")
    return [
        OutputGroupInfo(index = depset([index])),
        create_launcher(ctx, ctx.attr._benchmark, ["--index", index, "--qemu", ctx.file._qemu], files),
    ]

firmware_benchmark = rule(
    implementation = _firmware_benchmark_impl,
    doc = """`bazel run` prints flash, arenas, stack and instructions of load and inference of each image, measured from
the ELF and in the board's emulator; `-- --json FILE` writes them as a list.""",
    attrs = QEMU_ATTRS | {
        "firmware": attr.label_keyed_string_dict(
            mandatory = True,
            providers = [FirmwareInfo],
            doc = "torch_firmware -> 'model variant', such as 'sine float32'.",
        ),
        "_benchmark": attr.label(default = "//tools/benchmark", executable = True, cfg = "exec"),
    },
    executable = True,
)
