"""The `program_hashes` macro: hashes of exported programs, recorded in a file."""

load(":board_program.bzl", "board_program")
load(":launcher.bzl", "create_launcher", "link_apart")
load(":providers.bzl", "TorchProgramInfo")

def _program_hashes_impl(ctx):
    command = "./bazelw run //%s:%s" % (ctx.label.package, ctx.attr.update)
    arguments = ["--recorded", ctx.file.recorded, "--update-command", command]
    if ctx.attr.update == ctx.label.name:
        arguments += ["--update", ctx.file.recorded.path]

    # Boards with the same core, or the same NPU, have the same program, which is listed once.
    programs = {}
    for target, label in ctx.attr.programs.items():
        program = target[TorchProgramInfo]
        programs[(label, program.accelerator or program.core)] = program.program
    for (label, core), program in programs.items():
        label = label.removeprefix("@@")
        arguments += [label, core, link_apart(ctx, core + "/" + label.replace("//", "").replace(":", "/"), program)]
    return [create_launcher(ctx, ctx.attr._hashes, arguments, [])]

_ATTRS = {
    "programs": attr.label_keyed_string_dict(
        mandatory = True,
        providers = [TorchProgramInfo],
        doc = "torch_programs or board_programs of them, with the labels of the torch_programs.",
    ),
    "recorded": attr.label(mandatory = True, allow_single_file = [".txt"], doc = "The file of hashes."),
    "update": attr.string(mandatory = True, doc = "Name of the target in this package that writes the file."),
    "_hashes": attr.label(default = "//tools/verify/reproducibility:hashes", executable = True, cfg = "exec"),
}

_program_hashes_test = rule(
    implementation = _program_hashes_impl,
    doc = "Compares the hashes of programs with recorded ones.",
    attrs = _ATTRS,
    test = True,
)

_program_hashes_update = rule(
    implementation = _program_hashes_impl,
    doc = "Records the hashes of programs in the workspace's file.",
    attrs = _ATTRS,
    executable = True,
)

def program_hashes(name, programs, recorded, **kwargs):
    """Compares programs with recorded hashes, so that every machine builds the same bytes until someone changes them on purpose.

    Creates the test `<name>_test` and `update_<name>`, which records the current programs, as
    `./bazelw run //models:update_program_hashes` does.

    Args:
      name: name of the targets.
      programs: dict of labels of torch_programs to the lists of labels of boards that each is exported for; a portable
        program is the same for any, and one for VGF has an empty list.
      recorded: the file of hashes, in this package: a line per program and core.
      **kwargs: attributes of the test, such as `target_compatible_with`.
    """
    board_programs = {}
    for program, boards in programs.items():
        label = native.package_relative_label(program)
        for board in boards:
            target = "%s/%s/%s/%s" % (name, native.package_relative_label(board).name, label.package, label.name)
            board_program(name = target, board = board, program = program, tags = ["manual"])
            board_programs[target] = str(label)
        if not boards:
            board_programs[program] = str(label)
    arguments = {
        "programs": board_programs,
        "recorded": recorded,
        "update": "update_" + name,
    }
    _program_hashes_test(name = name + "_test", size = "small", **(arguments | kwargs))
    _program_hashes_update(name = "update_" + name, tags = ["manual"], **arguments)
