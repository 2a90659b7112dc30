"""The `pte_program` rule and macro: imports a program that was exported elsewhere."""

load("//rules/private:actions.bzl", "check_npu", "check_program_name")
load(":providers.bzl", "NpuInfo", "TorchProgramInfo")

_BACKENDS = ["portable", "ethos_u"]

def _pte_program_impl(ctx):
    name = ctx.attr.program_name or ctx.label.name
    npu = ctx.attr._npu[NpuInfo] if ctx.attr.backend == "ethos_u" else None
    if npu:
        check_npu(ctx, npu)
    check_program_name(ctx, name)
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
    if npu:
        arguments.add("--npu", npu.description)
    ctx.actions.run(
        executable = ctx.attr._pte[DefaultInfo].files_to_run,
        arguments = [arguments],
        inputs = [ctx.file.src] + ([ctx.file.examples] if ctx.file.examples else []) + ([npu.description] if npu else []),
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
            accelerator = npu.accelerator if npu else "",
            model = ctx.file.src,
            weights = None,
            report = None,
            npu_report = None,
            operators = [],
            method = "forward",
            methods = [],
            memory = "layers",
        ),
    ]

pte_program_rule = rule(
    implementation = _pte_program_impl,
    doc = """Imports a program that was exported elsewhere, as a torch_program for any core: for torch_firmware,
torch_cpp_library, torch_package and firmware_test. Delegates for an Ethos-U run on the board's NPU with `backend =
"ethos_u"`; those of other backends don't run on microcontrollers. int8 layers that torch_program packed for a core are
refused.
""",
    attrs = {
        "src": attr.label(mandatory = True, allow_single_file = [".pte"], doc = "The program."),
        "examples": attr.label(
            allow_single_file = [".npz"],
            doc = """Arrays of one sample in the format of numpy.savez(): `input_0`, `input_1` and so on, and the
model's outputs for them, `output_0` and so on. Without outputs, ExecuTorch's own runtime computes them, or this
project's model of the NPU for delegates. Without a file, the inputs are numbers between 0 and 1, or zeros for integers.
""",
        ),
        "backend": attr.string(
            default = "portable",
            values = _BACKENDS,
            doc = """The program's need besides a core: `portable`, nothing; `ethos_u`, the NPU of the board that it
is built for. The build checks that its delegates are for that NPU, fit into its memory and access no other memory.
""",
        ),
        "program_name": attr.string(doc = "Name of the program, a C identifier; the target's name by default."),
        "_npu": attr.label(default = "//rules:npu", providers = [NpuInfo]),
        "_pte": attr.label(default = "//tools/pipeline/pte", executable = True, cfg = "exec"),
    },
    provides = [TorchProgramInfo],
)

def pte_program(name, backend = "portable", target_compatible_with = [], **kwargs):
    """Imports a program that was exported elsewhere. With `backend = "ethos_u"` it is only for boards with an NPU.

    Args:
      name: the target, and the program unless program_name is set.
      backend: `portable`, or `ethos_u` for a program with delegates for an Ethos-U, which is incompatible without a
        board or with one without an NPU.
      target_compatible_with: further constraints.
      **kwargs: attributes of `pte_program_rule`.
    """
    pte_program_rule(
        name = name,
        backend = backend,
        target_compatible_with = target_compatible_with + ([Label("//platforms:npu_ethos_u")] if backend == "ethos_u" else []),
        **kwargs
    )
