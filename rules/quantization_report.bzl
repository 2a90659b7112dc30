"""The `quantization_report` rule: reports the quantization of a model as text."""

load(":providers.bzl", "TorchProgramInfo")

def _quantization_report_impl(ctx):
    program = ctx.attr.program[TorchProgramInfo]
    if not program.report:
        fail("%s: %s is not quantized; a report needs backend = \"cortex_m\"" % (ctx.label, ctx.attr.program.label))
    text = ctx.actions.declare_file(ctx.label.name + ".txt")
    arguments = ctx.actions.args()
    arguments.add("--report", program.report)
    arguments.add("--text", text)
    ctx.actions.run(
        executable = ctx.executable._quantization_report,
        arguments = [arguments],
        inputs = [program.report],
        outputs = [text],
        mnemonic = "QuantizationReport",
        progress_message = "Writing %{label}",
    )
    return [DefaultInfo(files = depset([text, program.report]))]

quantization_report = rule(
    implementation = _quantization_report_impl,
    doc = """Writes `<name>.txt`: each layer's scheme, layers that stayed in floating point and why,
the signal-to-noise ratio of each layer against floating point, and the accuracy on the evaluation set.
""",
    attrs = {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "A torch_program with backend = \"cortex_m\"."),
        "_quantization_report": attr.label(default = "//tools/pipeline/quantization_report", executable = True, cfg = "exec"),
    },
)
