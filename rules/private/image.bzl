"""Images for boards: the application's headers, and linking, the same for every rule that makes one."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("//rules:providers.bzl", "NpuInfo")

visibility(["//rules/..."])

# The attributes that npu_device() needs.
NPU_ATTRS = {
    "_npu": attr.label(default = "//rules:npu", providers = [NpuInfo]),
}

# write_model_headers() needs these.
HEADER_ATTRS = {
    "_headers": attr.label(default = "//firmware/headers"),
}

# The header that is made of each template.
_HEADERS = {
    "chosen_models": "model_program",
    "compiled_model": "model_program",
    "compiled_models": "model_programs",
    "image_settings": "image_settings",
    "loaded_model": "model_program",
    "loaded_models": "model_programs",
}

def write_model_headers(ctx, kinds, models, chosen, directory, profiling = False, watchdog_ms = 0):
    """Writes the headers that an application includes whatever its models are called.

    Args:
      ctx: rule context, with HEADER_ATTRS.
      kinds: list of names of templates in firmware/headers.
      models: list of TorchProgramInfo, or of CompiledModelInfo: what templates for several models have.
      chosen: one of them, which templates for one model have.
      directory: folder of the headers below the package; it becomes an include path.
      profiling: whether the image measures each operator.
      watchdog_ms: interval in milliseconds in which the application feeds the board's watchdog; 0 for none.

    Returns:
      list of File
    """
    templates = {file.basename.removesuffix(".h.in"): file for file in ctx.files._headers}
    headers = []
    for kind in kinds + ["image_settings"]:
        names = [model.name for model in (models if kind.endswith("_models") else [chosen])]
        endings = ["_pte.h"] if kind.startswith("loaded_") else [".h", "_pte.h"]
        header = ctx.actions.declare_file("%s/%s.h" % (directory, _HEADERS[kind]))
        ctx.actions.expand_template(
            template = templates[kind],
            output = header,
            substitutions = {
                "{count}": str(len(names)),
                "{each}": " ".join(["TORCH_FUSION_EACH(%s)" % name for name in names]),
                "{includes}": "\n".join(["#include \"%s%s\"" % (name, ending) for name in names for ending in endings]),
                "{longest}": str(max([len(name) for name in names])),
                "{name}": names[0],
                "{profiling}": "true" if profiling else "false",
                "{watchdog_ms}": str(watchdog_ms),
            },
        )
        headers.append(header)
        for name in names if kind.startswith("loaded_") else []:
            no_class = ctx.actions.declare_file("%s/%s.hpp" % (directory, name))
            ctx.actions.expand_template(template = templates["loaded_class"], output = no_class, substitutions = {"{name}": name})
            headers.append(no_class)
    return headers

def npu_device(ctx, name):
    """Returns the source that defines the NPU of the board for firmware/ethos_u/driver.h.

    Args:
      ctx: rule context, with NPU_ATTRS.
      name: the delegate that needs the driver, for the message.

    Returns:
      File
    """
    npu = ctx.attr._npu[NpuInfo]
    if not npu.device:
        fail("%s: %s is compiled for %s, and %s" % (ctx.label, name, npu.accelerator, npu.problem))
    return npu.device

def link_image(ctx, cc, name, board, outputs, deps, map_file = None):
    """Links `<name>.elf` by a board's linker script, without the C library's start-up code.

    Args:
      ctx: rule context.
      cc: result of configure_cc.
      name: path of the image below the package, without the extension.
      board: BoardInfo.
      outputs: list of CcCompilationOutputs.
      deps: list of CcInfo: libraries, and the board itself.
      map_file: File for the linker's map, or None.

    Returns:
      File: the ELF image.
    """
    return cc_common.link(
        name = name + ".elf",
        actions = ctx.actions,
        feature_configuration = cc.features,
        cc_toolchain = cc.toolchain,
        compilation_outputs = cc_common.merge_compilation_outputs(compilation_outputs = outputs),
        linking_contexts = [dep.linking_context for dep in deps],
        user_link_flags = ["-nostartfiles", "-T", board.linker_script.path] + (["-Wl,-Map=" + map_file.path] if map_file else []),
        additional_inputs = [board.linker_script],
        additional_outputs = [map_file] if map_file else [],
        output_type = "executable",
    ).executable
