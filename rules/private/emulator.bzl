"""Shared parts of rules that start an emulator."""

load("//rules:launcher.bzl", "create_launcher", "link_apart")
load("//rules:providers.bzl", "FirmwareInfo")
load("//rules/private:toolchain_files.bzl", "tools_of")

visibility(["//rules/..."])

# The target is an argument of create_launcher, which adds the files that Debian's QEMU reads. Beside the script alone
# these are only found if runfiles are links to the repository, which they are not on a remote worker.
QEMU_ATTRS = {
    "_qemu": attr.label(default = "@qemu//:qemu-system-arm", allow_single_file = True, cfg = "exec"),
}

# Rules whose tools also estimate cycles have this: the toolchain's objdump disassembles images.
COUNTING_ATTRS = QEMU_ATTRS | {
    "_arm_gnu_toolchain": attr.label(default = "@arm_gnu_toolchain//:compiler_files", cfg = "exec"),
}

EMULATOR_ATTRS = QEMU_ATTRS | {
    "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The torch_firmware to run."),
    "_emulate": attr.label(default = "//tools/verify/emulate", executable = True, cfg = "exec"),
}

def _check_emulated(ctx, target):
    board = target[FirmwareInfo].board
    if not board.emulated:
        fail("%s: board %s of %s has no emulator; use one with emulator_machine set" % (ctx.label, board.name, target.label))

def write_index(ctx, images):
    """Writes `<name>.index.json`, the images that a tool runs in their boards' emulators.

    Args:
      ctx: rule context.
      images: list of (Target with FirmwareInfo, dict of str with further information for the tool).

    Returns:
      (index, list of the Files that it names, by paths relative to it)
    """
    index = ctx.actions.declare_file(ctx.label.name + ".index.json")

    # Paths are relative to the index, so that they don't depend on the location of runfiles.
    root = "../" * index.short_path.count("/")
    rows = []
    files = []
    for target, row in images:
        _check_emulated(ctx, target)
        firmware = target[FirmwareInfo]
        folder = target.label.package + "/" + target.label.name
        for model in firmware.models or [firmware]:
            named = {
                "elf": firmware.elf,
                "plan": model.plan,
                "description": firmware.board.description,
                "report": firmware.report_json,
                "golden": link_apart(ctx, folder, model.program.golden),
                "manifest": link_apart(ctx, folder, model.program.manifest),
            }
            if model.program.npu_report:
                named["npu"] = link_apart(ctx, folder, model.program.npu_report)
            choice = {"choice": model.program.name} if firmware.models else {}
            if firmware.models and "model" in row:
                # The name of its row in a table.
                choice["model"] = model.program.name
            rows.append(row | choice | {"board": firmware.board.name} | {key: root + file.short_path for key, file in named.items()})
            files += named.values()

    write_index_rows(ctx, index, rows)
    return index, files

def write_index_rows(ctx, index, rows):
    """Writes rows of images to an index, which tools/artifacts/image_index reads.

    Args:
      ctx: rule context.
      index: the File.
      rows: list of dicts, whose paths are relative to the index.
    """
    content = {"format": "index of images", "version": 1, "images": rows}
    ctx.actions.write(index, json.encode_indent(content, indent = "  ") + "\n")

def create_counting_launcher(ctx, tool, index, files):
    """Starts a tool that measures the images of an index.

    Args:
      ctx: rule context with COUNTING_ATTRS.
      tool: the tool's Target.
      index: result of write_index().
      files: list of Files that the index names.

    Returns:
      DefaultInfo
    """
    toolchain = ctx.files._arm_gnu_toolchain
    arguments = ["--index", index, "--qemu", ctx.attr._qemu, "--objdump", tools_of(toolchain)["objdump"]]
    return create_launcher(ctx, tool, arguments, files + toolchain)

def environment_arguments(ctx):
    """Returns the arguments of every execution environment for `ctx.attr.firmware`, for create_launcher."""
    firmware = ctx.attr.firmware[FirmwareInfo]
    image = ["--elf", firmware.elf, "--board", firmware.board.description]
    if firmware.models:
        for model in firmware.models:
            image += ["--one-of", model.program.name, model.program.golden, model.plan, model.program.program, model.program.method]
        return image
    return image + [
        "--plan",
        firmware.plan,
        "--golden",
        firmware.program.golden,
        "--program",
        firmware.program.program,
        "--method",
        firmware.program.method,
    ]

def emulator_arguments(ctx):
    """Returns the arguments of //tools/verify/emulate for `ctx.attr.firmware`, for create_launcher."""
    _check_emulated(ctx, ctx.attr.firmware)
    return environment_arguments(ctx) + ["--qemu", ctx.attr._qemu]
