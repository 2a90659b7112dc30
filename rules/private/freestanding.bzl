"""Links programs without start-up code and libraries, which other code loads and calls."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":cc.bzl", "compile_sources", "configure_cc")

visibility(["//rules/..."])

def link_freestanding(ctx):
    """Compiles and links a rule's `srcs`, with the headers of its `deps`, by its `linker_script`.

    Args:
      ctx: rule context; the rule has the C++ toolchain.

    Returns:
      File `<name>.elf`
    """
    cc = configure_cc(ctx)
    _, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = ctx.files.srcs,
        hdrs = [],
        include_directories = [],
        deps = [dep[CcInfo] for dep in ctx.attr.deps],
        # The linker would drop functions that nothing calls.
        copts = ["-fno-lto", "-ffreestanding", "-Os"],
    )
    return cc_common.link(
        name = ctx.label.name + ".elf",
        actions = ctx.actions,
        feature_configuration = cc.features,
        cc_toolchain = cc.toolchain,
        compilation_outputs = outputs,
        user_link_flags = ["-nostdlib", "-fno-lto", "-T", ctx.file.linker_script.path],
        additional_inputs = [ctx.file.linker_script],
        output_type = "executable",
    ).executable
