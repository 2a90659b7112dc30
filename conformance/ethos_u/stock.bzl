"""The `stock_program` rule: a program for an Ethos-U as ExecuTorch's own tools make it."""

def _stock_program_impl(ctx):
    program, examples, log = [ctx.actions.declare_file(ctx.label.name + extension) for extension in [".pte", ".npz", ".log"]]
    arguments = ctx.actions.args()
    arguments.add("--accelerator", ctx.attr.accelerator)
    arguments.add("--io", ctx.attr.io)
    arguments.add("--program", program)
    arguments.add("--examples", examples)
    arguments.add("--log", log)
    ctx.actions.run(
        executable = ctx.executable._stock,
        arguments = [arguments],
        outputs = [program, examples, log],
        mnemonic = "StockProgram",
        progress_message = "Exporting %{label} by ExecuTorch's own tools",
    )
    return [
        DefaultInfo(files = depset([program])),
        OutputGroupInfo(examples = depset([examples])),
    ]

stock_program = rule(
    implementation = _stock_program_impl,
    doc = "Writes `<name>.pte`, and as the output group `examples` an input with what PyTorch's quantized module computes of it.",
    attrs = {
        "accelerator": attr.string(mandatory = True, doc = "Such as `ethos-u55-128`."),
        "io": attr.string(default = "float32", values = ["float32", "uint8"], doc = "Dtype of inputs and outputs."),
        "_stock": attr.label(default = "//conformance/ethos_u:stock", executable = True, cfg = "exec"),
    },
)
