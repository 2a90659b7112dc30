"""The `flash_algorithm` rule: code that a debug probe runs on a board to program its flash."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:freestanding.bzl", "link_freestanding")

def _flash_algorithm_impl(ctx):
    return [DefaultInfo(files = depset([link_freestanding(ctx)]))]

flash_algorithm = rule(
    implementation = _flash_algorithm_impl,
    doc = """Compiles a flash algorithm to `<name>.elf`: position-independent code whose functions have known names, see
firmware/flash_algorithms/algorithm.h. It is built for the platform of the board that uses it.
""",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], doc = "Headers."),
        "linker_script": attr.label(
            default = "//firmware/flash_algorithms:algorithm.ld",
            allow_single_file = [".ld"],
            doc = "The linker script, which puts the code at address 0; it is relocated from there.",
        ),
        "srcs": attr.label_list(mandatory = True, allow_files = [".c"], doc = "Sources, which can't have variables."),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
