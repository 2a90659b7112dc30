"""The `boot_stage` rule: the second stage of an RP2040's boot."""

load("@rules_cc//cc:find_cc_toolchain.bzl", "use_cc_toolchain")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:freestanding.bzl", "link_freestanding")

def _boot_stage_impl(ctx):
    source = ctx.actions.declare_file(ctx.label.name + ".c")
    elf = link_freestanding(ctx)
    arguments = ctx.actions.args()
    arguments.add("--elf", elf)
    arguments.add("--output", source)
    ctx.actions.run(
        executable = ctx.executable._boot_stage,
        arguments = [arguments],
        inputs = [elf],
        outputs = [source],
        mnemonic = "BootStage",
        progress_message = "Adding the checksum of %{label}",
    )
    return [DefaultInfo(files = depset([source]))]

boot_stage = rule(
    implementation = _boot_stage_impl,
    doc = """Compiles the second stage of an RP2040's boot to `<name>.c`: 256 bytes with their checksum, which the
linker script puts before the vector table. It is a source of the board's code.
""",
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], doc = "Headers."),
        "linker_script": attr.label(
            mandatory = True,
            allow_single_file = [".ld"],
            doc = "The linker script, which puts the code at the address where the boot ROM runs it, with its entry first.",
        ),
        "srcs": attr.label_list(mandatory = True, allow_files = [".c"], doc = "Sources, which can't have variables."),
        "_boot_stage": attr.label(default = "//tools/pipeline/boot_stage", executable = True, cfg = "exec"),
    },
    fragments = ["cpp"],
    toolchains = use_cc_toolchain(),
)
