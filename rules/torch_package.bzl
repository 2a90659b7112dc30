"""The `torch_package` rule: packs models as plain C++ for another build system."""

load("//platforms:cores.bzl", "CORES", "float_abis")
load("//rules/private:actions.bzl", "CORE_ATTRS", "check_model_names", "methods_of", "operators_of", "repository_path", "target_core")
load("//rules/private:image.bzl", "NPU_ATTRS", "npu_device")
load("//rules/private:memory_regions.bzl", "parse_number")
load("//rules/private:package_archive.bzl", "PACKAGE_ATTRS", "compile_package")
load("//rules/private:transitions.bzl", "CORE_TRANSITION_ATTRS", "board_or_core_transition")
load("//tools/pipeline/package:layouts.bzl", "LAYOUTS")
load(":providers.bzl", "BoardInfo", "TorchPackageInfo", "TorchProgramInfo")

# One core of each kind; compiling a package takes some seconds for each.
_KINDS = ["cortex_m0", "cortex_m3", "cortex_m4", "cortex_m7", "cortex_m33", "cortex_m55"]

# The cores of Arduino's boards, by the names in their platform.txt.
_ARDUINO_CORES = ["cortex_m0", "cortex_m0plus", "cortex_m3", "cortex_m4", "cortex_m7", "cortex_m33"]

def _torch_package_impl(ctx):
    name = ctx.label.name
    if ctx.attr.board and ctx.attr.core:
        fail("%s: give either board or core" % ctx.label)
    programs = [target[TorchProgramInfo] for target in ctx.attr.models]
    operators = operators_of(ctx, programs)
    operator_files = {file: None for operator in operators for file in operator.sources + operator.headers}.keys()
    accelerated = [target.label for target in ctx.attr.models if target[TorchProgramInfo].accelerator]
    device = [npu_device(ctx, accelerated[0])] if accelerated else []
    models = methods_of(programs)
    names = {}
    for model in models:
        if model.name in names:
            fail("%s: two models are called %s; set program_name of one" % (ctx.label, model.name))
        names[model.name] = None
    check_model_names(ctx, models)
    cores = _cores(ctx)
    form = ctx.attr.form or ("archives" if ctx.attr.layout == "arduino" else "sources")
    archives = [(core, abi) for core in cores for abi in float_abis(core)] if form == "archives" else []
    if form == "archives" and not cores:
        fail("%s: form = \"archives\"%s with cores = []; give the cores that it is for, of %s" % (
            ctx.label,
            "" if ctx.attr.form else ", which layout \"arduino\" has by default,",
            sorted(CORES),
        ))
    sources = ctx.actions.declare_directory(name + ".sources")
    arguments = ctx.actions.args()
    arguments.add("sources")
    arguments.add("--name", name)
    arguments.add("--core", target_core(ctx))
    arguments.add("--layout", ctx.attr.layout)
    arguments.add("--version", ctx.attr.version)
    arguments.add("--author", ctx.attr.author)
    arguments.add("--url", ctx.attr.url)
    for memory, size in ctx.attr.arena_memories.items() if len(ctx.attr.arena_memories) > 1 else []:
        arguments.add_all("--arena-memory", [memory, parse_number(ctx.label, "arena_memories: " + memory, size)])
    for model in models:
        arguments.add_all("--model", [model.program, model.method, model.name, model.manifest, model.golden, model.memory])
    arguments.add_all([operator.description for operator in operators], before_each = "--catalog")
    for file in operator_files:
        arguments.add_all("--operator", [repository_path(file), file])
    arguments.add("--sources", ctx.attr._sources.label.workspace_root or ".")
    arguments.add_all(ctx.files._sources + ctx.files._headers, before_each = "--shared")
    arguments.add_all(device, before_each = "--npu-device")
    arguments.add("--executorch", ctx.attr._headers.label.workspace_root + "/include")
    arguments.add("--executorch-version", ctx.file._executorch_version)
    arguments.add_all("--licence", ["LICENSE", ctx.file._licence])
    arguments.add_all("--licence", ["LICENSE.executorch", ctx.file._executorch_licence])
    arguments.add_all(["%s-%s" % archive for archive in archives], before_each = "--archive")
    arguments.add_all([sources], before_each = "--output", expand_directories = False)
    ctx.actions.run(
        executable = ctx.executable._package,
        arguments = [arguments],
        inputs = ctx.files._sources + ctx.files._headers + [ctx.file._executorch_version, ctx.file._licence, ctx.file._executorch_licence] + device +
                 operator_files + [operator.description for operator in operators] + [file for model in models for file in [model.program, model.manifest, model.golden]],
        outputs = [sources],
        mnemonic = "TorchPackage",
        progress_message = "Packing %{label}",
    )
    return _write_folder(ctx, sources, [model.name for model in models], cores, archives)

def _cores(ctx):
    """Returns the cores that the package is compiled for, keys of CORES."""
    unknown = [core for core in ctx.attr.cores if core not in CORES]
    if unknown:
        fail("%s: cores = %s: there is no %s; there are %s" % (ctx.label, ctx.attr.cores, unknown, sorted(CORES)))
    core = ctx.attr.board[BoardInfo].core.replace("-", "_") if ctx.attr.board else ctx.attr.core
    cores = _ARDUINO_CORES if ctx.attr.layout == "arduino" and ctx.attr.cores == _KINDS else ctx.attr.cores
    return [core] if core and cores else cores

def _write_folder(ctx, sources, models, cores, archives):
    """Makes the package from its sources or archives, and the models' sizes on cores."""
    name = ctx.label.name
    folder = ctx.actions.declare_directory(name)
    archive = ctx.actions.declare_file(name + ".zip")
    arguments = ctx.actions.args()
    arguments.add("folder")
    arguments.add("--name", name)
    arguments.add("--layout", ctx.attr.layout)
    arguments.add_all([sources], before_each = "--sources", expand_directories = False)
    inputs = [sources]
    for core in cores:
        for abi in ([abi for other, abi in archives if other == core] or [None]):
            is_measured = abi in (None, float_abis(core)[-1])
            library, sizes = compile_package(ctx, sources, models, core, abi, sizes = is_measured)
            if archives:
                arguments.add_all("--archive", ["%s-%s" % (core, abi), library])
                inputs.append(library)
            if sizes:
                arguments.add_all("--size", [core, sizes])
                inputs.append(sizes)
    arguments.add_all([folder], before_each = "--output", expand_directories = False)
    arguments.add("--zip", archive)
    ctx.actions.run(
        executable = ctx.executable._package,
        arguments = [arguments],
        inputs = inputs,
        outputs = [folder, archive],
        mnemonic = "TorchPackageFolder",
        progress_message = "Writing the package %{label}",
    )
    return [
        DefaultInfo(files = depset([folder, archive]), runfiles = ctx.runfiles([folder, archive])),
        TorchPackageInfo(
            name = name,
            layout = ctx.attr.layout,
            folder = folder if archives or len(cores) == 1 else sources,
            archives = ["%s-%s" % archive for archive in archives],
        ),
    ]

torch_package = rule(
    implementation = _torch_package_impl,
    doc = """Packs torch_programs as plain C++ for another build system: the folder `<name>` and `<name>.zip` with the models, the kernels
that they call and no others, C and C++ headers, an example, self-tests, and licence texts. docs/cpp.md has the interface.""",
    attrs = CORE_ATTRS | CORE_TRANSITION_ATTRS | NPU_ATTRS | PACKAGE_ATTRS | {
        "models": attr.label_list(
            mandatory = True,
            allow_empty = False,
            providers = [TorchProgramInfo],
            doc = "The torch_programs. They share kernels; each has functions and a namespace of its name. The package includes kernels of their `operators`.",
        ),
        "layout": attr.string(
            mandatory = True,
            values = LAYOUTS,
            doc = "The build system: `arduino`, `cmake` (add_subdirectory, find_package or FetchContent), `make` (one include), `mbed` (Mbed CE), `platformio`, `zephyr` (a module).",
        ),
        "version": attr.string(default = "1.0.0", doc = "The package's version, of three numbers."),
        "author": attr.string(default = "Torch Fusion", doc = "The publisher, for Arduino and PlatformIO."),
        "url": attr.string(doc = "The address of its description, which Arduino requires and PlatformIO shows."),
        "core": attr.string(
            values = [""] + sorted(CORES),
            doc = "The core for which programs that depend on it are lowered, one of those in docs/boards.md; empty: the programs are portable.",
        ),
        "board": attr.label(
            providers = [BoardInfo],
            doc = "The board, instead of `core`, for whose core and NPU the programs are made. The package includes the NPU's driver and address.",
        ),
        "form": attr.string(
            values = ["", "archives", "sources"],
            doc = """The form of models and kernels: sources, which any C++17 compiler compiles; or an archive for each
of `cores` and each float ABI (`soft`, `softfp`, `hard`), for layouts that can choose one. Empty: archives for
`arduino`, whose boards compile an older C++, and sources for the others.
""",
        ),
        "cores": attr.string_list(
            default = _KINDS,
            doc = """The cores for which SIZES.md lists the models' sizes, and for which there are archives. It is
ignored with `core` or `board`. By default it is one core of each kind, or for `arduino` the cores of its boards.
""",
        ),
        "arena_memories": attr.string_dict(
            doc = """Memories over which the arena of each model is split, the fastest first, with the bytes that models may have of each:
`{"dtcm": "64K", "ram": "96K"}`. The last one is that of the instance. `TORCH_FUSION_ARENA_DTCM`, defined for the package's sources, puts the rest there.
Empty: an arena is in its instance.
""",
        ),
        "_sources": attr.label(default = "//rules:package_sources", allow_files = True),
        "_headers": attr.label(default = "@executorch//:header_files", allow_files = True),
        "_licence": attr.label(default = "//:LICENSE", allow_single_file = True),
        "_executorch_version": attr.label(default = "@executorch//:version.txt", allow_single_file = True),
        "_executorch_licence": attr.label(default = "@executorch//:LICENSE", allow_single_file = True),
    },
    cfg = board_or_core_transition,
    provides = [TorchPackageInfo],
)
