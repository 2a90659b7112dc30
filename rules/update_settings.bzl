"""The `update_settings` rule: what an image accepts as an update."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load("//rules/private:memory_regions.bzl", "parse_number")
load(":providers.bzl", "UpdateSettingsInfo")

# Checking a signature takes so much of the stack besides what an application has.
_STACK = 4096

def _update_settings_impl(ctx):
    slot_size = parse_number(ctx.label, "slot_size", ctx.attr.slot_size)
    if slot_size < 4096 or slot_size % 4096:
        fail("%s: slot_size = \"%s\" is no multiple of 4096 bytes, the largest page of flash of these boards" % (ctx.label, ctx.attr.slot_size))
    header = ctx.actions.declare_file(ctx.label.name + "/update_settings.h")
    arguments = ctx.actions.args()
    arguments.add("--key", ctx.file.public_key)
    arguments.add("--product", ctx.attr.product)
    arguments.add("--version", str(ctx.attr.version))
    arguments.add("--slot-size", str(slot_size))
    arguments.add("--output", header)
    ctx.actions.run(
        executable = ctx.executable._sign,
        arguments = [arguments],
        inputs = [ctx.file.public_key],
        outputs = [header],
        mnemonic = "UpdateSettings",
        progress_message = "Writing what %{label} accepts",
    )
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        user_link_flags = depset([
            "-Wl,--defsym=__further_stack_size=%d" % _STACK,
            "-Wl,--defsym=__program_slots_size=%d" % (2 * slot_size),
        ]),
    )
    return [UpdateSettingsInfo(), CcInfo(
        compilation_context = cc_common.create_compilation_context(
            headers = depset([header]),
            includes = depset([header.dirname]),
        ),
        linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])),
    )]

update_settings = rule(
    implementation = _update_settings_impl,
    doc = "A library for `deps` of an image: its header \"update_settings.h\", room for two slots at the end of flash, and 4 KB more of stack. docs/update.md.",
    attrs = {
        "product": attr.string(mandatory = True, doc = "The product, as in `signed_program`."),
        "public_key": attr.label(mandatory = True, allow_single_file = True, doc = "The public key, PEM, that has signed what the image accepts."),
        "slot_size": attr.string(default = "64K", doc = "Bytes of each of the two slots, whole pages of flash."),
        "version": attr.int(doc = "The version of the image's own program; updates have a higher one."),
        "_sign": attr.label(default = "//tools/pipeline/sign", executable = True, cfg = "exec"),
    },
    provides = [CcInfo, UpdateSettingsInfo],
)
