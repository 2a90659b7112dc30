"""The repository @operators: the names of all kernels, for rules that make something of each."""

_BUILD = """package(default_visibility = ["//visibility:public"])
"""

def _operator_list_impl(rctx):
    names = []
    for catalog in rctx.attr.catalogs:
        for entry in rctx.read(catalog).split("kernels: {")[1:]:
            names += [kernel.strip().partition(": ")[0] for kernel in entry.partition("}")[0].split(",")]
    rctx.file("BUILD.bazel", _BUILD)
    rctx.file("operators.bzl", '"""Made of kernels/*/operators.yaml."""\n\nOPERATORS = %s\n' % repr(sorted(names)))

_operator_list = repository_rule(
    implementation = _operator_list_impl,
    doc = "A file operators.bzl with the list OPERATORS.",
    attrs = {"catalogs": attr.label_list(mandatory = True, doc = "operators.yaml files.")},
)

def _operators_impl(_mctx):
    _operator_list(
        name = "operators",
        catalogs = [
            "//kernels/%s:operators.yaml" % folder
            for folder in ["portable", "prim", "quantized"]
        ],
    )

operators = module_extension(implementation = _operators_impl)
