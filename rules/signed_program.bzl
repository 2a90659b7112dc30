"""The `signed_program` rule: a program that devices take as an update."""

load(":providers.bzl", "TorchProgramInfo")

def _signed_program_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name + ".update")
    program = ctx.attr.program[TorchProgramInfo].program
    arguments = ctx.actions.args()
    arguments.add("--program", program)
    arguments.add("--key", ctx.file.key)
    arguments.add("--product", ctx.attr.product)
    arguments.add("--version", str(ctx.attr.version))
    arguments.add("--output", output)
    ctx.actions.run(
        executable = ctx.executable._sign,
        arguments = [arguments],
        inputs = [program, ctx.file.key],
        outputs = [output],
        mnemonic = "SignProgram",
        progress_message = "Signing %{label}",
        # The key leaves this machine neither for a remote worker nor for a cache.
        execution_requirements = {"no-cache": "1", "no-remote": "1"},
    )
    return [DefaultInfo(files = depset([output]))]

signed_program = rule(
    implementation = _signed_program_impl,
    doc = "Signs a program (Ed25519): `<name>.update` is what images with `update_settings` of the same product take. docs/update.md.",
    attrs = {
        "program": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The torch_program, exported for the devices' core."),
        "key": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The private key, PEM without a password. Signing runs on this machine alone. Keep it out of the repository, such as in a `local_repository`.",
        ),
        "product": attr.string(mandatory = True, doc = "The product whose devices take the program, at most 31 ASCII characters."),
        "version": attr.int(mandatory = True, doc = "The program's version, above 0. Devices never go back to a smaller one."),
        "_sign": attr.label(default = "//tools/pipeline/sign", executable = True, cfg = "exec"),
    },
)
