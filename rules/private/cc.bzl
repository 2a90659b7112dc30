"""C++ compilation and linking for rules that generate sources."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "find_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules:copts.bzl", "COPTS")

visibility(["//rules/..."])

def configure_cc(ctx):
    """Returns struct(toolchain, features) for the target platform."""
    toolchain = find_cc_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features + ["pic"],
    )
    return struct(toolchain = toolchain, features = features)

def compile_sources(ctx, cc, name, srcs, hdrs, include_directories, deps, additional_inputs = [], defines = [], copts = [], operators = []):
    """Compiles sources with this project's options.

    Args:
      ctx: rule context.
      cc: result of configure_cc.
      name: name of the compilation, unique in the target.
      srcs: list of source Files.
      hdrs: list of header Files.
      include_directories: list of str, the include path of the headers.
      deps: list of CcInfo.
      additional_inputs: list of Files that the sources include by other means, such as .incbin.
      defines: list of str, preprocessor definitions of these sources.
      copts: list of str, further compiler options.
      operators: list of TorchOperatorInfo, whose kernels are compiled with the sources.

    Returns:
      (CcCompilationContext, CcCompilationOutputs)
    """
    return cc_common.compile(
        name = name,
        actions = ctx.actions,
        cc_toolchain = cc.toolchain,
        feature_configuration = cc.features,
        srcs = srcs + [file for operator in operators for file in operator.sources],
        public_hdrs = hdrs + [file for operator in operators for file in operator.headers],
        includes = include_directories,
        # Operators in another repository include their headers from its root.
        quote_includes = {operator.root: None for operator in operators if operator.root}.keys(),
        user_compile_flags = COPTS + copts,
        local_defines = defines,
        compilation_contexts = [dep.compilation_context for dep in deps],
        additional_inputs = additional_inputs,
    )

def library_info(ctx, cc, name, compilation_context, compilation_outputs, deps, alwayslink = True):
    """Packs compilation outputs into a static library.

    Args:
      ctx: rule context.
      cc: result of configure_cc.
      name: name of the library.
      compilation_context: result of compile_sources.
      compilation_outputs: result of compile_sources.
      deps: list of CcInfo.
      alwayslink: whether all of it is linked: tables and data that no symbol refers to before link time.

    Returns:
      CcInfo of the library with its deps.
    """
    linking_context, _ = cc_common.create_linking_context_from_compilation_outputs(
        name = name,
        actions = ctx.actions,
        feature_configuration = cc.features,
        cc_toolchain = cc.toolchain,
        compilation_outputs = compilation_outputs,
        linking_contexts = [dep.linking_context for dep in deps],
        disallow_dynamic_library = True,
        alwayslink = alwayslink,
    )
    return CcInfo(compilation_context = compilation_context, linking_context = linking_context)
