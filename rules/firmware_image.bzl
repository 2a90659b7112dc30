"""The `firmware_image` rule and macro: a flashable image that runs a program on a board."""

load("@bazel_skylib//rules:common_settings.bzl", "BuildSettingInfo")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "CORES")
load("//rules/private:actions.bzl", "COMPILE_ATTRS", "LINK_ATTRS", "REGISTRY_ATTRS", "compile_program", "generate_registry", "link_program", "methods_of")
load("//rules/private:cc.bzl", "configure_cc", "run_objcopy")
load("//rules/private:image.bzl", "compile_application", "compile_compiled_application", "link_image", "write_compiled_model_header", "write_model_header", "write_models_header", "write_npu_device")
load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "LIBRARY_CORE", "core_transition", "firmware_transition", "library_transition")
load(":providers.bzl", "BoardInfo", "FirmwareInfo", "KernelRegistryInfo", "MemoryPlanInfo", "ProgramDataInfo", "TorchBackendInfo", "TorchProgramInfo")

def _firmware_image_impl(ctx):
    name = ctx.label.name
    board = ctx.attr.board[0][BoardInfo]
    if bool(ctx.attr.model) == bool(ctx.attr.models):
        fail("%s: give either model or models" % ctx.label)
    if ctx.attr.models and ctx.files.srcs == ctx.files._application:
        fail("%s: //firmware:application.cpp runs one program; an image with several models needs srcs of its own" % ctx.label)
    models = ctx.attr.models or ctx.attr.model
    programs = [target[TorchProgramInfo] for target in models]
    methods = methods_of(programs)
    found = [method for method in methods_of([programs[0]]) if method.method == ctx.attr.method]
    if not found:
        fail("%s: %s has no method %s; it has %s" % (ctx.label, models[0].label, ctx.attr.method, [method.method for method in methods_of([programs[0]])]))

    is_compiled = ctx.attr.engine == "compiled"
    if is_compiled and ctx.attr.models:
        fail("%s: engine = \"compiled\" is for one model; several torch_cpp_library go into the deps of an application of one's own" % ctx.label)
    if is_compiled and not ctx.attr.prelink:
        fail("%s: prelink = False loads the program on the device, which engine = \"compiled\" has none of" % ctx.label)
    if is_compiled and ctx.attr._profiling[BuildSettingInfo].value == "on":
        fail("%s: //firmware:profiling=on is for engine = \"linked\"; compiled models have a hook for each layer, see docs/cpp.md" % ctx.label)

    # The method that the application runs.
    program = found[0]
    console = ctx.attr._console[BuildSettingInfo].value
    profiling = ctx.attr._profiling[BuildSettingInfo].value
    if profiling == "on" and not ctx.attr.models and (console == "off" or not ctx.attr.example):
        fail("%s: //firmware:profiling=on prints what the example takes; it needs console = \"on\" and example = True" % ctx.label)
    watchdog_ms = ctx.attr.watchdog_ms
    if watchdog_ms < 0 or watchdog_ms > 16000:
        fail("%s: watchdog_ms = %d: a watchdog waits 1 to 16000 milliseconds; 0 is none" % (ctx.label, watchdog_ms))
    if watchdog_ms and ctx.attr._sleep[BuildSettingInfo].value == "on":
        fail("%s: watchdog_ms = %d with //firmware:sleep=on: a core that sleeps until there is input feeds no watchdog" % (ctx.label, watchdog_ms))
    by_name = {}
    for target in models:
        entry = target[TorchProgramInfo]
        if entry.core not in ["portable", board.core]:
            fail("%s: %s is lowered for %s, but board %s has a %s" % (ctx.label, target.label, entry.core, board.name, board.core))
        if entry.accelerator and not board.npu["base"]:
            fail("%s: %s is compiled for %s, and board %s doesn't say where it is; give base to its ethos_u()" % (ctx.label, target.label, entry.accelerator, board.name))
        for method in methods_of([entry]):
            if by_name.setdefault(method.name, target) != target:
                fail("%s: %s and %s are both called %s; set program_name of one" % (ctx.label, by_name[method.name].label, target.label, method.name))

    has_npu = any([entry.accelerator for entry in programs])
    backend_targets = ctx.attr.backends + (ctx.attr._ethos_u if has_npu else [])
    if is_compiled and backend_targets:
        fail("%s: engine = \"compiled\" has no backends; %s need engine = \"linked\"" % (ctx.label, [target.label for target in backend_targets]))
    backends = [target[TorchBackendInfo] for target in backend_targets]
    registry = generate_registry(ctx, programs, name, prelinked = ctx.attr.prelink, backends = backends)
    cc = configure_cc(ctx)
    if is_compiled:
        deps = [dep[CcInfo] for dep in ctx.attr.deps + ctx.attr._kernels + ctx.attr._compiled_runtime + ctx.attr.board]
        model = compile_program(ctx, program, program.name, name, example = ctx.attr.example)
        data = ProgramDataInfo(header = model.description, source = model.source, program = program.program, plan = model.plan)
        plan = MemoryPlanInfo(plan = model.plan, core = model.core)
        all_data = [data]
        header = write_compiled_model_header(ctx, model, name, watchdog_ms = watchdog_ms)
        srcs = ctx.files._compiled_application if ctx.files.srcs == ctx.files._application else ctx.files.srcs
        application = compile_compiled_application(ctx, cc, name, srcs, model, header, deps)
    else:
        linked = [
            entry
            for linkable in programs
            for entry in link_program(ctx, linkable, name, example = ctx.attr.example, registry = registry if ctx.attr.prelink else None, backends = backends)
        ]
        data, plan = linked[methods.index(program)]
        all_data = [entry for entry, _ in linked]
        headers = []
        if len(methods) > 1:
            headers.append(write_models_header(ctx, methods, name))
        if not ctx.attr.models:
            headers.append(write_model_header(ctx, program, name, profiling = profiling == "on", watchdog_ms = watchdog_ms))
        runtimes = ctx.attr._prelinked_runtimes if ctx.attr.prelink else ctx.attr._runtimes
        runtime = runtimes[0 if backends else 1]
        srcs = ctx.files.srcs + ([write_npu_device(ctx, board, name)] if has_npu else [])
        deps = [dep[CcInfo] for dep in ctx.attr.deps + backend_targets + ctx.attr._kernels + [runtime] + ctx.attr.board]
        application = compile_application(ctx, cc, name, srcs, all_data, headers, deps, registry = registry)
    map_file = ctx.actions.declare_file(name + ".map")
    elf = link_image(ctx, cc, name, board, [application], deps, map_file = map_file)
    images = {}
    for extension, target in {"bin": "binary", "hex": "ihex"}.items():
        images[extension] = ctx.actions.declare_file("%s.%s" % (name, extension))
        run_objcopy(ctx, cc, elf, images[extension], ["-O", target], "Writing %{label} as " + extension)

    uf2 = None
    if board.uf2_family:
        uf2 = ctx.actions.declare_file(name + ".uf2")
        arguments = ctx.actions.args()
        arguments.add("--image", images["bin"])
        arguments.add("--address", board.flash_origin)
        arguments.add("--family", board.uf2_family)
        arguments.add("--output", uf2)
        ctx.actions.run(
            executable = ctx.executable._uf2,
            arguments = [arguments],
            inputs = [images["bin"]],
            outputs = [uf2],
            mnemonic = "Uf2",
            progress_message = "Writing %{label} as uf2",
        )

    report_text = ctx.actions.declare_file(name + ".report.txt")
    report_json = ctx.actions.declare_file(name + ".report.json")
    arguments = ctx.actions.args()
    arguments.add("--elf", elf)
    arguments.add("--map", map_file)
    arguments.add("--board", board.description)
    arguments.add_all([entry.program for entry in programs], before_each = "--program")
    arguments.add("--text", report_text)
    arguments.add("--json", report_json)
    if not ctx.attr.summary:
        arguments.add("--quiet")
    ctx.actions.run(
        executable = ctx.executable._report,
        arguments = [arguments],
        inputs = [elf, map_file, board.description] + [entry.program for entry in programs],
        outputs = [report_text, report_json],
        mnemonic = "SizeReport",
        progress_message = "Measuring %{label}",
    )
    files = [elf, images["bin"], images["hex"], map_file, report_text, report_json] + ([uf2] if uf2 else [])
    return [
        DefaultInfo(files = depset(files), runfiles = ctx.runfiles(files)),
        OutputGroupInfo(
            # Whatever is built of the image, one that does not fit into its board fails.
            _validation = depset([report_json]),
            registry = depset([registry.source, registry.kernels]),
            program = depset(
                [file for entry in methods for file in [entry.program, entry.manifest]] +
                [file for entry in all_data for file in [entry.header, entry.plan]],
            ),
        ),
        data,
        plan,
        registry,
        program,
        FirmwareInfo(
            name = name,
            board = board,
            program = program,
            plan = data.plan,
            elf = elf,
            bin = images["bin"],
            hex = images["hex"],
            uf2 = uf2,
            map = map_file,
            report_text = report_text,
            report_json = report_json,
            console = console,
        ),
    ]

firmware_image_rule = rule(
    implementation = _firmware_image_impl,
    doc = """Links runtime, kernels, program, application and board into `<name>.elf`, `.bin`, `.hex`, `.map` and,
where the board has a UF2 boot loader, `.uf2`, with a
report of flash and RAM in text and JSON. An image over the board's limits fails the build and says what takes how
much.""",
    attrs = LINK_ATTRS | REGISTRY_ATTRS | COMPILE_ATTRS | CORE_TRANSITION_ATTRS | {
        "model": attr.label(providers = [TorchProgramInfo], cfg = core_transition, doc = "The torch_program to run."),
        "models": attr.label_list(
            providers = [TorchProgramInfo],
            cfg = core_transition,
            doc = """Instead of `model`: several programs in one image, for an application of one's own. They share kernels and, by
\"model_programs.h\", arenas; each has its header, \"NAME_pte.h\".""",
        ),
        "method": attr.string(default = "forward", doc = "The method that the application runs, of those that the program has."),
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
            default = "linked",
            values = ["linked", "compiled"],
            doc = """How the model runs: `linked`, by a runtime that calls kernels by tables that the build made, with ExecuTorch's API and
all that the console offers; or `compiled` to C++, see torch_cpp_library: less flash and hardly anything between the kernels.""",
        ),
        "_application": attr.label(default = "//firmware:application.cpp", allow_files = True),
        "_compiled_application": attr.label(default = "//firmware:compiled_application.cpp", allow_files = True),
        "_compiled_runtime": attr.label(default = "//runtime:compiled", providers = [CcInfo], cfg = library_transition),
        "_console": attr.label(default = "//firmware:console"),
        "_profiling": attr.label(default = "//firmware:profiling"),
        "_sleep": attr.label(default = "//firmware:sleep"),
        "_uf2": attr.label(default = "//tools/pipeline/uf2", executable = True, cfg = "exec"),
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
        "_ethos_u": attr.label_list(
            default = ["//firmware/ethos_u:backend"],
            providers = [CcInfo, TorchBackendInfo],
            cfg = library_transition,
        ),
        "_kernels": attr.label_list(default = ["//kernels"], providers = [CcInfo], cfg = library_transition),
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
        "_report": attr.label(default = "//tools/pipeline/report", executable = True, cfg = "exec"),
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
