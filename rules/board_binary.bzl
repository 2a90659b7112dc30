"""The `board_binary` rule and macro: an image without a program."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc")
load("//rules/private:image.bzl", "link_image")
load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "LIBRARY_CORE", "LIBRARY_TRANSITION_ATTRS", "core_transition", "firmware_transition", "library_transition")
load(":providers.bzl", "BoardBinaryInfo", "BoardInfo")

def _board_binary_impl(ctx):
    board = ctx.attr.board[0][BoardInfo]
    cc = configure_cc(ctx)
    deps = [dep[CcInfo] for dep in ctx.attr.deps + ctx.attr.board]
    _, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = ctx.files.srcs,
        hdrs = [],
        include_directories = [],
        deps = deps,
        defines = ctx.attr.local_defines,
    )
    elf = link_image(ctx, cc, ctx.label.name, board, [outputs], deps)
    return [
        DefaultInfo(files = depset([elf, board.description])),
        BoardBinaryInfo(board = board, elf = elf),
    ]

board_binary_rule = rule(
    implementation = _board_binary_impl,
    doc = """Links sources and libraries with a board's start-up code into `<name>.elf`. The board's definition, which
emulation needs, comes with it.
""",
    attrs = CORE_TRANSITION_ATTRS | LIBRARY_TRANSITION_ATTRS | {
        "board": attr.label(mandatory = True, providers = [BoardInfo], cfg = library_transition, doc = "The board to run on."),
        "console": attr.string(default = "on", values = ["on", "off"], doc = "Whether the image prints."),
        "deps": attr.label_list(providers = [CcInfo], cfg = core_transition, doc = "Libraries."),
        "local_defines": attr.string_list(doc = "Preprocessor definitions of the sources."),
        "srcs": attr.label_list(mandatory = True, allow_files = [".c", ".cpp", ".S"], doc = "Sources, including main()."),
    },
    cfg = firmware_transition,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [BoardBinaryInfo],
)

def board_binary(name, **kwargs):
    """Makes an image without a program. Libraries are built once for all boards with the same core.

    Args:
      name: the image.
      **kwargs: attributes of `board_binary_rule`.
    """
    board_binary_rule(name = name, core = BOARD_CORE, library_core = LIBRARY_CORE, **kwargs)
