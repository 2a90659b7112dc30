"""Actions that more than one rule runs."""

load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "CORES", "core_name")
load("//rules:providers.bzl", "CompiledModelInfo", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo", "TorchProgramInfo")

visibility(["//rules/..."])

# Data from a server would be an undeclared input.
NO_NETWORK = {"block-network": ""}

def is_identifier(text):
    """Returns whether a text is a C identifier."""
    return text.replace("_", "a").isalnum() and not text[0].isdigit()

def repository_path(file):
    """Returns a File's path from the root of its repository."""
    return file.short_path.split("/", 2)[2] if file.short_path.startswith("../") else file.short_path

def check_program_name(ctx, name):
    """Fails if a program's name is not a C identifier."""
    if not is_identifier(name):
        fail("%s: program name '%s' is not a C identifier; set program_name" % (ctx.label, name))

def check_npu(ctx, npu):
    """Fails if the NpuInfo says that the board has no NPU."""
    if not npu.description:
        fail("%s: backend 'ethos_u' needs a board with an NPU; build it through a board_program or a torch_firmware of such a board" % ctx.label)

# The attributes that target_core() needs.
CORE_ATTRS = {
    "_cores": attr.label_list(default = [Label("//platforms:core_" + core) for core in CORES]),
}

LINK_ATTRS = CORE_ATTRS | {
    "_link": attr.label(default = "//tools/pipeline/link", executable = True, cfg = "exec"),
}

REGISTRY_ATTRS = {
    "_registry": attr.label(default = "//tools/pipeline/registry", executable = True, cfg = "exec"),
}

COMPILE_ATTRS = CORE_ATTRS | {
    "_compile": attr.label(default = "//tools/pipeline/compile", executable = True, cfg = "exec"),
}

# The values of `_kernels` in rules that link kernels; choose_kernels() selects one.
KERNELS = [Label("//kernels"), Label("//kernels:without_cortex_m")]

def choose_kernels(ctx, programs):
    """Returns the kernels that programs may use; int8 kernels are not even compiled for programs that can't use them.

    Args:
      ctx: rule context, with `_kernels`, whose default is KERNELS.
      programs: list of TorchProgramInfo; empty: any program.

    Returns:
      CcInfo
    """
    any_program = not programs or any([program.core != "portable" for program in programs])
    return ctx.attr._kernels[0 if any_program else 1][CcInfo]

def target_core(ctx):
    """Returns the tools' name of the target platform's core, or `host` for another platform."""
    for value in ctx.attr._cores:
        if ctx.target_platform_has_constraint(value[platform_common.ConstraintValueInfo]):
            return core_name(value.label.name.removeprefix("core_"))
    return "host"

def methods_of(programs):
    """Returns the methods of programs, each as a TorchProgramInfo: forward(), which is the program itself, and further ones.
    """
    return [method for program in programs for method in [program] + program.methods]

# Headers of a compiled model declare its name, an underscore and one of these, which other models can't be named.
_DECLARED = ["get_output", "init", "input", "input_size", "label", "model_t", "output", "output_shape", "output_size", "pte", "reset", "resize_input", "run", "set_input"]
_BEGINNINGS_OF_DECLARED = ["dequantize", "get", "quantize", "resize", "set"]

def check_model_names(ctx, models):
    """Fails if the generated code of two compiled models would have the same name.

    Args:
      ctx: rule context.
      models: list of TorchProgramInfo, such as from methods_of().
    """
    by_name = {model.name.upper(): model for model in models}
    for model in models:
        other = by_name[model.name.upper()]
        if other != model:
            fail("%s: models %s and %s would have macros of one name; set program_name of one" % (ctx.label, model.name, other.name))
        for end in _DECLARED + _BEGINNINGS_OF_DECLARED:
            other = by_name.get((model.name + "_" + end).upper())
            if other:
                fail("%s: functions of the models %s and %s would have one name; give the %s another one" % (
                    ctx.label,
                    model.name,
                    other.name,
                    "program" if other.method == "forward" else "method " + other.method,
                ))

def link_program(ctx, program, directory, example = True, backends = [], memories = []):
    """Embeds a program with all its methods: memory plan, header and source, in one action.

    Args:
      ctx: rule context, with LINK_ATTRS.
      program: TorchProgramInfo.
      directory: folder of the outputs below the package; it becomes the include path of the headers.
      example: whether example inputs and their expected outputs are embedded beside the program.
      backends: list of TorchBackendInfo that the image has.
      memories: the board's memories over which split_program() has split the program; the last one has the arena.

    Returns:
      list of (ProgramDataInfo, MemoryPlanInfo), one for each of methods_of([program])
    """
    if program.memory != "layers":
        fail("%s: program %s has memory = \"%s\", which only compiled models have; leave it out, or use engine = \"compiled\"" % (ctx.label, program.name, program.memory))
    core = target_core(ctx)
    methods = methods_of([program])
    data = [
        ProgramDataInfo(
            header = ctx.actions.declare_file("%s/%s_pte.h" % (directory, method.name)),
            source = ctx.actions.declare_file("%s/%s_pte.S" % (directory, method.name)),
            program = program.program,
            plan = ctx.actions.declare_file("%s/%s.plan.json" % (directory, method.name)),
        )
        for method in methods
    ]
    arguments = ctx.actions.args()
    arguments.add("--program", program.program)
    arguments.add("--core", core)
    for method in methods:
        arguments.add_all("--method", [method.method, method.name, method.manifest])
    inputs = [program.program] + [method.manifest for method in methods]
    if example:
        for method in methods:
            arguments.add_all("--golden", [method.method, method.golden])
            inputs.append(method.golden)
    for backend in backends:
        arguments.add_all("--backend", [backend.id, str(backend.method_arena_size), str(backend.temp_arena_size)])
    arguments.add_all(memories[:-1], before_each = "--arena-memory")
    arguments.add("--output", data[0].header.dirname)
    ctx.actions.run(
        executable = ctx.executable._link,
        arguments = [arguments],
        inputs = inputs,
        outputs = [file for entry in data for file in [entry.header, entry.source, entry.plan]],
        mnemonic = "EmbedProgram",
        progress_message = "Embedding the program of %{label} for " + core,
    )
    return [(entry, MemoryPlanInfo(plan = entry.plan, core = core)) for entry in data]

def split_program(ctx, program, directory, board, memories):
    """Splits a program, which the runtime loads, over several memories of a board.

    Args:
      ctx: rule context, with `_split`.
      program: TorchProgramInfo.
      directory: folder of the output below the package.
      board: BoardInfo.
      memories: names of its memories, the fastest first.

    Returns:
      TorchProgramInfo
    """
    split = ctx.actions.declare_file("%s/%s.pte" % (directory, program.name))
    methods = methods_of([program])
    arguments = ctx.actions.args()
    arguments.add("--program", program.program)
    for method in methods:
        arguments.add_all("--method", [method.method, method.manifest])
    arguments.add("--board", board.description)
    arguments.add_all(memories, before_each = "--arena-memory")
    arguments.add("--output", split)
    ctx.actions.run(
        executable = ctx.executable._split,
        arguments = [arguments],
        inputs = [program.program, board.description] + [method.manifest for method in methods],
        outputs = [split],
        mnemonic = "SplitProgram",
        progress_message = "Splitting the program of %{label} over " + ", ".join(memories),
    )
    fields = {field: getattr(program, field) for field in dir(program) if field not in ["to_json", "to_proto"]}
    return TorchProgramInfo(**(fields | {"program": split}))

def operators_of(ctx, programs):
    """Returns users' own operators of programs, each once; fails for two with the same name.

    Args:
      ctx: rule context.
      programs: list of TorchProgramInfo.

    Returns:
      list of TorchOperatorInfo
    """
    own = {}
    for operator in [operator for program in programs for operator in program.operators]:
        if own.setdefault(operator.operator, operator).description != operator.description:
            fail("%s: operator %s is defined twice, by %s and %s" % (
                ctx.label,
                operator.operator,
                own[operator.operator].description.owner,
                operator.description.owner,
            ))
    return own.values()

def generate_registry(ctx, programs, directory, backends = []):
    """Generates the kernel registry of a list of programs.

    Args:
      ctx: rule context, with REGISTRY_ATTRS.
      programs: list of TorchProgramInfo; the registry is the union. Empty: every kernel, every dtype.
      directory: folder of the outputs below the package.
      backends: list of TorchBackendInfo that the programs may use.

    Returns:
      KernelRegistryInfo
    """
    source = ctx.actions.declare_file(directory + "/registry.cpp")
    arguments = ctx.actions.args()
    if not programs:
        arguments.add("--all")
    for program in programs:
        arguments.add("--program", program.program)
    for method in methods_of(programs):
        arguments.add("--manifest", method.manifest)
    for backend in backends:
        arguments.add_all("--backend", [backend.id, backend.header, backend.object])
    own = operators_of(ctx, programs)
    arguments.add_all([operator.description for operator in own], before_each = "--catalog")
    arguments.add("--output", source)
    ctx.actions.run(
        executable = ctx.executable._registry,
        arguments = [arguments],
        inputs = [p.program for p in programs] + [p.manifest for p in methods_of(programs)] + [operator.description for operator in own],
        outputs = [source],
        mnemonic = "KernelRegistry",
        progress_message = "Generating the kernel registry of %{label}",
    )
    return KernelRegistryInfo(source = source)

def compile_program(ctx, program, name, directory, example = True, board = None, memories = []):
    """Compiles a method of a program to C++.

    Args:
      ctx: rule context, with COMPILE_ATTRS.
      program: TorchProgramInfo of the method, one of methods_of().
      name: a C identifier, the prefix of generated names.
      directory: folder of the outputs below the package; it becomes the include path of the headers.
      example: whether an example input and its expected outputs are provided beside the model.
      board: BoardInfo of the image that the model is for, or None.
      memories: the board's memories over which the model's arena is split, if there are several.

    Returns:
      CompiledModelInfo
    """
    core = target_core(ctx)
    files = {
        kind: ctx.actions.declare_file("%s/%s%s" % (directory, name, suffix))
        for kind, suffix in {
            "header": ".h",
            "cpp_header": ".hpp",
            "source": ".cpp",
            "description": "_pte.h",
            "example": "_pte.S",
            "plan": ".plan.json",
        }.items()
    }
    descriptions = [operator.description for operator in program.operators]
    arguments = ctx.actions.args()
    arguments.add("--program", program.program)
    arguments.add("--manifest", program.manifest)
    arguments.add("--core", core)
    arguments.add("--method", program.method)
    arguments.add("--memory", program.memory)
    if board:
        arguments.add("--board", board.description)
    if len(memories) > 1:
        arguments.add_all(memories, before_each = "--arena-memory")
    arguments.add("--name", name)
    arguments.add_all(descriptions, before_each = "--catalog")
    if example:
        arguments.add("--golden", program.golden)
    arguments.add("--output", files["header"].dirname)
    ctx.actions.run(
        executable = ctx.executable._compile,
        arguments = [arguments],
        inputs = [program.program, program.manifest] + descriptions + ([program.golden] if example else []) + ([board.description] if board else []),
        outputs = files.values(),
        mnemonic = "CompileProgram",
        progress_message = "Compiling the program of %{label} to C++ for " + core,
    )
    return CompiledModelInfo(name = name, core = core, **files)
