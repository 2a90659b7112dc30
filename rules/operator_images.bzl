"""The `operator_images` rule and macro: makes an image per operator, to measure its size."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:actions.bzl", "LINK_ATTRS", "link_program")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc")
load("//rules/private:image.bzl", "HEADER_ATTRS", "link_image", "write_model_headers")
load("//rules/private:transitions.bzl", "BOARD_CORE", "CORE_TRANSITION_ATTRS", "core_transition", "firmware_transition")
load(":providers.bzl", "BoardInfo", "TorchProgramInfo")

OperatorImagesInfo = provider(
    doc = "Images of one operator each.",
    fields = {
        "images": "dict: operator -> File, the ELF file; the operator \"\" is an image without kernels.",
        "selections": "File: JSON, operator -> what was selected of it; null if no call of it is known.",
    },
)

def _host_transition_impl(settings, _attr):
    return {
        "//command_line_option:platforms": [str(settings["//command_line_option:host_platform"])],
        "//firmware:console": "on",
    }

# The configuration in which calls are collected, because they are the same for all boards.
_host_transition = transition(
    implementation = _host_transition_impl,
    inputs = ["//command_line_option:host_platform"],
    outputs = ["//command_line_option:platforms", "//firmware:console"],
)

# The image without kernels.
_NONE = ""

def _folder(operator):
    return operator.replace("::", "-") or "none"

def _operator_images_impl(ctx):
    name = ctx.label.name
    board = ctx.attr.board[0][BoardInfo]
    program = ctx.attr.model[0][TorchProgramInfo]
    cc = configure_cc(ctx)
    deps = [dep[CcInfo] for dep in ctx.attr.deps + ctx.attr._kernels + ctx.attr._runtime + ctx.attr.board]

    # All images have this: the application with one program. An image's kernels differ, so it only shows sizes.
    data, _ = link_program(ctx, program, name, example = False)[0]
    headers = write_model_headers(ctx, ["loaded_model"], [program], program, name)
    _, application = compile_sources(
        ctx,
        cc,
        name = name,
        srcs = ctx.files.srcs + [data.source],
        hdrs = [data.header] + headers,
        include_directories = [headers[0].dirname],
        deps = deps,
        additional_inputs = [data.program],
    )

    calls = ctx.files.calls[0]
    operators = [_NONE] + ctx.attr.operators
    sources = {
        operator: ctx.actions.declare_file("%s/%s/registry.cpp" % (name, _folder(operator)))
        for operator in operators
    }
    selections = ctx.actions.declare_file(name + ".selections.json")
    arguments = ctx.actions.args()
    arguments.use_param_file("@%s", use_always = True)
    arguments.set_param_file_format("multiline")
    arguments.add("choose")
    arguments.add("--calls", calls)
    arguments.add("--selections", selections)
    for operator, source in sources.items():
        arguments.add("--registry=%s=%s" % (operator, source.path))
    ctx.actions.run(
        executable = ctx.executable.tool,
        arguments = [arguments],
        inputs = [calls],
        outputs = sources.values() + [selections],
        mnemonic = "ChooseCalls",
        progress_message = "Choosing a call of each operator for %{label}",
    )

    images = {}
    for operator, source in sources.items():
        _, objects = compile_sources(
            ctx,
            cc,
            name = "%s/%s" % (name, _folder(operator)),
            srcs = [source],
            hdrs = [],
            include_directories = [],
            deps = deps,
        )
        images[operator] = link_image(ctx, cc, "%s/%s" % (name, _folder(operator)), board, [application, objects], deps)
    return [
        DefaultInfo(files = depset(images.values() + [selections])),
        OperatorImagesInfo(images = images, selections = selections),
    ]

operator_images_rule = rule(
    implementation = _operator_images_impl,
    doc = """Links an image for a board with each operator: with what the simplest of its calls needs, a call of float32
before others. The images have the runtime, and no console.""",
    attrs = LINK_ATTRS | HEADER_ATTRS | CORE_TRANSITION_ATTRS | {
        "board": attr.label(mandatory = True, providers = [BoardInfo], cfg = core_transition, doc = "The board."),
        "calls": attr.label(
            mandatory = True,
            allow_single_file = [".pickle"],
            cfg = _host_transition,
            doc = "Calls of the operators: an op_db_calls.",
        ),
        "console": attr.string(default = "off", values = ["off"], doc = "Whether the images print."),
        "deps": attr.label_list(
            default = ["//firmware:application_deps"],
            providers = [CcInfo],
            cfg = core_transition,
            doc = "Libraries of the application.",
        ),
        "model": attr.label(mandatory = True, providers = [TorchProgramInfo], cfg = core_transition, doc = "The program in all images."),
        "operators": attr.string_list(mandatory = True, doc = "Names in programs, such as `aten::add.out`."),
        "srcs": attr.label_list(default = ["//firmware:application.cpp"], allow_files = [".cpp"], doc = "The application."),
        "_kernels": attr.label_list(default = ["//kernels"], providers = [CcInfo], cfg = core_transition),
        "_runtime": attr.label(default = "//runtime:runtime_without_delegates", providers = [CcInfo], cfg = core_transition),
        "tool": attr.label(mandatory = True, executable = True, cfg = "exec", doc = "Chooses calls: //benchmarks/measure:operator_flash."),
    },
    cfg = firmware_transition,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [OperatorImagesInfo],
)

def operator_images(name, **kwargs):
    """Makes images of operators, whose libraries are built for the board's core.

    Args:
      name: the target.
      **kwargs: attributes of `operator_images_rule`.
    """
    operator_images_rule(name = name, core = BOARD_CORE, **kwargs)
