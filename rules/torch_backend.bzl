"""The `torch_backend` rule: an ExecuTorch backend, which runs delegates of programs."""

load("@rules_cc//cc/common:cc_common.bzl", "cc_common")
load("@rules_cc//cc/common:cc_info.bzl", "CcInfo")
load(":providers.bzl", "TorchBackendInfo")

def _torch_backend_impl(ctx):
    for attribute in ["method_arena_size", "temp_arena_size"]:
        if getattr(ctx.attr, attribute) < 0:
            fail("%s: %s = %d: give a number of bytes, or 0" % (ctx.label, attribute, getattr(ctx.attr, attribute)))
    return [
        cc_common.merge_cc_infos(cc_infos = [dep[CcInfo] for dep in ctx.attr.deps]),
        TorchBackendInfo(
            id = ctx.attr.id,
            header = ctx.attr.header,
            object = ctx.attr.object,
            method_arena_size = ctx.attr.method_arena_size,
            temp_arena_size = ctx.attr.temp_arena_size,
        ),
    ]

torch_backend = rule(
    implementation = _torch_backend_impl,
    doc = """Declares a class derived from executorch::runtime::BackendInterface, for the `backends` of a
torch_firmware. An image only contains those that its programs have delegates of.
""",
    attrs = {
        "deps": attr.label_list(mandatory = True, providers = [CcInfo], doc = "cc_library of the class."),
        "header": attr.string(mandatory = True, doc = "The header that declares the object, in the form for #include."),
        "id": attr.string(mandatory = True, doc = "The backend's name in programs, such as `EthosUBackend`."),
        "method_arena_size": attr.int(doc = "Bytes that init() takes from the method allocator for a delegate, aligned to 8 bytes."),
        "object": attr.string(mandatory = True, doc = "The C++ object, with its namespaces: a variable of the class."),
        "temp_arena_size": attr.int(doc = "The most bytes that execute() takes from the temporary allocator."),
    },
    provides = [CcInfo, TorchBackendInfo],
)
