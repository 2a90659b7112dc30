"""The `board_definition` rule: provides a board's definition to targets that are not built for it."""

load("//rules/private:transitions.bzl", "firmware_transition")
load(":providers.bzl", "BoardInfo")

def _board_definition_impl(ctx):
    return [DefaultInfo(files = depset([ctx.attr.board[BoardInfo].description]))]

board_definition = rule(
    implementation = _board_definition_impl,
    doc = "Provides a board's board.json to targets that are not built for the board.",
    attrs = {
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board."),
        "console": attr.string(default = "on", values = ["on", "off"], doc = "Has no effect, but the transition reads it."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    cfg = firmware_transition,
)
