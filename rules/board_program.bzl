"""The `board_program` rule: a program as a board's image would have it."""

load("//rules/private:transitions.bzl", "board_transition")
load(":providers.bzl", "BoardInfo", "TorchProgramInfo")

def _board_program_impl(ctx):
    program = ctx.attr.program
    return [
        DefaultInfo(files = program[DefaultInfo].files),
        program[OutputGroupInfo],
        program[TorchProgramInfo],
    ]

board_program = rule(
    implementation = _board_program_impl,
    doc = """Builds a torch_program for a board, without an image: the .pte for the board's core and NPU, with its manifest and
reports, for a runtime of another project or to look at.""",
    attrs = {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The torch_program."),
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board to build it for."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    cfg = board_transition,
    provides = [TorchProgramInfo],
)
