"""The `pte_program` rule: a program that was exported elsewhere."""

load(":providers.bzl", "TorchProgramInfo")

def _pte_program_impl(ctx):
    name = ctx.attr.program_name or ctx.label.name
    if not name.replace("_", "a").isalnum() or name[0].isdigit():
        fail("%s: program name '%s' is not a C identifier; set program_name" % (ctx.label, name))
    program, manifest, golden, log = [
        ctx.actions.declare_file(ctx.label.name + extension)
        for extension in [".pte", ".manifest.json", ".golden.npz", ".log"]
    ]
    arguments = ctx.actions.args()
    arguments.add("--program", ctx.file.src)
    arguments.add("--name", name)
    arguments.add("--manifest", manifest)
    arguments.add("--golden", golden)
    arguments.add("--output", program)
    arguments.add("--log", log)
    if ctx.file.examples:
        arguments.add("--examples", ctx.file.examples)
    ctx.actions.run(
        executable = ctx.attr._pte[DefaultInfo].files_to_run,
        arguments = [arguments],
        inputs = [ctx.file.src] + ([ctx.file.examples] if ctx.file.examples else []),
        outputs = [program, manifest, golden, log],
        mnemonic = "PteProgram",
        progress_message = "Reading the program %{label}",
    )
    return [
        DefaultInfo(files = depset([program, manifest, golden])),
        OutputGroupInfo(log = depset([log])),
        TorchProgramInfo(
            name = name,
            program = program,
            manifest = manifest,
            golden = golden,
            core = "portable",
            accelerator = "",
            weights = None,
            report = None,
            npu_report = None,
            operators = [],
            method = "forward",
            methods = [],
            data_of = "",
        ),
    ]

pte_program = rule(
    implementation = _pte_program_impl,
    doc = """Takes a program that was exported elsewhere, as a torch_program for any core: for torch_firmware, torch_cpp_library,
torch_package and firmware_test. Delegates of other tools are not for microcontrollers; int8 layers that torch_program laid out for a
core are refused.""",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".pte"], doc = "The program."),
        "examples": attr.label(
            allow_single_file = [".npz"],
            doc = """Arrays of one sample, as numpy.savez() writes them: `input_0`, `input_1` and so on, and `output_0`, ... that the model
computes of them. Without outputs ExecuTorch's own runtime computes them; without a file it is given numbers between 0 and 1, zeros where
integers are taken.""",
        ),
        "program_name": attr.string(doc = "Name of the program, a C identifier; the target's name by default."),
        "_pte": attr.label(default = "//tools/pipeline/pte", executable = True, cfg = "exec"),
    },
    provides = [TorchProgramInfo],
)
