"""The action that profiles an image."""

load(":emulator.bzl", "COUNTING_ATTRS", "write_index_rows")
load(":toolchain_files.bzl", "tools_of")

visibility(["//rules/..."])

PROFILE_ATTRS = COUNTING_ATTRS | {
    "_profile": attr.label(default = "//tools/commands/profile", executable = True, cfg = "exec"),
    "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
}

def profile_image(ctx, firmware, folder):
    """Measures an image in its board's emulator.

    Args:
      ctx: rule context, with PROFILE_ATTRS.
      firmware: FirmwareInfo of the image, which was built with profile_transition.
      folder: path below the package for what it writes.

    Returns:
      File, the rows of the profile.
    """
    index = ctx.actions.declare_file(folder + "/index.json")
    named = {
        "description": firmware.board.description,
        "elf": firmware.elf,
        "golden": firmware.program.golden,
        "manifest": firmware.program.manifest,
        "plan": firmware.plan,
        "report": firmware.report_json,
    }

    # Its paths are relative to it.
    root = "../" * index.path.count("/")
    write_index_rows(ctx, index, [{"board": firmware.board.name} | {key: root + file.path for key, file in named.items()}])
    rows = ctx.actions.declare_file(folder + "/profile.json")
    toolchain = ctx.files._arm_gnu_toolchain
    arguments = ctx.actions.args()
    arguments.add("--index", index)
    arguments.add("--qemu", ctx.file._qemu)
    arguments.add("--objdump", tools_of(toolchain)["objdump"])
    arguments.add("--json", rows)
    arguments.add("--quiet")
    ctx.actions.run(
        executable = ctx.executable._profile,
        arguments = [arguments],
        inputs = depset(
            [index, ctx.file._qemu] + named.values() + toolchain,
            transitive = [ctx.attr._qemu[DefaultInfo].default_runfiles.files],
        ),
        outputs = [rows],
        mnemonic = "FirmwareProfile",
        progress_message = "Profiling %s on %s for %%{label}" % (firmware.program.name, firmware.board.name),
    )
    return rows
