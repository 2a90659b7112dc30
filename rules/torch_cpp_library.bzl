"""The `torch_cpp_library` rule: a model as plain C++."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//platforms:cores.bzl", "CORES")
load("//rules/private:actions.bzl", "COMPILE_ATTRS", "KERNELS", "choose_kernels", "compile_program", "is_identifier", "methods_of")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc", "library_info")
load("//rules/private:image.bzl", "NPU_ATTRS", "npu_device")
load("//rules/private:transitions.bzl", "CORE_TRANSITION_ATTRS", "LIBRARY_CORE", "LIBRARY_TRANSITION_ATTRS", "board_or_core_transition", "library_transition")
load(":providers.bzl", "BoardInfo", "CompiledModelInfo", "MemoryPlanInfo", "TorchProgramInfo")

def _torch_cpp_library_impl(ctx):
    program = ctx.attr.model[TorchProgramInfo]
    if ctx.attr.board and ctx.attr.core:
        fail("%s: give either board or core" % ctx.label)
    methods = methods_of([program])
    found = [method for method in methods if method.method == ctx.attr.method]
    if not found:
        fail("%s: %s has no method %s; it has %s" % (ctx.label, ctx.attr.model.label, ctx.attr.method, [method.method for method in methods]))
    name = ctx.attr.library_name or found[0].name
    if not is_identifier(name):
        fail("%s: library_name '%s' is not a C identifier" % (ctx.label, name))
    model = compile_program(ctx, found[0], name, ctx.label.name, example = False)
    npu_sources = [npu_device(ctx, ctx.attr.model.label)] if program.accelerator else []
    driver = [target[CcInfo] for target in ctx.attr._ethos_u] if program.accelerator else []
    deps = driver + [choose_kernels(ctx, [program]), ctx.attr._runtime[0][CcInfo]]
    cc = configure_cc(ctx)
    context, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = [model.source] + npu_sources,
        hdrs = [model.header, model.cpp_header],
        include_directories = [model.header.dirname],
        deps = deps,
        copts = ["-std=c++17"] + ctx.attr.copts,
        operators = program.operators,
    )
    library = library_info(ctx, cc, ctx.label.name, context, outputs, deps, alwayslink = False)
    return [
        DefaultInfo(files = depset([model.header, model.cpp_header, model.source])),
        library,
        MemoryPlanInfo(plan = model.plan, core = model.core),
        model,
    ]

torch_cpp_library_rule = rule(
    implementation = _torch_cpp_library_impl,
    doc = """Compiles a torch_program to plain C++17 and a library of it, with the kernels that it calls: no program,
loader, operator table or allocator. Use `#include "NAME.h"` in C, and `#include "NAME.hpp"` in C++; docs/cpp.md
documents the interface. It is built for the target's platform: in an image for the board's core and NPU, otherwise for
the build machine; `core` or `board` sets another.
""",
    attrs = COMPILE_ATTRS | CORE_TRANSITION_ATTRS | LIBRARY_TRANSITION_ATTRS | NPU_ATTRS | {
        "model": attr.label(mandatory = True, providers = [TorchProgramInfo], doc = "The torch_program."),
        "method": attr.string(default = "forward", doc = "The method of the program."),
        "core": attr.string(
            values = [""] + sorted(CORES),
            doc = "The core to build for, one of those in docs/boards.md; empty: that of the platform.",
        ),
        "board": attr.label(
            providers = [BoardInfo],
            doc = "The board to build for, with its NPU, instead of `core`; in an image it is the image's.",
        ),
        "library_name": attr.string(doc = "Prefix of the functions and C++ namespace, a C identifier; the program's name by default."),
        "copts": attr.string_list(doc = "Further options of the compiler for the model's source, such as -DTORCH_FUSION_LAYER_HOOK=my_hook."),
        # Callers come before the libraries that define the functions.
        "_ethos_u": attr.label_list(default = ["//firmware/ethos_u:driver", "//firmware/ethos_u:access"], providers = [CcInfo], cfg = library_transition),
        "_kernels": attr.label_list(default = KERNELS, providers = [CcInfo], cfg = library_transition),
        "_runtime": attr.label(default = "//runtime:compiled", providers = [CcInfo], cfg = library_transition),
    },
    cfg = board_or_core_transition,
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [CcInfo, CompiledModelInfo, MemoryPlanInfo],
)

def torch_cpp_library(name, **kwargs):
    """Makes a library of a model. Kernels and runtime are built once for all boards with the same core.

    Args:
      name: the library.
      **kwargs: attributes of `torch_cpp_library_rule`.
    """
    torch_cpp_library_rule(name = name, library_core = LIBRARY_CORE, **kwargs)
