"""Actions that more than one rule runs."""

load("//platforms:cores.bzl", "CORES")
load("//rules:providers.bzl", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo")

# What target_core() needs.
CORE_ATTRS = {
    "_cores": attr.label_list(default = [Label("//platforms:core_" + core) for core in CORES]),
}

PLAN_ATTRS = CORE_ATTRS | {
    "_plan": attr.label(default = "//tools/pipeline/plan", executable = True, cfg = "exec"),
    "_embed": attr.label(default = "//tools/pipeline/embed", executable = True, cfg = "exec"),
}

REGISTRY_ATTRS = {
    "_registry": attr.label(default = "//tools/pipeline/registry", executable = True, cfg = "exec"),
}

def target_core(ctx):
    """The core of the target platform as the tools spell it, `host` for another platform."""
    for value in ctx.attr._cores:
        if ctx.target_platform_has_constraint(value[platform_common.ConstraintValueInfo]):
            return CORES[value.label.name.removeprefix("core_")].mcpu
    return "host"

def methods_of(programs):
    """The methods of programs, each as a TorchProgramInfo: forward(), which is the program itself, and further ones."""
    return [method for program in programs for method in [program] + program.methods]

def embed_program(ctx, program, directory, example = True, registry = None):
    """Plans the memory of a program's method and embeds it.

    Args:
      ctx: rule context, with PLAN_ATTRS.
      program: TorchProgramInfo; for a further method just its header and example are made, beside the program's own.
      directory: folder of the outputs below the package; it becomes the include path of the header.
      example: whether the example input and its expected output are embedded beside the program.
      registry: KernelRegistryInfo with which the program is linked at build time; None: it is embedded as a .pte.

    Returns:
      (ProgramDataInfo, MemoryPlanInfo)
    """
    core = target_core(ctx)
    plan = ctx.actions.declare_file("%s/%s.plan.json" % (directory, program.name))
    arguments = ctx.actions.args()
    arguments.add("--program", program.program)
    arguments.add("--core", core)
    arguments.add("--method", program.method)
    if registry:
        arguments.add("--prelinked")
    arguments.add("--output", plan)
    ctx.actions.run(
        executable = ctx.executable._plan,
        arguments = [arguments],
        inputs = [program.program],
        outputs = [plan],
        mnemonic = "MemoryPlan",
        progress_message = "Planning memory of %{label} for " + core,
    )

    header = ctx.actions.declare_file("%s/%s_pte.h" % (directory, program.name))
    source = ctx.actions.declare_file("%s/%s_pte.S" % (directory, program.name))
    arguments = ctx.actions.args()
    arguments.add("--program", program.program)
    arguments.add("--plan", plan)
    arguments.add("--manifest", program.manifest)
    arguments.add("--core", core)
    arguments.add("--name", program.name)
    arguments.add("--method", program.method)
    if program.data_of:
        arguments.add("--data", program.data_of)
    arguments.add("--header", header)
    arguments.add("--source", source)
    inputs = [program.program, plan, program.manifest]
    if registry:
        arguments.add("--prelink", registry.kernels)
        inputs.append(registry.kernels)
    if example:
        arguments.add("--golden", program.golden)
        inputs.append(program.golden)
    ctx.actions.run(
        executable = ctx.executable._embed,
        arguments = [arguments],
        inputs = inputs,
        outputs = [header, source],
        mnemonic = "EmbedProgram",
        progress_message = "Embedding the program of %{label}",
    )
    return (
        ProgramDataInfo(header = header, source = source, program = program.program, plan = plan),
        MemoryPlanInfo(plan = plan, core = core),
    )

def generate_registry(ctx, programs, directory, prelinked = False):
    """Generates the kernel registry of a list of programs.

    Args:
      ctx: rule context, with REGISTRY_ATTRS.
      programs: list of TorchProgramInfo; the registry is the union. Empty: every kernel, every dtype.
      directory: folder of the outputs below the package.
      prelinked: whether the programs are linked at build time; otherwise the runtime loads .pte files.

    Returns:
      KernelRegistryInfo
    """
    source = ctx.actions.declare_file(directory + "/registry.cpp")
    kernels = ctx.actions.declare_file(directory + "/kernels.json")
    arguments = ctx.actions.args()
    if not programs:
        arguments.add("--all")
    for program in programs:
        arguments.add("--program", program.program)
    for method in methods_of(programs):
        arguments.add("--manifest", method.manifest)
    if prelinked:
        arguments.add("--prelinked")
    own = {}
    for operator in [operator for program in programs for operator in program.operators]:
        if own.setdefault(operator.operator, operator).description != operator.description:
            fail("%s: operator %s is defined twice, by %s and %s" % (
                ctx.label,
                operator.operator,
                own[operator.operator].description.owner,
                operator.description.owner,
            ))
    arguments.add_all([operator.description for operator in own.values()], before_each = "--catalog")
    arguments.add("--output", source)
    arguments.add("--kernels", kernels)
    ctx.actions.run(
        executable = ctx.executable._registry,
        arguments = [arguments],
        inputs = [p.program for p in programs] + [p.manifest for p in methods_of(programs)] + [operator.description for operator in own.values()],
        outputs = [source, kernels],
        mnemonic = "KernelRegistry",
        progress_message = "Generating the kernel registry of %{label}",
    )
    return KernelRegistryInfo(
        source = source,
        kernels = kernels,
        operator_sources = [file for operator in own.values() for file in operator.sources],
        operator_headers = [file for operator in own.values() for file in operator.headers],
        quote_includes = {operator.root: None for operator in own.values() if operator.root}.keys(),
    )
