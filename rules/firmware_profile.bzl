"""The `firmware_profile` rule: profiles each operator of an image."""

load("//rules/private:emulator.bzl", "create_counting_launcher", "write_index")
load("//rules/private:profile.bzl", "PROFILE_ATTRS")
load("//rules/private:transitions.bzl", "profile_transition")
load(":providers.bzl", "FirmwareInfo")

def _firmware_profile_impl(ctx):
    index, files = write_index(ctx, [(target, {}) for target in ctx.attr.firmware])
    return [create_counting_launcher(ctx, ctx.attr._profile, index, files)]

firmware_profile = rule(
    implementation = _firmware_profile_impl,
    doc = """`bazel run` measures each operator of an image in its board's emulator: a table of
instructions, estimated cycles, multiply-accumulates and the module that the operator comes from. Options after `--`: `--board NAME`,
`--console FILE`, `--clock-mhz MHZ`; `--help` lists them.""",
    attrs = PROFILE_ATTRS | {
        "firmware": attr.label_list(
            mandatory = True,
            cfg = profile_transition,
            providers = [FirmwareInfo],
            doc = "Images with the usual application, of which `--board` chooses one; they are built with //firmware:profiling=on.",
        ),
    },
    executable = True,
)
