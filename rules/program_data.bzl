"""The `program_data` rule: embeds a program as a header and an object."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:actions.bzl", "LINK_ATTRS", "link_program")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc", "library_info")
load(":providers.bzl", "MemoryPlanInfo", "ProgramDataInfo", "TorchProgramInfo")

def _program_data_impl(ctx):
    program = ctx.attr.program[TorchProgramInfo]
    linked = link_program(ctx, program, ctx.label.name, example = ctx.attr.example)
    data, plan = linked[0]
    cc = configure_cc(ctx)
    context, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = [entry.source for entry, _ in linked],
        hdrs = [entry.header for entry, _ in linked],
        include_directories = [data.header.dirname],
        deps = [],
        additional_inputs = [data.program],
    )
    return [
        DefaultInfo(files = depset([file for entry, _ in linked for file in [entry.header, entry.plan]])),
        library_info(ctx, cc, ctx.label.name, context, outputs, []),
        data,
        plan,
    ]

program_data = rule(
    implementation = _program_data_impl,
    doc = """Embeds a program for C and C++: `#include "<program>_pte.h"` gives its bytes, which are 16-byte aligned and
executed in place, and the sizes of the arenas it needs on the target core; `<program>_<method>_pte.h` does the same for
a further method. Use it in `deps` of a cc_library.
""",
    attrs = LINK_ATTRS | {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The torch_program."),
        "example": attr.bool(doc = "Whether the example input and the eager module's output are embedded, too."),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [CcInfo, ProgramDataInfo, MemoryPlanInfo],
)
