"""Images for boards: the application's header, compilation and linking, the same for every rule that makes one."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load(":cc.bzl", "compile_sources")

def write_model_header(ctx, program, directory, profiling = False):
    """Writes `model_program.h`, which the application includes whatever its program is called.

    Args:
      ctx: rule context.
      program: TorchProgramInfo.
      directory: folder of the header below the package; it becomes an include path.
      profiling: whether the image measures each operator.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_program.h")
    ctx.actions.write(header, """#pragma once

#include "{program}_pte.h"

namespace model_program = {program}_pte;

namespace torch_fusion {{
/// Whether the image measures each operator: --//firmware:profiling=on.
inline constexpr bool kProfiling = {profiling};
}} // namespace torch_fusion
""".format(program = program.name, profiling = "true" if profiling else "false"))
    return header

def compile_application(ctx, cc, name, srcs, data, header, deps, registry = None):
    """Compiles an application with its program.

    Args:
      ctx: rule context.
      cc: what configure_cc returned.
      name: name of the compilation, unique in the target.
      srcs: list of source Files of the application.
      data: ProgramDataInfo of the program.
      header: what write_model_header returned.
      deps: list of CcInfo.
      registry: KernelRegistryInfo, where the image has just this one.

    Returns:
      CcCompilationOutputs
    """
    _, outputs = compile_sources(
        ctx,
        cc,
        name = name,
        srcs = srcs + [data.source] + ([registry.source] + registry.operator_sources if registry else []),
        hdrs = [data.header, header] + (registry.operator_headers if registry else []),
        include_directories = [header.dirname],
        deps = deps,
        additional_inputs = [data.program],
        quote_includes = registry.quote_includes if registry else [],
    )
    return outputs

def link_image(ctx, cc, name, board, outputs, deps, map_file = None):
    """Links `<name>.elf` by a board's linker script, with nothing of the C library's start-up code.

    Args:
      ctx: rule context.
      cc: what configure_cc returned.
      name: path of the image below the package, without the extension.
      board: BoardInfo.
      outputs: list of CcCompilationOutputs.
      deps: list of CcInfo: libraries, and the board itself.
      map_file: File that the linker writes its map to; None: it writes none.

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
