"""Builds a target for one platform, for the tests of the toolchain."""

def _transition_impl(_settings, attr):
    return {"//command_line_option:platforms": [str(attr.platform)]}

_transition = transition(
    implementation = _transition_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

def _for_platform_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".elf")
    ctx.actions.symlink(output = output, target_file = ctx.file.binary)
    return [DefaultInfo(files = depset([output]), runfiles = ctx.runfiles([output]))]

for_platform = rule(
    doc = "`<name>.elf`: the binary, built for the platform.",
    implementation = _for_platform_impl,
    attrs = {
        "binary": attr.label(cfg = _transition, allow_single_file = True, mandatory = True),
        "platform": attr.label(mandatory = True),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
