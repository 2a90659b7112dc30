"""The `board_program` rule and macro: a program for a board's image."""

load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "board_transition", "core_transition")
load(":providers.bzl", "BoardInfo", "TorchProgramInfo")

def _board_program_impl(ctx):
    program = ctx.attr.program[0]
    return [
        DefaultInfo(files = program[DefaultInfo].files),
        program[OutputGroupInfo],
        program[TorchProgramInfo],
    ]

board_program_rule = rule(
    implementation = _board_program_impl,
    doc = """Builds a torch_program for a board, without an image: the .pte for the board's core and NPU, with its
manifest and reports, for inspection or for the runtime of another project.
""",
    attrs = CORE_TRANSITION_ATTRS | {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], cfg = core_transition, doc = "The torch_program."),
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board to build it for."),
    },
    cfg = board_transition,
    provides = [TorchProgramInfo],
)

def board_program(name, **kwargs):
    """Makes a program for a board. It is exported once for all boards with the same core and no NPU.

    Args:
      name: the program.
      **kwargs: attributes of `board_program_rule`.
    """
    board_program_rule(name = name, core = BOARD_CORE, **kwargs)
