"""The `operator_flash` rule: what each operator adds to an image."""

load("//rules:launcher.bzl", "create_launcher")
load("//rules:operator_images.bzl", "OperatorImagesInfo")

def _operator_flash_impl(ctx):
    info = ctx.attr.images[OperatorImagesInfo]
    index = ctx.actions.declare_file(ctx.label.name + ".json")
    root = "../" * index.short_path.count("/")
    rows = {operator: root + image.short_path for operator, image in info.images.items()}
    ctx.actions.write(index, json.encode_indent(rows, indent = "  ") + "\n")
    return [create_launcher(
        ctx,
        ctx.attr._tool,
        ["report", "--images", index, "--selections", info.selections],
        info.images.values(),
    )]

operator_flash = rule(
    implementation = _operator_flash_impl,
    doc = """`bazel run` prints what each operator adds to an image without kernels, and fails if one is over its limit;
`-- --help` says more.""",
    attrs = {
        "images": attr.label(mandatory = True, providers = [OperatorImagesInfo], doc = "The operator_images."),
        "_tool": attr.label(default = "//benchmarks/measure:operator_flash", executable = True, cfg = "exec"),
    },
    executable = True,
)
