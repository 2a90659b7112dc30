"""The programs of models, without what else their targets make."""

load("//rules:providers.bzl", "TorchProgramInfo")

def _programs_impl(ctx):
    return [DefaultInfo(files = depset([model[TorchProgramInfo].program for model in ctx.attr.models]))]

programs = rule(
    doc = "The .pte files of torch_program targets.",
    implementation = _programs_impl,
    attrs = {
        "models": attr.label_list(
            doc = "The models.",
            mandatory = True,
            providers = [TorchProgramInfo],
        ),
    },
)
