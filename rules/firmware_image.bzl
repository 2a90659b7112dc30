"""The `firmware_image` rule and macro: a flashable image that runs a program on a board."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "CORES", "takes_program_for")
load("//rules/private:actions.bzl", "COMPILE_ATTRS", "KERNELS", "LINK_ATTRS", "REGISTRY_ATTRS", "check_model_names", "choose_kernels", "compile_program", "generate_registry", "link_program", "methods_of")
load("//rules/private:cc.bzl", "configure_cc")
load("//rules/private:image.bzl", "NPU_ATTRS", "compile_application", "compile_compiled_application", "link_image", "npu_device", "write_chosen_model_header", "write_compiled_model_header", "write_compiled_models_header", "write_model_header", "write_models_header")
load("//rules/private:image_files.bzl", "IMAGE_FILES_ATTRS", "write_image_files")
load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "LIBRARY_CORE", "core_transition", "firmware_transition", "library_transition")
load(":providers.bzl", "BoardInfo", "FirmwareInfo", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo", "TorchBackendInfo", "TorchProgramInfo")

def _check_settings(ctx):
    """Fails for attributes and settings that don't go together."""
    if bool(ctx.attr.model) == bool(ctx.attr.models):
        fail("%s: give either model or models" % ctx.label)
    profiling = ctx.attr._profiling[BuildSettingInfo].value == "on"
    if profiling and (not ctx.attr.models or _has_default_application(ctx)) and (ctx.attr._console[BuildSettingInfo].value == "off" or not ctx.attr.example):
        fail("%s: //firmware:profiling=on prints what the example takes; it needs console = \"on\" and example = True" % ctx.label)
    watchdog_ms = ctx.attr.watchdog_ms
    if watchdog_ms < 0 or watchdog_ms > 16000:
        fail("%s: watchdog_ms = %d: a watchdog waits 1 to 16000 milliseconds; 0 is none" % (ctx.label, watchdog_ms))
    if watchdog_ms and ctx.attr._sleep[BuildSettingInfo].value == "on":
        fail("%s: watchdog_ms = %d with //firmware:sleep=on: a core that sleeps until there is input feeds no watchdog" % (ctx.label, watchdog_ms))

def _check_programs(ctx, targets, board):
    """Fails for programs that aren't for the board, and for two of one name."""
    by_name = {}
    for target in targets:
        program = target[TorchProgramInfo]
        if program.core != "portable" and not takes_program_for(board.core, program.core):
            fail("%s: %s is lowered for %s, but board %s has a %s" % (ctx.label, target.label, program.core, board.name, board.core))
        if program.accelerator:
            npu_device(ctx, target.label)
        for method in methods_of([program]):
            if by_name.setdefault(method.name, target) != target:
                fail("%s: %s and %s are both called %s; set program_name of one" % (ctx.label, by_name[method.name].label, target.label, method.name))

def _chosen_method(ctx, target):
    """The method that the application runs, as a TorchProgramInfo."""
    methods = methods_of([target[TorchProgramInfo]])
    for method in methods:
        if method.method == ctx.attr.method:
            return method
    fail("%s: %s has no method %s; it has %s" % (ctx.label, target.label, ctx.attr.method, [method.method for method in methods]))

def _has_default_application(ctx):
    return ctx.files.srcs == ctx.files._application

def _choose_engine(ctx):
    """The engine that runs the model, and of one that was not asked for why it isn't `compiled`."""
    engine = ctx.attr.engine
    several = ctx.attr.models and _has_default_application(ctx)

    # What a compiled image can't have: in words of the attributes, and what to do with engine = "compiled".
    reason, advice = "", ""
    if not ctx.attr.prelink:
        reason, advice = "prelink = False loads the program on the device", "leave prelink out"
    elif ctx.attr.backends:
        reason, advice = "it has backends", "leave engine out"
    if several and (engine == "linked" or reason):
        fail("%s: without srcs, several models run compiled only, and %s; leave that out, or give an application in srcs" % (
            ctx.label,
            "engine = \"linked\" asks for the runtime" if engine == "linked" else reason,
        ))
    if engine == "linked":
        return engine, ""
    if engine == "auto":
        if not reason and not _has_default_application(ctx):
            reason = "srcs are an application of its own, which calls the runtime unless engine = \"compiled\""
        return ("linked", reason) if reason else ("compiled", "")
    if reason:
        fail("%s: engine = \"compiled\" is not possible: %s; %s" % (ctx.label, reason, advice))
    return engine, ""

def _compiled_application(ctx, cc, programs, program, backend_targets):
    """The application with models that were compiled to C++: see _firmware_image_impl."""
    name = ctx.label.name
    has_default_application = _has_default_application(ctx)

    # Ours runs one method of one model, or any of several; what it doesn't run isn't compiled.
    chooses = has_default_application and ctx.attr.models
    methods = [program] if has_default_application and not chooses else methods_of(programs)
    check_model_names(ctx, methods)
    models = [compile_program(ctx, method, method.name, name, example = ctx.attr.example) for method in methods]
    profiling = ctx.attr._profiling[BuildSettingInfo].value == "on"
    headers = []
    if chooses:
        headers.append(write_chosen_model_header(ctx, models, name, profiling = profiling, watchdog_ms = ctx.attr.watchdog_ms))
    elif len(models) > 1 or ctx.attr.models:
        headers.append(write_compiled_models_header(ctx, models, name))
    if not ctx.attr.models:
        headers.append(write_compiled_model_header(ctx, models[methods.index(program)], name, profiling = profiling, watchdog_ms = ctx.attr.watchdog_ms))
    if chooses:
        srcs = ctx.files._compiled_models_application
    else:
        srcs = ctx.files._compiled_application if has_default_application else ctx.files.srcs
    if any([entry.accelerator for entry in programs]):
        srcs = srcs + [npu_device(ctx, name)]
    deps = [dep[CcInfo] for dep in ctx.attr.deps + backend_targets] + [choose_kernels(ctx, programs)] + [dep[CcInfo] for dep in ctx.attr._compiled_runtime + ctx.attr.board]
    return struct(
        data = [
            ProgramDataInfo(header = model.description, source = model.source, program = method.program, plan = model.plan)
            for method, model in zip(methods, models)
        ],
        plans = [MemoryPlanInfo(plan = model.plan, core = model.core) for model in models],
        chosen = methods.index(program),
        models = [struct(program = method, plan = model.plan) for method, model in zip(methods, models)] if chooses else [],
        deps = deps,
        objects = compile_compiled_application(
            ctx,
            cc,
            name,
            srcs,
            models,
            headers,
            deps,
            # Our applications have the function.
            defines = ["TORCH_FUSION_LAYER_HOOK=torch_fusion_layer_hook"] if profiling and has_default_application else [],
        ),
    )

def _linked_application(ctx, cc, programs, program, registry, backend_targets):
    """The application with programs that the runtime runs: see _firmware_image_impl."""
    name = ctx.label.name
    backends = [target[TorchBackendInfo] for target in backend_targets]
    linked = [
        entry
        for linkable in programs
        for entry in link_program(ctx, linkable, name, example = ctx.attr.example, registry = registry if ctx.attr.prelink else None, backends = backends)
    ]
    data = [entry for entry, _ in linked]
    methods = methods_of(programs)
    headers = []
    if len(methods) > 1 or ctx.attr.models:
        headers.append(write_models_header(ctx, methods, name))
    if not ctx.attr.models:
        profiling = ctx.attr._profiling[BuildSettingInfo].value == "on"
        headers.append(write_model_header(ctx, program, name, profiling = profiling, watchdog_ms = ctx.attr.watchdog_ms))
    srcs = ctx.files.srcs
    if any([entry.accelerator for entry in programs]):
        srcs = srcs + [npu_device(ctx, name)]
    runtimes = ctx.attr._prelinked_runtimes if ctx.attr.prelink else ctx.attr._runtimes
    runtime = runtimes[0 if backends else 1]
    deps = [dep[CcInfo] for dep in ctx.attr.deps + backend_targets] + [choose_kernels(ctx, programs)] + [dep[CcInfo] for dep in [runtime] + ctx.attr.board]
    return struct(
        data = data,
        plans = [plan for _, plan in linked],
        models = [],
        chosen = methods.index(program),
        deps = deps,
        objects = compile_application(ctx, cc, name, srcs, data, headers, deps, registry = registry),
    )

def _firmware_image_impl(ctx):
    name = ctx.label.name
    board = ctx.attr.board[0][BoardInfo]
    _check_settings(ctx)
    targets = ctx.attr.models or ctx.attr.model
    _check_programs(ctx, targets, board)
    programs = [target[TorchProgramInfo] for target in targets]
    methods = methods_of(programs)
    program = _chosen_method(ctx, targets[0])

    has_npu = any([entry.accelerator for entry in programs])
    ethos_u = ctx.attr._ethos_u if ctx.attr.prelink else ctx.attr._checking_ethos_u
    backend_targets = ctx.attr.backends + (ethos_u if has_npu else [])
    engine, reason = _choose_engine(ctx)
    registry = generate_registry(
        ctx,
        programs,
        name,
        prelinked = ctx.attr.prelink,
        backends = [target[TorchBackendInfo] for target in backend_targets],
    )

    # struct: `data` (ProgramDataInfo) and `plans` (MemoryPlanInfo) of each method that the image has; `chosen`, which of them the
    # application runs; `models`, FirmwareInfo's; `objects`, CcCompilationOutputs of application and programs; `deps`, CcInfo that they are linked with.
    cc = configure_cc(ctx)
    if engine == "compiled":
        application = _compiled_application(ctx, cc, programs, program, backend_targets)
    else:
        application = _linked_application(ctx, cc, programs, program, registry, backend_targets)
    data = application.data[application.chosen]

    map_file = ctx.actions.declare_file(name + ".map")
    elf = link_image(ctx, cc, name, board, [application.objects], application.deps, map_file = map_file)
    image_files = write_image_files(ctx, board, programs, elf, map_file, summary = ctx.attr.summary, engine = "%s, as %s" % (engine, reason) if reason else engine)
    files = [elf, map_file] + image_files.values()
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OutputGroupInfo(
            # Whatever is built of the image, one that does not fit into its board fails.
            _validation = depset([image_files["report.json"]]),
            registry = depset([registry.source, registry.kernels]),
            program = depset(
                [file for entry in methods for file in [entry.program, entry.manifest]] +
                [file for entry in application.data for file in [entry.header, entry.plan]],
            ),
        ),
        data,
        application.plans[application.chosen],
        registry,
        program,
        FirmwareInfo(
            name = name,
            board = board,
            program = program,
            plan = data.plan,
            models = application.models,
            elf = elf,
            bin = image_files["bin"],
            hex = image_files["hex"],
            uf2 = image_files.get("uf2"),
            map = map_file,
            report_text = image_files["report.txt"],
            report_json = image_files["report.json"],
            console = ctx.attr._console[BuildSettingInfo].value,
        ),
    ]

firmware_image_rule = rule(
    implementation = _firmware_image_impl,
    doc = """Links runtime, kernels, program, application and board into `<name>.elf`, `.bin`, `.hex`, `.map` and,
where the board has a UF2 boot loader, `.uf2`, with a
report of flash and RAM in text and JSON, and `<name>.spdx.json`, which lists what the image consists of. An image over the board's limits fails the build and says what takes how
much.""",
    attrs = LINK_ATTRS | REGISTRY_ATTRS | COMPILE_ATTRS | CORE_TRANSITION_ATTRS | IMAGE_FILES_ATTRS | NPU_ATTRS | {
        "model": attr.label(providers = [TorchProgramInfo], cfg = core_transition, doc = "The torch_program to run."),
        "models": attr.label_list(
            providers = [TorchProgramInfo],
            cfg = core_transition,
            doc = """Instead of `model`: several programs in one image. They share kernels and memory. Without `srcs` a host, or a line on
the console, chooses which of them runs, see docs/console.md. For an application in `srcs` there is \"model_programs.h\"; each program has its
header: \"NAME_pte.h\", and with `engine = \"compiled\"` \"NAME.h\" and \"NAME.hpp\".""",
        ),
        "method": attr.string(default = "forward", doc = "The method that the application runs, of those that the program has; with `models` it has all."),
        "board": attr.label(mandatory = True, providers = [BoardInfo], cfg = core_transition, doc = "The board to run on."),
        "console": attr.string(
            values = ["", "on", "off"],
            doc = "Whether the image prints: `on`, `off`, or empty for what //firmware:console says.",
        ),
        "srcs": attr.label_list(
            default = ["//firmware:application.cpp"],
            allow_files = [".c", ".cc", ".cpp", ".S"],
            doc = "The application; it includes \"model_program.h\" for the program and its sizes, with `models` \"model_programs.h\".",
        ),
        "deps": attr.label_list(
            default = ["//firmware:application_deps"],
            providers = [CcInfo],
            cfg = core_transition,
            doc = "Libraries of the application.",
        ),
        "example": attr.bool(
            default = True,
            doc = "Whether the example input is embedded, which the application runs on, and with a console PyTorch's output.",
        ),
        "summary": attr.bool(default = True, doc = "Whether building it prints the summary of the report."),
        "watchdog_ms": attr.int(
            doc = """Milliseconds in which the application must feed the board's watchdog, which resets the board otherwise: no
execution takes longer, whatever the program is. 0 is none. Only on boards that implement board_watchdog() of firmware/board.h.""",
        ),
        "engine": attr.string(
            default = "auto",
            values = ["auto", "compiled", "linked"],
            doc = """How the model runs: `compiled` to C++, see torch_cpp_library: less flash and hardly anything between the kernels; or
`linked`, by a runtime that calls kernels by tables that the build made, with ExecuTorch's API. `auto` compiles what it can: not images with
`prelink = False` or `backends`, nor an application in `srcs`, which calls ExecuTorch's API unless
`engine = \"compiled\"` says that it calls the models'. The report says which engine an image has, and why.""",
        ),
        "_application": attr.label(default = "//firmware:application.cpp", allow_files = True),
        "_compiled_application": attr.label(default = "//firmware:compiled_application.cpp", allow_files = True),
        "_compiled_models_application": attr.label(default = "//firmware:compiled_models_application.cpp", allow_files = True),
        "_compiled_runtime": attr.label(default = "//runtime:compiled", providers = [CcInfo], cfg = library_transition),
        "_console": attr.label(default = "//firmware:console"),
        "_profiling": attr.label(default = "//firmware:profiling"),
        "_sleep": attr.label(default = "//firmware:sleep"),
        "prelink": attr.bool(
            default = True,
            doc = """Whether the program is linked at build time: less flash and RAM, and hardly any load time. Otherwise the
image holds the .pte and the runtime that loads it, and could load any other one that uses the same kernels.""",
        ),
        "backends": attr.label_list(
            providers = [CcInfo, TorchBackendInfo],
            cfg = core_transition,
            doc = "Every torch_backend that the programs have delegates of, besides that of the board's NPU.",
        ),
        "library_core": attr.string(
            values = [""] + sorted(CORES),
            doc = "As `core`, for what an NPU of the board doesn't change. Set by the macro.",
        ),
        "_checking_ethos_u": attr.label_list(
            default = ["//firmware/ethos_u:checking_backend"],
            providers = [CcInfo, TorchBackendInfo],
            cfg = library_transition,
        ),
        "_ethos_u": attr.label_list(
            default = ["//firmware/ethos_u:backend"],
            providers = [CcInfo, TorchBackendInfo],
            cfg = library_transition,
        ),
        "_kernels": attr.label_list(
            default = KERNELS,
            providers = [CcInfo],
            cfg = library_transition,
        ),
        "_prelinked_runtimes": attr.label_list(
            default = ["//runtime:prelinked", "//runtime:prelinked_without_delegates"],
            providers = [CcInfo],
            cfg = library_transition,
        ),
        "_runtimes": attr.label_list(
            default = ["//runtime", "//runtime:runtime_without_delegates"],
            providers = [CcInfo],
            cfg = library_transition,
        ),
    },
    cfg = firmware_transition,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [FirmwareInfo, TorchProgramInfo, ProgramDataInfo, MemoryPlanInfo, KernelRegistryInfo],
)

def firmware_image(name, **kwargs):
    """An image for a board. Program, libraries, kernels and runtime are built for its core, once for all boards that have it.

    Args:
      name: the image.
      **kwargs: attributes of `firmware_image_rule`.
    """
    firmware_image_rule(name = name, core = BOARD_CORE, library_core = LIBRARY_CORE, **kwargs)
