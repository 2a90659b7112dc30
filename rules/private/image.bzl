"""Makes images for boards: the application's header, compilation and linking, for every rule that makes one."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("//rules:providers.bzl", "NpuInfo")
load(":cc.bzl", "compile_sources")

visibility(["//rules/..."])

# The attributes that npu_device() needs.
NPU_ATTRS = {
    "_npu": attr.label(default = "//rules:npu", providers = [NpuInfo]),
}

def _settings(profiling, watchdog_ms):
    """Returns the end of `model_program.h`: the application's settings."""
    return """
namespace torch_fusion {{
/// Whether the image measures each operator: --//firmware:profiling=on.
inline constexpr bool kProfiling = {profiling};

/// Milliseconds in which the application must feed the board's watchdog, 0 for none.
inline constexpr unsigned kWatchdogMilliseconds = {watchdog_ms};
}} // namespace torch_fusion
""".format(profiling = "true" if profiling else "false", watchdog_ms = watchdog_ms)

def write_model_header(ctx, program, directory, profiling = False, watchdog_ms = 0):
    """Writes `model_program.h`, which the application includes independently of its program's name.

    Args:
      ctx: rule context.
      program: TorchProgramInfo.
      directory: folder of the header below the package; it becomes an include path.
      profiling: whether the image measures each operator.
      watchdog_ms: interval in milliseconds in which the application feeds the board's watchdog; 0 for none.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_program.h")
    ctx.actions.write(header, """#pragma once

#include "{program}_pte.h"

namespace model_program = {program}_pte;
{settings}""".format(program = program.name, settings = _settings(profiling, watchdog_ms)))
    return header

def write_compiled_model_header(ctx, model, directory, profiling = False, watchdog_ms = 0):
    """Writes `model_program.h` for the application of a model that was compiled to C++.

    Args:
      ctx: rule context.
      model: CompiledModelInfo.
      directory: folder of the header below the package; it becomes an include path.
      profiling: whether the image measures each operator.
      watchdog_ms: interval in milliseconds in which the application feeds the board's watchdog; 0 for none.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_program.h")
    ctx.actions.write(header, """#pragma once

#include "{name}.h"
#include "{name}_pte.h"

namespace model_program = {name}_pte;

/// The model's functions, whatever it is called: {name}.h says what they do.
namespace compiled_model {{
using Model = {name}_model_t;
inline constexpr auto& init = {name}_init;
inline constexpr auto& run = {name}_run;
inline constexpr auto& set_input = {name}_set_input;
inline constexpr auto& output = {name}_output;
inline constexpr auto& output_size = {name}_output_size;
inline constexpr auto& output_shape = {name}_output_shape;
}} // namespace compiled_model
{settings}""".format(name = model.name, settings = _settings(profiling, watchdog_ms)))
    return header

def write_chosen_model_header(ctx, models, directory, profiling = False, watchdog_ms = 0):
    """Writes `model_program.h` for firmware/compiled_models_application.cpp, which runs one of several compiled models at a time.

    Args:
      ctx: rule context.
      models: list of CompiledModelInfo.
      directory: folder of the header below the package; it becomes an include path.
      profiling: whether the image measures each operator.
      watchdog_ms: interval in milliseconds in which the application feeds the board's watchdog; 0 for none.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_program.h")
    ctx.actions.write(header, """#pragma once

#include "firmware/compiled_model.h"

{includes}

/// The models of this image, in the order of `models`, each followed by its further methods, and what is as large as the largest needs.
namespace model_program {{

inline constexpr torch_fusion::CompiledModel kModels[] = {{
{models}
}};
inline constexpr size_t kLongestName = {longest};
inline constexpr bool kHasExample = {first}_pte::kHasExample;
inline constexpr size_t kInputsSize = torch_fusion::arena_offsets({{{inputs}}}, {{{none}}})[{count}];
inline constexpr size_t kInstanceSize = torch_fusion::arena_offsets({{{sizes}}}, {{{none}}})[{count}];

}} // namespace model_program
{settings}""".format(
        count = len(models),
        first = models[0].name,
        includes = "\n".join(["#include \"{0}.h\"\n#include \"{0}_pte.h\"".format(model.name) for model in models] + ["#include \"firmware/shared_arenas.h\""]),
        inputs = ", ".join([model.name + "_pte::kInputsSize" for model in models]),
        longest = max([len(model.name) for model in models]),
        models = "\n".join(["    TORCH_FUSION_COMPILED_MODEL(%s)," % model.name for model in models]),
        none = ", ".join(["false"] * len(models)),
        settings = _settings(profiling, watchdog_ms),
        sizes = ", ".join(["sizeof(%s_model_t)" % model.name for model in models]),
    ))
    return header

def write_models_header(ctx, programs, directory):
    """Writes `model_programs.h`: the headers of several programs, and the arenas that they share.

    Args:
      ctx: rule context.
      programs: list of TorchProgramInfo.
      directory: folder of the header below the package; it becomes an include path.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_programs.h")
    names = [program.name + "_pte" for program in programs]
    ctx.actions.write(header, """#pragma once

#include "firmware/shared_arenas.h"

{includes}

/// The programs of this image, in the order of `models`, each followed by its further methods, and arenas that serve all of them.
namespace model_programs {{

inline constexpr size_t kCount = {count};
{offsets}

}} // namespace model_programs
""".format(
        count = len(names),
        includes = "\n".join(["#include \"%s.h\"" % name for name in names]),
        offsets = """
/// All programs are loaded at once, each into its part of the method arena.
inline constexpr auto kMethodArenaOffsets = torch_fusion::arena_offsets({{{method}}}, {{{every}}});
inline constexpr size_t kMethodArenaSize = kMethodArenaOffsets[kCount];

/// One program runs at a time: they share planned memory, except those that keep state from one inference to the next. Where a
/// program's outputs are, another one's inference may write.
inline constexpr auto kPlannedArenaOffsets = torch_fusion::arena_offsets({{{planned}}}, {{{state}}});
inline constexpr size_t kPlannedArenaSize = kPlannedArenaOffsets[kCount];

/// Temporary memory is shared by all.
inline constexpr size_t kTempArenaSize = torch_fusion::arena_offsets({{{temp}}}, {{{none}}})[kCount];""".format(
            every = ", ".join(["true"] * len(names)),
            method = ", ".join([name + "::kMethodArenaSize" for name in names]),
            none = ", ".join(["false"] * len(names)),
            planned = ", ".join([name + "::kPlannedArenaSize" for name in names]),
            state = ", ".join([name + "::kKeepsState" for name in names]),
            temp = ", ".join([name + "::kTempArenaSize" for name in names]),
        ),
    ))
    return header

def write_compiled_models_header(ctx, models, directory):
    """Writes `model_programs.h` for the application of several models that were compiled to C++.

    Args:
      ctx: rule context.
      models: list of CompiledModelInfo.
      directory: folder of the header below the package; it becomes an include path.

    Returns:
      File
    """
    header = ctx.actions.declare_file(directory + "/model_programs.h")
    names = [model.name for model in models]
    ctx.actions.write(header, """#pragma once

#include "firmware/shared_arenas.h"

{includes}

/// The models of this image, in the order of `models`, each followed by its further methods, and memory that serves all of them.
namespace model_programs {{

inline constexpr size_t kCount = {count};

/// Where each model's instance is in that memory: they share it, except those that keep state from one inference to the next.
inline constexpr auto kInstanceOffsets = torch_fusion::arena_offsets({{{sizes}}}, {{{state}}});
inline constexpr size_t kInstancesSize = kInstanceOffsets[kCount];

/// An instance of each model, of which one runs at a time. NAME() is one that is ready. It begins anew when another model has had
/// its memory since, whose outputs are then gone; one that keeps state has its own.
class Instances final {{
 public:
{getters}

 private:
  template <class Model, torch_fusion_status (*kInit)(Model*, size_t), bool kKeepsState>
  Model* ready(uint16_t number) {{
    auto* const model = reinterpret_cast<Model*>(memory_ + kInstanceOffsets[number]);
    uint16_t& owner = owners_[kKeepsState ? number + 1 : 0];
    if (owner != number + 1) {{
      owner = static_cast<uint16_t>(number + 1);
      kInit(model, sizeof(Model));
    }}
    return model;
  }}

  alignas(torch_fusion::kArenaAlignment) unsigned char memory_[kInstancesSize] = {{}};
  // Numbers, from 1, of the models that are ready: in the memory that they share, and in each one's own.
  uint16_t owners_[kCount + 1] = {{}};
}};

}} // namespace model_programs
""".format(
        count = len(names),
        includes = "\n".join(["#include \"{0}.h\"\n#include \"{0}_pte.h\"".format(name) for name in names]),
        sizes = ", ".join(["sizeof(%s_model_t)" % name for name in names]),
        state = ", ".join([name + "_pte::kKeepsState" for name in names]),
        getters = "\n".join([
            "  {0}_model_t* {0}() {{ return ready<{0}_model_t, &{0}_init, {0}_pte::kKeepsState>({1}); }}".format(name, i)
            for i, name in enumerate(names)
        ]),
    ))
    return header

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

def compile_application(ctx, cc, name, srcs, data, headers, deps, registry = None):
    """Compiles an application with its programs.

    Args:
      ctx: rule context.
      cc: result of configure_cc.
      name: name of the compilation, unique in the target.
      srcs: list of source Files of the application.
      data: list of ProgramDataInfo of the programs.
      headers: list of results of write_model_header and write_models_header.
      deps: list of CcInfo.
      registry: KernelRegistryInfo, if the image only has this one.

    Returns:
      CcCompilationOutputs
    """
    _, outputs = compile_sources(
        ctx,
        cc,
        name = name,
        srcs = srcs + [entry.source for entry in data] + ([registry.source] + registry.operator_sources if registry else []),
        hdrs = [entry.header for entry in data] + headers + (registry.operator_headers if registry else []),
        include_directories = [headers[0].dirname],
        deps = deps,
        additional_inputs = [entry.program for entry in data],
        quote_includes = registry.quote_includes if registry else [],
    )
    return outputs

def compile_compiled_application(ctx, cc, name, srcs, models, headers, deps, defines = []):
    """Compiles an application with models that were compiled to C++.

    Args:
      ctx: rule context.
      cc: result of configure_cc.
      name: name of the compilation, unique in the target.
      srcs: list of source Files of the application.
      models: list of CompiledModelInfo.
      headers: list of results of write_compiled_model_header and write_compiled_models_header.
      deps: list of CcInfo.
      defines: list of str, preprocessor definitions of application and models.

    Returns:
      CcCompilationOutputs
    """
    operator_sources = {file: None for model in models for file in model.operator_sources}
    operator_headers = {file: None for model in models for file in model.operator_headers}
    _, outputs = compile_sources(
        ctx,
        cc,
        name = name,
        srcs = srcs + [file for model in models for file in [model.source, model.example]] + operator_sources.keys(),
        hdrs = [file for model in models for file in [model.header, model.cpp_header, model.description]] + headers + operator_headers.keys(),
        include_directories = [headers[0].dirname],
        deps = deps,
        defines = defines,
        quote_includes = {path: None for model in models for path in model.quote_includes}.keys(),
    )
    return outputs

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
