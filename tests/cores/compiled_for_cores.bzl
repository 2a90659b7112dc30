"""The `compiled_for_cores_test` rule: libraries compile for cores that no board has."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")

def _cores_transition_impl(_settings, attr):
    return {
        core: {"//command_line_option:platforms": [str(Label("//platforms:" + core))]}
        for core in attr.cores
    }

_cores_transition = transition(
    implementation = _cores_transition_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

def _archives(target):
    """Collects the outputs of a library and of all that it needs."""
    return [
        library.static_library or library.pic_static_library
        for context in target[CcInfo].linking_context.linker_inputs.to_list()
        for library in context.libraries
    ]

def _compiled_for_cores_test_impl(ctx):
    archives = [
        archive
        for targets in ctx.split_attr.libraries.values()
        for target in targets
        for archive in _archives(target)
    ]
    script = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(script, "#!/bin/sh\n# What it runs with was compiled.\nexit 0\n", is_executable = True)
    return [DefaultInfo(executable = script, runfiles = ctx.runfiles(archives))]

compiled_for_cores_test = rule(
    implementation = _compiled_for_cores_test_impl,
    doc = "Compiles libraries for cores, with the flags and warnings that they have in images; what doesn't compile fails the build.",
    attrs = {
        "libraries": attr.label_list(mandatory = True, cfg = _cores_transition, providers = [CcInfo], doc = "The libraries, with all that they need."),
        "cores": attr.string_list(mandatory = True, doc = "Keys of CORES of platforms/cores.bzl."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    test = True,
)
