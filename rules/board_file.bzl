"""The `board_file` rule: provides files that are built for a board to targets that are not."""

load("//rules/private:transitions.bzl", "firmware_transition")
load(":providers.bzl", "BoardInfo")

def _board_file_impl(ctx):
    return [DefaultInfo(files = depset(ctx.files.src))]

board_file = rule(
    implementation = _board_file_impl,
    doc = "Provides the files of a target, built for a board's platform, to targets that are not.",
    attrs = {
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board."),
        "console": attr.string(default = "on", values = ["on", "off"], doc = "Has no effect, but the transition reads it."),
        "src": attr.label(mandatory = True, doc = "The target."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    cfg = firmware_transition,
)
