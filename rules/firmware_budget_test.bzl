"""The `firmware_budget_test` rule and macro: what an image may take, and what grew since it was last recorded."""

load("//rules/private:profile.bzl", "PROFILE_ATTRS", "profile_image")
load("//rules/private:transitions.bzl", "profile_transition")
load(":launcher.bzl", "create_launcher")
load(":providers.bzl", "FirmwareInfo")

def _firmware_budget_impl(ctx):
    firmware = ctx.attr.firmware[FirmwareInfo]
    if not ctx.attr.budget:
        fail("%s: it has no limit; give at least one of flash, ram, instructions, ms and accuracy" % ctx.label)
    arguments = ["--report", firmware.report_json, "--board", firmware.board.description]
    if "accuracy" in ctx.attr.budget:
        if not firmware.program.report:
            fail("%s: accuracy is known of quantized models, and %s is not; leave it out" % (ctx.label, firmware.program.name))
        arguments += ["--quantization", firmware.program.report]
    if "instructions" in ctx.attr.budget or "ms" in ctx.attr.budget:
        if not firmware.board.emulated:
            fail("%s: board %s has no emulator to count instructions and ms in; use one with emulator_machine set" % (ctx.label, firmware.board.name))
        profile = profile_image(ctx, ctx.attr.profiled[0][FirmwareInfo], ctx.label.name + ".data")
        arguments += ["--profile", profile, "--manifest", firmware.program.manifest]
    for name, limit in ctx.attr.budget.items():
        arguments += ["--limit", "%s=%s" % (name, limit)]
    if ctx.attr.write:
        arguments += ["--write", ctx.attr.write]
    elif ctx.file.baseline:
        arguments += ["--baseline", ctx.file.baseline]
    return [create_launcher(ctx, ctx.attr._budget, arguments + ["--update", ctx.attr.update], [])]

_ATTRS = PROFILE_ATTRS | {
    "baseline": attr.label(allow_single_file = [".json"], doc = "The numbers that the update recorded."),
    "budget": attr.string_dict(mandatory = True, doc = "Limits by what they are of."),
    "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], doc = "The image."),
    "profiled": attr.label(providers = [FirmwareInfo], cfg = profile_transition, doc = "The same, where a limit needs its profile."),
    "update": attr.string(mandatory = True, doc = "Label of the target that records the baseline."),
    "write": attr.string(doc = "File of the workspace that is written in place of a comparison."),
    "_budget": attr.label(default = "//tools/verify/budget", executable = True, cfg = "exec"),
}

_firmware_budget_test = rule(
    implementation = _firmware_budget_impl,
    doc = "Compares what an image takes with limits and with a baseline.",
    attrs = _ATTRS,
    test = True,
)

_firmware_budget_update = rule(
    implementation = _firmware_budget_impl,
    doc = "Records what an image takes in the workspace.",
    attrs = _ATTRS,
    executable = True,
)

def firmware_budget_test(name, firmware, flash = "", ram = "", instructions = 0, ms = "", accuracy = "", tags = []):
    """Fails if an image takes more than it may, and says which parts and layers grew since the recorded baseline.

    `bazel run :<name>.update` records the baseline, `<name>.baseline.json` beside the BUILD file. A test writes its result as a
    table in Markdown, too: `budget.md` among its undeclared outputs, for a pull request.

    Args:
      name: the test.
      firmware: the torch_firmware.
      flash: bytes, such as "64K"; of the image as it is built, with its console.
      ram: bytes, such as "16K".
      instructions: of an inference, counted in the board's emulator.
      ms: milliseconds of an inference, estimated at the board's clock, such as "20" or "2.5".
      accuracy: the smallest share of the evaluation set that the int8 model gets right, such as "0.95".
      tags: tags of the test.
    """
    limits = {"flash": flash, "ram": ram, "instructions": str(instructions or ""), "ms": ms, "accuracy": accuracy}
    file = name + ".baseline.json"
    arguments = {
        "budget": {key: limit for key, limit in limits.items() if limit},
        "firmware": firmware,
        # An image without console or example has no profile.
        "profiled": firmware if instructions or ms else None,
        "update": "//%s:%s.update" % (native.package_name(), name),
    }
    baseline = file if native.glob([file], allow_empty = True) else None
    _firmware_budget_test(name = name, size = "small", baseline = baseline, tags = tags, **arguments)
    path = native.package_name() + "/" + file if native.package_name() else file
    _firmware_budget_update(name = name + ".update", tags = ["manual"], write = path, **arguments)
