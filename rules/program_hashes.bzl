"""The `program_hashes` macro: hashes of exported programs, recorded in a file."""

load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "TorchProgramInfo")

def _boards_impl(_settings, attr):
    # As firmware_transition, so that a firmware_test of the board has exported the program.
    return {
        board: {"//command_line_option:platforms": [board + ".platform"]}
        for board in attr.boards
    }

_boards = transition(
    implementation = _boards_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

def _program_hashes_impl(ctx):
    command = "./bazelw run //%s:%s" % (ctx.label.package, ctx.attr.update)
    arguments = ["--recorded", ctx.file.recorded, "--update-command", command]
    if ctx.attr.update == ctx.label.name:
        arguments += ["--update", ctx.file.recorded.path]

    # A portable program is the same target for all boards, and listed for one of them.
    for label, boards in ctx.attr.program_boards.items():
        programs = {}
        for board, targets in ctx.split_attr.programs.items():
            for target in targets:
                program = target[TorchProgramInfo]
                if str(target.label) == label and (board in boards or program.core == "portable"):
                    programs[program.core] = program
        for core, program in programs.items():
            arguments += [label.removeprefix("@@"), core, program.program]
    return [create_launcher(ctx, ctx.attr._hashes, arguments, [])]

_ATTRS = {
    "programs": attr.label_list(mandatory = True, providers = [TorchProgramInfo], cfg = _boards, doc = "The torch_programs."),
    "program_boards": attr.string_list_dict(mandatory = True, doc = "Labels of the boards that each of programs, by its label, is exported for."),
    "boards": attr.string_list(mandatory = True, doc = "All of these boards. A board itself is for its own platform only."),
    "recorded": attr.label(mandatory = True, allow_single_file = [".txt"], doc = "The file of hashes."),
    "update": attr.string(mandatory = True, doc = "Name of the target in this package that writes the file."),
    "_hashes": attr.label(default = "//tools/verify/reproducibility:hashes", executable = True, cfg = "exec"),
    "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
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

def program_hashes(name, programs, recorded):
    """Holds programs to the bytes that they had: on every machine that builds them, and until someone means to change them.

    Creates the test `<name>_test` and `update_<name>`, which records what the programs are now:

        ./bazelw run //models:update_program_hashes

    Args:
      name: of the targets.
      programs: dict of labels of torch_programs to the lists of labels of boards that each is exported for; a portable
        program is the same for any.
      recorded: the file of hashes, in this package: a line per program and core.
    """
    program_boards = {
        str(native.package_relative_label(program)): [str(native.package_relative_label(board)) for board in boards]
        for program, boards in programs.items()
    }
    arguments = {
        "programs": list(programs),
        "program_boards": program_boards,
        "boards": sorted({board: True for boards in program_boards.values() for board in boards}),
        "recorded": recorded,
        "update": "update_" + name,
    }
    _program_hashes_test(name = name + "_test", size = "small", **arguments)
    _program_hashes_update(name = "update_" + name, tags = ["manual"], **arguments)
