"""The `reproducibility_test` rule: two clean builds of an image give identical bytes."""

load(":launcher.bzl", "create_launcher", "link_apart")
load(":providers.bzl", "FirmwareInfo")

_BUILD_ID = "//rules/private:build_id"

def _two_builds_impl(_settings, _attr):
    # The configuration that the image is built in anyway, and one that differs
    # from it in nothing that an action reads: every action from training to
    # linking runs again, into other output paths, but those of kernels,
    # runtime, and the board's code, which library_transition has compiled once.
    return {"first": {_BUILD_ID: ""}, "second": {_BUILD_ID: "second"}}

_two_builds = transition(
    implementation = _two_builds_impl,
    inputs = [],
    outputs = [_BUILD_ID],
)

def _files(target):
    firmware = target[FirmwareInfo]
    return [
        firmware.program.program,
        firmware.program.manifest,
        firmware.program.golden,
        firmware.plan,
        firmware.bin,
        firmware.hex,
    ]

def _reproducibility_test_impl(ctx):
    arguments = []
    for first, second in zip(
        _files(ctx.split_attr.firmware["first"]),
        _files(ctx.split_attr.firmware["second"]),
    ):
        if first.path == second.path:
            fail("%s: %s was built once only" % (ctx.label, first.short_path))
        arguments += [link_apart(ctx, "first", first), link_apart(ctx, "second", second)]
    return [create_launcher(ctx, ctx.attr._compare, arguments, [])]

reproducibility_test = rule(
    implementation = _reproducibility_test_impl,
    doc = """Builds an image twice from its model file on, with no action shared but those of kernels, runtime and the board's code, and
compares program, manifest, golden data, memory plan and image byte by byte.""",
    attrs = {
        "firmware": attr.label(mandatory = True, providers = [FirmwareInfo], cfg = _two_builds, doc = "The torch_firmware."),
        "_compare": attr.label(default = "//tools/verify/reproducibility", executable = True, cfg = "exec"),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
    test = True,
)
