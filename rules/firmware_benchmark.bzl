"""The `firmware_benchmark` rule: sizes, instruction counts and estimated cycles of images."""

load("//rules/private:emulator.bzl", "COUNTING_ATTRS", "create_counting_launcher", "write_index")
load(":providers.bzl", "FirmwareInfo")

def _firmware_benchmark_impl(ctx):
    images = []
    for target, row in ctx.attr.firmware.items():
        model, _, variant = row.partition(" ")
        if not variant:
            fail("%s: row '%s' of %s is not 'model variant', such as 'sine float32'" % (ctx.label, row, target.label))
        images.append((target, {"model": model, "variant": variant}))
    index, files = write_index(ctx, images)
    return [
        OutputGroupInfo(index = depset([index])),
        create_counting_launcher(ctx, ctx.attr._benchmark, index, files),
    ]

firmware_benchmark = rule(
    implementation = _firmware_benchmark_impl,
    doc = """`bazel run` prints flash, arenas, stack, instructions of load and inference, and estimated cycles of each
image, measured from the ELF and in the board's emulator; `-- --json FILE` writes them as a list, and
`-- --compare FILE` shows their ratios to such a list. A failing image has a row that says so.
""",
    attrs = COUNTING_ATTRS | {
        "firmware": attr.label_keyed_string_dict(
            mandatory = True,
            providers = [FirmwareInfo],
            doc = "torch_firmware -> 'model variant', such as 'sine float32'. If an image has several models that a host can choose, each has a row under its own name.",
        ),
        "_benchmark": attr.label(default = "//tools/commands/benchmark", executable = True, cfg = "exec"),
    },
    executable = True,
)
