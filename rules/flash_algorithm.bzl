"""The `flash_algorithm` rule: code that a debug probe runs on a board to program its flash."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:cc.bzl", "compile_sources", "configure_cc")

def _flash_algorithm_impl(ctx):
    cc = configure_cc(ctx)
    _, outputs = compile_sources(
        ctx,
        cc,
        name = ctx.label.name,
        srcs = ctx.files.srcs,
        hdrs = [],
        include_directories = [],
        deps = [dep[CcInfo] for dep in ctx.attr.deps],
        # The linker would drop functions that nothing calls.
        copts = ["-fno-lto", "-ffreestanding", "-Os"],
    )
    linked = cc_common.link(
        name = ctx.label.name + ".elf",
        actions = ctx.actions,
        feature_configuration = cc.features,
        cc_toolchain = cc.toolchain,
        compilation_outputs = outputs,
        user_link_flags = ["-nostdlib", "-fno-lto", "-T", ctx.file.linker_script.path],
        additional_inputs = [ctx.file.linker_script],
        output_type = "executable",
    )
    return [DefaultInfo(files = depset([linked.executable]))]

flash_algorithm = rule(
    implementation = _flash_algorithm_impl,
    doc = """Compiles a flash algorithm to `<name>.elf`: position-independent code whose functions are found by their names, see
firmware/flash_algorithms/algorithm.h. It is built for the platform of the board that uses it.""",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], doc = "Headers."),
        "linker_script": attr.label(
            default = "//firmware/flash_algorithms:algorithm.ld",
            allow_single_file = [".ld"],
            doc = "Places the code at address 0, from where it is moved.",
        ),
        "srcs": attr.label_list(mandatory = True, allow_files = [".c"], doc = "Sources; they cannot have variables."),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
