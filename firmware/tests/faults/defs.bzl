"""Boards whose start-up code has a mistake, for tests of the board simulator."""

load("@rules_cc//cc:cc_library.bzl", "cc_library")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:board_binary.bzl", "board_binary")
load("//rules:copts.bzl", "COPTS")
load("//rules:providers.bzl", "BoardInfo")

def _changed_source_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".c")
    ctx.actions.expand_template(template = ctx.file.src, output = output, substitutions = ctx.attr.replace)
    return [DefaultInfo(files = depset([output]))]

_changed_source = rule(
    implementation = _changed_source_impl,
    doc = "A C file with text replaced.",
    attrs = {
        "replace": attr.string_dict(mandatory = True, doc = "Text to look for -> text in its place."),
        "src": attr.label(mandatory = True, allow_single_file = [".c"], doc = "The C file."),
    },
)

def _other_board_impl(ctx):
    board = ctx.attr.board[BoardInfo]
    return [board, cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps])]

_other_board = rule(
    implementation = _other_board_impl,
    doc = "A board with the definition of another one, but its own code.",
    attrs = {
        "board": attr.label(mandatory = True, providers = [BoardInfo], doc = "The board whose definition it has."),
        "deps": attr.label_list(mandatory = True, providers = [CcInfo], doc = "Its code."),
    },
    provides = [BoardInfo, CcInfo],
)

def faulty_image(name, board, core, sources, parts, replace):
    """An image that prints PASS, for a board with mistakes in its code.

    Args:
      name: name of the image.
      board: name of the board below //firmware/boards.
      core: its core, a value of //platforms:core.
      sources: labels of the board's C files that can have mistakes.
      parts: label of the rest of its code.
      replace: dict: text of one of the files -> what stands there instead.
    """
    changed = []
    for source in sources:
        changed.append("%s.%s" % (name, Label(source).name))
        _changed_source(name = changed[-1], src = source, replace = replace)
    cc_library(
        name = name + ".support",
        srcs = changed,
        # Code that a mistake leaves out is not used.
        copts = COPTS + ["-Wno-unused-function"],
        tags = ["manual"],
        target_compatible_with = [Label("@platforms//os:none")],
        deps = [
            parts,
            "//firmware:board_api",
            "//firmware/cortex_m:hardware",
            "//firmware/cortex_m:startup",
            "//runtime:config",
        ],
        alwayslink = True,
    )
    native.platform(name = name + ".variant.platform", parents = [Label("//platforms:" + core)])
    _other_board(
        name = name + ".variant",
        board = "//firmware/boards/" + board,
        target_compatible_with = [Label("@platforms//os:none"), Label("//platforms:core_" + core)],
        tags = ["manual"],
        deps = [":%s.support" % name],
    )
    board_binary(
        name = name,
        srcs = ["hello.cpp"],
        board = ":%s.variant" % name,
        deps = ["//firmware:console_text"],
    )
