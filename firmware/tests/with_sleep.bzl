"""An image with --//firmware:sleep=on."""

def _sleep_transition_impl(_settings, _attr):
    return {"//firmware:sleep": "on"}

_sleep_transition = transition(
    implementation = _sleep_transition_impl,
    inputs = [],
    outputs = ["//firmware:sleep"],
)

def _with_sleep_impl(ctx):
    return [DefaultInfo(files = depset(transitive = [target[DefaultInfo].files for target in ctx.attr.image]))]

with_sleep = rule(
    implementation = _with_sleep_impl,
    doc = "The files of an image that is built so that the core sleeps while it waits for its console.",
    attrs = {
        "image": attr.label(mandatory = True, cfg = _sleep_transition, doc = "The image."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
