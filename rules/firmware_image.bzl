"""The `firmware_image` rule and macro: a flashable image that runs a program on a board."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "takes_program_for")
load("//rules/private:actions.bzl", "COMPILE_ATTRS", "KERNELS", "LINK_ATTRS", "REGISTRY_ATTRS", "check_model_names", "choose_kernels", "compile_program", "generate_registry", "link_program", "methods_of", "operators_of", "split_program")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc")
load("//rules/private:file_errors.bzl", "model_error")
load("//rules/private:image.bzl", "HEADER_ATTRS", "NPU_ATTRS", "link_image", "npu_device", "write_model_headers")
load("//rules/private:image_files.bzl", "IMAGE_FILES_ATTRS", "write_image_files")
load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "LIBRARY_CORE", "LIBRARY_TRANSITION_ATTRS", "bare_board", "core_transition", "firmware_transition", "library_transition", "no_board")
load(":providers.bzl", "BoardInfo", "FirmwareInfo", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo", "TorchBackendInfo", "TorchProgramInfo", "UpdateSettingsInfo")

def _check_settings(ctx):
    """Fails for attributes and settings that can't be combined."""
    if bool(ctx.attr.model) == bool(ctx.attr.models):
        fail("%s: give either model or models" % ctx.label)
    if _is_profiling(ctx) and (not ctx.attr.models or _has_default_application(ctx)) and (ctx.attr._console[BuildSettingInfo].value == "off" or not ctx.attr.example):
        fail("%s: //firmware:profiling=on prints what the example takes; it needs console = \"on\" and example = True" % ctx.label)
    watchdog_ms = ctx.attr.watchdog_ms
    if watchdog_ms < 0 or watchdog_ms > 16000:
        fail("%s: watchdog_ms = %d: a watchdog waits 1 to 16000 milliseconds; 0 is none" % (ctx.label, watchdog_ms))
    if watchdog_ms and ctx.attr._sleep[BuildSettingInfo].value == "on":
        fail("%s: watchdog_ms = %d with //firmware:sleep=on: a core that sleeps until there is input feeds no watchdog" % (ctx.label, watchdog_ms))

def _check_programs(ctx, targets, board):
    """Fails for programs that aren't for the board, and for two with the same name."""
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
    """Returns the method that the application runs, as a TorchProgramInfo."""
    methods = methods_of([target[TorchProgramInfo]])
    for method in methods:
        if method.method == ctx.attr.method:
            return method
    fail("%s: %s has no method %s; it has %s" % (ctx.label, target.label, ctx.attr.method, [method.method for method in methods]))

def _has_default_application(ctx):
    return ctx.files.srcs == ctx.files._application

def _choose_engine(ctx):
    """Returns the engine that runs the model, and the reason if `auto` doesn't choose `compiled`."""
    engine = ctx.attr.engine
    has_backends = bool(ctx.attr.backends)
    if ctx.attr.models and _has_default_application(ctx) and (engine == "loaded" or has_backends):
        fail("%s: without srcs, several models run compiled only, and %s; leave that out, or give an application in srcs" % (
            ctx.label,
            "engine = \"loaded\" asks for the runtime" if engine == "loaded" else "it has backends",
        ))
    if engine == "compiled" and has_backends:
        fail("%s: engine = \"compiled\" is not possible: it has backends; leave engine out" % ctx.label)
    if engine == "auto" and has_backends:
        return "loaded", "it has backends"
    if engine == "auto" and not _has_default_application(ctx) and any([file.extension != "c" for file in ctx.files.srcs]):
        return "loaded", "srcs are an application of its own, which calls the runtime unless engine = \"compiled\""
    return "compiled" if engine == "auto" else engine, ""

def _is_profiling(ctx):
    return ctx.attr._profiling[BuildSettingInfo].value == "on"

def _write_headers(ctx, engine, models, chosen):
    """The headers of an application, which has one model or several; see write_model_headers()."""
    kinds = []
    if ctx.attr.models and _has_default_application(ctx):
        kinds.append("chosen_models")
    elif len(models) > 1 or ctx.attr.models:
        kinds.append(engine + "_models")
    if not ctx.attr.models:
        kinds.append(engine + "_model")
    return write_model_headers(ctx, kinds, models, chosen, ctx.label.name, profiling = _is_profiling(ctx), watchdog_ms = ctx.attr.watchdog_ms)

def _compile_application(ctx, cc, srcs, written, operators, **kwargs):
    """Compiles an application's sources, with its own options, and those that the build wrote; returns a list of CcCompilationOutputs."""
    name = ctx.label.name
    return [
        compile_sources(ctx, cc, name = name, srcs = srcs, copts = ctx.attr.copts, **kwargs)[1],
        compile_sources(ctx, cc, name = name + ".models", srcs = written, operators = operators, **kwargs)[1],
    ]

def _compiled_application(ctx, cc, programs, program, operators, npu_sources, backends):
    """The application with models that were compiled to C++: see _firmware_image_impl."""
    name = ctx.label.name
    has_default_application = _has_default_application(ctx)

    # Our application runs one method of one model, or any of several; other methods aren't compiled.
    chooses = has_default_application and ctx.attr.models
    methods = [program] if has_default_application and not chooses else methods_of(programs)
    check_model_names(ctx, methods)
    models = [compile_program(ctx, method, method.name, name, example = ctx.attr.example, board = _chosen_board(ctx), memories = ctx.attr.arena_memories) for method in methods]
    headers = _write_headers(ctx, "compiled", models, models[methods.index(program)])
    if chooses:
        srcs = ctx.files._compiled_models_application
    else:
        srcs = ctx.files._compiled_application if has_default_application else ctx.files.srcs
    deps = [dep[CcInfo] for dep in (ctx.attr.deps or ctx.attr._application_deps) + backends] + [choose_kernels(ctx, programs)] + [dep[CcInfo] for dep in ctx.attr._compiled_runtime + ctx.attr.board]
    objects = _compile_application(
        ctx,
        cc,
        srcs,
        npu_sources + [file for model in models for file in [model.source, model.example]],
        hdrs = [file for model in models for file in [model.header, model.cpp_header, model.description]] + headers,
        include_directories = [headers[0].dirname],
        deps = deps,
        # Our applications have the function.
        defines = (["TORCH_FUSION_LAYER_HOOK=torch_fusion_layer_hook"] if _is_profiling(ctx) and has_default_application else []) +
                  ['TORCH_FUSION_ARENA_%s=__attribute__((section(".arena.%s")))' % (memory.upper(), memory) for memory in ctx.attr.arena_memories[:-1]],
        operators = operators,
    )
    return struct(
        data = [
            ProgramDataInfo(header = model.description, source = model.source, program = method.program, plan = model.plan)
            for method, model in zip(methods, models)
        ],
        plans = [MemoryPlanInfo(plan = model.plan, core = model.core) for model in models],
        chosen = methods.index(program),
        models = [struct(program = method, plan = model.plan) for method, model in zip(methods, models)] if chooses else [],
        deps = deps,
        objects = objects,
    )

def _loaded_application(ctx, cc, programs, program, operators, npu_sources, backends, registry):
    """The application with programs that the runtime loads: see _firmware_image_impl."""
    name = ctx.label.name
    memories = ctx.attr.arena_memories
    embedded = [
        entry
        for loadable in programs
        for entry in link_program(
            ctx,
            split_program(ctx, loadable, name, _chosen_board(ctx), memories) if len(memories) > 1 else loadable,
            name,
            example = ctx.attr.example,
            backends = [target[TorchBackendInfo] for target in backends],
            memories = memories,
        )
    ]
    data = [entry for entry, _ in embedded]
    methods = methods_of(programs)
    headers = _write_headers(ctx, "loaded", methods, program)
    runtime = ctx.attr._runtimes[0 if backends else 1]
    deps = [dep[CcInfo] for dep in (ctx.attr.deps or ctx.attr._application_deps) + backends] + [choose_kernels(ctx, programs)] + [dep[CcInfo] for dep in [runtime] + ctx.attr.board]
    objects = _compile_application(
        ctx,
        cc,
        ctx.files.srcs,
        npu_sources + [entry.source for entry in data] + [registry.source],
        hdrs = [entry.header for entry in data] + headers,
        include_directories = [headers[0].dirname],
        deps = deps,
        additional_inputs = [entry.program for entry in data],
        operators = operators,
    )
    return struct(
        data = data,
        plans = [plan for _, plan in embedded],
        models = [],
        chosen = methods.index(program),
        deps = deps,
        objects = objects,
    )

def _chosen_board(ctx):
    """Returns the board's BoardInfo, with instances in the last one of `arena_memories`."""
    board, memories = ctx.attr.board[0][BoardInfo], ctx.attr.arena_memories
    for memory in memories:
        if memory not in board.arenas and (memory != "ram" or board.npu):
            fail("%s: arena_memories: '%s': board %s has %s for arenas besides ram" % (ctx.label, memory, board.name, sorted(board.arenas) or "no memory"))
    if len(memories) > len({memory: None for memory in memories}):
        fail("%s: arena_memories = %s name a memory twice" % (ctx.label, memories))
    if not memories or memories[-1] == "ram":
        return board
    description, linker_script = board.arenas[memories[-1]]
    fields = {field: getattr(board, field) for field in dir(board) if field not in ["to_json", "to_proto"]}
    return BoardInfo(**(fields | {"description": description, "linker_script": linker_script}))

def _firmware_image_impl(ctx):
    name = ctx.label.name
    board = _chosen_board(ctx)
    if not board.takes_updates and any([UpdateSettingsInfo in dep for dep in ctx.attr.deps]):
        fail("%s: board %s takes no updates, as it has no flash_driver; docs/update.md lists the boards that have one, and what to write for another" % (ctx.label, board.name))
    _check_settings(ctx)
    targets = ctx.attr.models or ctx.attr.model
    _check_programs(ctx, targets, board)
    programs = [target[TorchProgramInfo] for target in targets]
    methods = methods_of(programs)
    program = _chosen_method(ctx, targets[0])

    has_npu = any([entry.accelerator for entry in programs])
    npu_sources = [npu_device(ctx, name)] if has_npu else []
    backends = ctx.attr.backends + (ctx.attr._ethos_u if has_npu else [])
    operators = operators_of(ctx, programs)
    engine, reason = _choose_engine(ctx)
    registry = generate_registry(ctx, programs, name, backends = [target[TorchBackendInfo] for target in backends])

    # struct: `data` (ProgramDataInfo) and `plans` (MemoryPlanInfo) of each method in the image; `chosen`, the one that
    # the application runs; `models`, FirmwareInfo's; `objects`, each CcCompilationOutputs of application and programs;
    # `deps`, CcInfo to link with.
    cc = configure_cc(ctx)
    if engine == "compiled":
        application = _compiled_application(ctx, cc, programs, program, operators, npu_sources, backends)
    else:
        application = _loaded_application(ctx, cc, programs, program, operators, npu_sources, backends, registry)
    data = application.data[application.chosen]

    map_file = ctx.actions.declare_file(name + ".map")
    elf = link_image(ctx, cc, name, board, application.objects, application.deps, map_file = map_file)
    image_files = write_image_files(ctx, board, programs, elf, map_file, summary = ctx.attr.summary, engine = "%s, as %s" % (engine, reason) if reason else engine)
    files = [elf, map_file] + image_files.values()
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OutputGroupInfo(
            # Any build of an image that does not fit its board must fail. One that measures operators is only built if it
            # is asked for: pages have such images of boards that nothing emulates, too.
            _validation = depset([] if _is_profiling(ctx) else [image_files["report.json"]]),
            registry = depset([registry.source]),
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
            memories = ctx.attr.arena_memories if len(ctx.attr.arena_memories) > 1 else [],
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
    attrs = LINK_ATTRS | REGISTRY_ATTRS | COMPILE_ATTRS | CORE_TRANSITION_ATTRS | LIBRARY_TRANSITION_ATTRS | IMAGE_FILES_ATTRS | HEADER_ATTRS | NPU_ATTRS | {
        "model": attr.label(providers = [TorchProgramInfo], cfg = core_transition, doc = "The torch_program to run."),
        "models": attr.label_list(
            providers = [TorchProgramInfo],
            cfg = core_transition,
            doc = """Several programs in one image, instead of `model`. They share kernels and memory. Without `srcs`, a
host or a line on the console chooses the program to run, see docs/console.md. An application in `srcs` includes
"model_programs.h"; each program has its header "NAME_pte.h", or with `engine = "compiled"` "NAME.h" and "NAME.hpp".
""",
        ),
        "method": attr.string(default = "forward", doc = "The method of the program that the application runs; with `models` the image has all methods."),
        "board": attr.label(mandatory = True, providers = [BoardInfo], cfg = library_transition, doc = "The board to run on."),
        "arena_memories": attr.string_list(
            doc = """The memories of the board, `ram` and those of its `arena_memories`, in which models have what they compute with; stack and
variables stay in `ram`. Empty: `ram`, or the NPU's. One, such as a tightly coupled memory: all is there. Several, the fastest first: the build gives
the tensors that an inference reads and writes most the first ones, and the outputs the last one. The report shows them beside flash and RAM.
""",
        ),
        "console": attr.string(
            values = ["", "on", "off"],
            doc = "Whether the image prints: `on`, `off`, or empty for the value of //firmware:console.",
        ),
        "srcs": attr.label_list(
            default = ["//firmware:application.cpp"],
            allow_files = [".c", ".cc", ".cpp", ".S"],
            doc = "The application; it includes \"model_program.h\" for the program and its sizes, or with `models` \"model_programs.h\".",
        ),
        "copts": attr.string_list(doc = "Further options of the compiler for `srcs`, such as -std=c++20 or -Werror."),
        "deps": attr.label_list(
            providers = [CcInfo],
            cfg = core_transition,
            doc = "Libraries of the application; empty: //firmware:application_deps.",
        ),
        "example": attr.bool(
            default = True,
            doc = "Whether the example input, on which the application runs, is embedded, and with a console PyTorch's output.",
        ),
        "summary": attr.bool(default = True, doc = "Whether the build prints the summary of the report."),
        "watchdog_ms": attr.int(
            doc = """The interval in milliseconds in which the application must feed the board's watchdog, which
otherwise resets the board. No execution takes longer, whatever the program is. 0 disables it. Only for boards that
implement board_watchdog() of firmware/board.h.
""",
        ),
        "engine": attr.string(
            default = "auto",
            values = ["auto", "compiled", "loaded"],
            doc = """The engine: `compiled` to C++, see torch_cpp_library: less flash and hardly anything between the kernels; or
`loaded` on the device from its .pte, by a runtime with ExecuTorch's API, which could load any other .pte that uses the same kernels. `auto`
compiles what it can: not images with `backends`, nor an application in `srcs` in C++, which calls ExecuTorch's API unless
`engine = \"compiled\"` says that it calls the models'. The report says which engine an image has, and why.""",
        ),
        "_application_deps": attr.label_list(default = ["//firmware:application_deps"], providers = [CcInfo], cfg = library_transition),
        "_application": attr.label(default = "//firmware:application.cpp", allow_files = True),
        "_compiled_application": attr.label(default = "//firmware:compiled_application.cpp", allow_files = True),
        "_compiled_models_application": attr.label(default = "//firmware:compiled_models_application.cpp", allow_files = True),
        "_compiled_runtime": attr.label(default = "//runtime:compiled", providers = [CcInfo], cfg = library_transition),
        "_console": attr.label(default = "//firmware:console"),
        # No action needs it here; the models do. Bazel looks at what has another configuration, as models have, when all else is fetched:
        # PyTorch, the largest of what a first build fetches, would wait for the compiler.
        "_packages": attr.label(default = "@pypi//:export", cfg = "exec"),
        "_profiling": attr.label(default = "//firmware:profiling"),
        "_sleep": attr.label(default = "//firmware:sleep"),
        "_split": attr.label(default = "//tools/pipeline/split", executable = True, cfg = "exec"),
        "backends": attr.label_list(
            providers = [CcInfo, TorchBackendInfo],
            cfg = core_transition,
            doc = "Every torch_backend of the programs' delegates, besides that of the board's NPU.",
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
    """Makes an image for a board. Program, libraries, kernels and runtime are built once for all boards with the same core.

    Args:
      name: the image.
      **kwargs: attributes of `firmware_image_rule`.
    """
    board = kwargs.get("board")
    problem = bare_board(board, native.existing_rules()) or model_error(kwargs.get("model"), kwargs.get("models"))
    if not problem and board:
        # firmware_test also names targets beside the board, whose absence Bazel would report instead.
        problem = no_board(native.package_relative_label(board))
    if problem:
        fail("//%s:%s: %s" % (native.package_name(), name, problem))
    firmware_image_rule(name = name, core = BOARD_CORE, library_core = LIBRARY_CORE, **kwargs)
