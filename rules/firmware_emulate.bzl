"""The `firmware_emulate` rule: runs an image in its board's emulator."""

load("//rules/private:emulator.bzl", "EMULATOR_ATTRS", "emulator_arguments")
load(":launcher.bzl", "create_launcher")

def _firmware_emulate_impl(ctx):
    return [create_launcher(ctx, ctx.attr._emulate, emulator_arguments(ctx), [])]

firmware_emulate = rule(
    implementation = _firmware_emulate_impl,
    doc = "`bazel run` shows an image's outputs in its board's emulator, beside those of the eager module.",
    attrs = EMULATOR_ATTRS,
    executable = True,
)
