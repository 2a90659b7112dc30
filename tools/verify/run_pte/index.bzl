"""The `runner_index` rule: where run_pte finds its runner images."""

load("//rules:providers.bzl", "BoardBinaryInfo")

def _runner_index_impl(ctx):
    runners = {}
    files = [ctx.file.qemu]
    for target in ctx.attr.images:
        image = target[BoardBinaryInfo]
        runners[image.board.name] = {"binary": image.elf.short_path, "board": image.board.description.short_path}
        files += [image.elf, image.board.description]
    runfiles = ctx.runfiles(files).merge(ctx.attr.qemu[DefaultInfo].default_runfiles)
    if ctx.attr.host:
        binary = ctx.executable.host
        runners["host"] = {"binary": binary.short_path, "board": None}
        runfiles = runfiles.merge(ctx.runfiles([binary])).merge(ctx.attr.host[DefaultInfo].default_runfiles)
    index = ctx.actions.declare_file(ctx.label.name + ".json")
    ctx.actions.write(index, json.encode_indent({"qemu": ctx.file.qemu.short_path, "runners": runners}, indent = "  ") + "\n")
    return [DefaultInfo(files = depset([index]), runfiles = runfiles.merge(ctx.runfiles([index])))]

runner_index = rule(
    implementation = _runner_index_impl,
    doc = "Writes `<name>.json`: paths in the runfiles of the emulator and, per board, of the runner image and the board's definition.",
    attrs = {
        "host": attr.label(executable = True, cfg = "target", doc = "The runner for this machine, where it has a compiler."),
        "images": attr.label_list(providers = [BoardBinaryInfo], doc = "Runner images, one per board."),
        "qemu": attr.label(default = "@qemu//:qemu-system-arm", allow_single_file = True, doc = "The emulator."),
    },
)
