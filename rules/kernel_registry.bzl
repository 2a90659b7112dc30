"""The `kernel_registry` rule: makes a table of the kernels that programs use."""

load("@host_compiler//:constraints.bzl", "OWN_WORKSPACE")
load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:actions.bzl", "KERNELS", "REGISTRY_ATTRS", "choose_kernels", "generate_registry", "operators_of")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc", "library_info")
load(":copts.bzl", "SANITIZERS")
load(":providers.bzl", "KernelRegistryInfo", "TorchProgramInfo")

# A bool of a program, or one that overlaps another tensor, may be any byte and then reads as either value: no kernel
# computes an address from a bool.
_BOOLS_OF_ANY_PROGRAM = ["-fno-sanitize=bool"]

# A fuzzer is compiled with -O1. With every kernel and dtype that would take four times as long, for a tenth more
# programs per minute.
_UNOPTIMIZED = ["-O0"]

def _kernel_registry_impl(ctx):
    programs = [target[TorchProgramInfo] for target in ctx.attr.programs]
    registry = generate_registry(ctx, programs, ctx.label.name)
    deps = [choose_kernels(ctx, programs)]
    cc = configure_cc(ctx)

    # Sanitized like the kernels' libraries: half of the kernels' code are templates, which are compiled here.
    is_image = ctx.target_platform_has_constraint(ctx.attr._without_system[platform_common.ConstraintValueInfo])
    is_sanitized = OWN_WORKSPACE and not is_image
    context, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = [registry.source],
        hdrs = [],
        include_directories = [],
        deps = deps,
        copts = SANITIZERS + _BOOLS_OF_ANY_PROGRAM + _UNOPTIMIZED if is_sanitized else [],
        operators = operators_of(ctx, programs),
    )
    return [
        DefaultInfo(files = depset([registry.source])),
        library_info(ctx, cc, ctx.label.name, context, outputs, deps),
        registry,
    ]

kernel_registry = rule(
    implementation = _kernel_registry_impl,
    doc = """Generates and compiles the kernel table of one or several programs: exactly the operators and dtypes they
use. The runtime finds it in an image without registration. An operator without a kernel fails the build and names its
location in the model.
""",
    attrs = REGISTRY_ATTRS | {
        "programs": attr.label_list(
            providers = [TorchProgramInfo],
            doc = "The programs whose operators are registered. Empty: every kernel with every dtype, for tools that run any program.",
        ),
        "_kernels": attr.label_list(default = KERNELS, providers = [CcInfo]),
        "_without_system": attr.label(default = "@platforms//os:none"),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
    provides = [CcInfo, KernelRegistryInfo],
)
