"""Provides the programs of models, without the other outputs of their targets."""

load("//rules:providers.bzl", "TorchProgramInfo")

def _for_core_impl(_settings, attr):
    return {"//command_line_option:platforms": "//platforms:" + attr.core}

_for_core = transition(
    # Quantized programs exist for a core only; another program is the same one for all.
    implementation = _for_core_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

def _programs_impl(ctx):
    return [DefaultInfo(files = depset([model[TorchProgramInfo].program for model in ctx.attr.models]))]

programs = rule(
    doc = "The .pte files of torch_program targets, lowered for one core.",
    implementation = _programs_impl,
    attrs = {
        "core": attr.string(doc = "The core, as in //platforms:core.", mandatory = True),
        "models": attr.label_list(
            doc = "The models.",
            cfg = _for_core,
            mandatory = True,
            providers = [TorchProgramInfo],
        ),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
