"""The `thread_sanitized` rule: programs of this machine under ThreadSanitizer."""

def _thread_sanitizer_impl(_settings, _attr):
    return {"//rules:sanitizer": "thread"}

_thread_sanitizer = transition(
    implementation = _thread_sanitizer_impl,
    inputs = [],
    outputs = ["//rules:sanitizer"],
)

def _thread_sanitized_impl(ctx):
    return [DefaultInfo(files = depset(transitive = [binary[DefaultInfo].files for binary in ctx.attr.binaries]))]

thread_sanitized = rule(
    implementation = _thread_sanitized_impl,
    doc = "The programs of `binaries`, whose copts and linkopts have `SANITIZED_ON_HOST`, under ThreadSanitizer.",
    attrs = {
        "binaries": attr.label_list(cfg = _thread_sanitizer, mandatory = True, doc = "Labels of cc_binary targets."),
        "_allowlist_function_transition": attr.label(default = "@bazel_tools//tools/allowlists/function_transition_allowlist"),
    },
)
