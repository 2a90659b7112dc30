"""The `firmware_profile` rule: what each operator of an image takes."""

load(":providers.bzl", "FirmwareInfo")
load("//rules/private:emulator.bzl", "QEMU_ATTRS")
load("//rules/private:launcher.bzl", "create_launcher")
load("//rules/private:transitions.bzl", "profile_transition")

def _firmware_profile_impl(ctx):
    index = ctx.actions.declare_file(ctx.label.name + ".index.json")
    root = "../" * index.short_path.count("/")
    images = []
    files = []
    for target in ctx.attr.firmware:
        firmware = target[FirmwareInfo]
        if not firmware.board.emulated:
            fail("%s: board %s of %s has no emulator" % (ctx.label, firmware.board.name, target.label))
        images.append({
            "board": firmware.board.name,
            "elf": root + firmware.elf.short_path,
            "description": root + firmware.board.description.short_path,
            "manifest": root + firmware.program.manifest.short_path,
        })
        files += [firmware.elf, firmware.board.description, firmware.program.manifest]

    # Paths are relative to the index, wherever the runfiles are.
    ctx.actions.write(index, json.encode_indent(images, indent = "  ") + "\n")
    return [create_launcher(ctx, ctx.attr._profile, ["--index", index, "--qemu", ctx.file._qemu], files)]

firmware_profile = rule(
    implementation = _firmware_profile_impl,
    doc = """`bazel run` measures each operator of an image in its board's emulator: a table and a bar chart of
instructions, multiply-accumulates and the module that the operator comes from. Options after `--`: `--board NAME`,
`--picture FILE`, `--console FILE`; `--help` lists them.""",
    attrs = QEMU_ATTRS | {
        "firmware": attr.label_list(
            mandatory = True,
            cfg = profile_transition,
            providers = [FirmwareInfo],
            doc = "Images with the usual application, of which `--board` chooses one; they are built with //firmware:profiling=on.",
        ),
        "_profile": attr.label(default = "//tools/profile", executable = True, cfg = "exec"),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    executable = True,
)
