"""The `firmware_emulate` rule: an image in its board's emulator."""

load("//rules/private:emulator.bzl", "EMULATOR_ATTRS", "emulator_arguments")
load(":launcher.bzl", "create_launcher")

def _firmware_emulate_impl(ctx):
    return [create_launcher(ctx, ctx.attr._emulate, emulator_arguments(ctx), [])]

firmware_emulate = rule(
    implementation = _firmware_emulate_impl,
    doc = "`bazel run` shows what an image computes in its board's emulator, beside the eager module's outputs.",
    attrs = EMULATOR_ATTRS,
    executable = True,
)
