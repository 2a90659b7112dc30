"""The `torch_operator` rule: your own operator, with its implementation in PyTorch and its kernel."""

load("//firmware/boards:boards.bzl", "EMULATED_BOARDS")
load("//rules/private:actions.bzl", "repository_path")
load(":firmware_test.bzl", "firmware_test")
load(":providers.bzl", "TorchOperatorInfo")
load(":torch_program.bzl", "torch_program")

# Labels that don't depend on the repository that calls the macro.
_TEST_BOARDS = [Label(board) for board in EMULATED_BOARDS[:1]]

# Maps PyTorch's names of dtypes to ExecuTorch's.
_DTYPES = {
    "bfloat16": "BFloat16",
    "bool": "Bool",
    "float16": "Half",
    "float32": "Float",
    "float64": "Double",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "int8": "Char",
    "uint8": "Byte",
}

# The namespaces of PyTorch, ExecuTorch and this project.
_TAKEN = ["aten", "cortex_m", "dim_order_ops", "executorch_prim", "prim", "prims", "quantized_decomposed", "torch_fusion"]

_NAME_CHARACTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

def _is_name(text):
    return text and not text[0].isdigit() and not [c for c in text.elems() if c not in _NAME_CHARACTERS]

def _torch_operator_impl(ctx):
    parts = ctx.attr.operator.split("::")
    if len(parts) != 2 or not _is_name(parts[0]) or not _is_name(parts[1]):
        fail("%s: operator '%s' is no name such as mine::soft_threshold" % (ctx.label, ctx.attr.operator))
    if parts[0] in _TAKEN:
        fail("%s: operator '%s': the namespace is taken, as are %s; use one of your own" % (ctx.label, ctx.attr.operator, _TAKEN))
    unknown = [dtype for dtype in ctx.attr.dtypes if dtype not in _DTYPES]
    if unknown or not ctx.attr.dtypes:
        fail("%s: dtypes %s: give some of %s" % (ctx.label, unknown or "are none", sorted(_DTYPES)))

    # An entry of kernels/*/operators.yaml: JSON is valid YAML.
    description = ctx.actions.declare_file(ctx.label.name + ".operators.yaml")
    ctx.actions.write(description, json.encode_indent([{
        "kernels": {ctx.attr.operator + ".out": ctx.attr.kernel if "::" in ctx.attr.kernel else "::" + ctx.attr.kernel},
        "header": repository_path(ctx.file.header),
        "dtypes": [_DTYPES[dtype] for dtype in ctx.attr.dtypes],
        "variants": ["mixed_dtypes"],
        "template": False,
    }], indent = "  ") + "\n")
    return [
        DefaultInfo(files = depset([ctx.file.src])),
        TorchOperatorInfo(
            operator = ctx.attr.operator,
            module = ctx.file.src,
            description = description,
            sources = [file for file in ctx.files.srcs if file.extension != "h"],
            headers = [ctx.file.header] + [file for file in ctx.files.srcs if file.extension == "h"],
            root = ctx.label.workspace_root,
        ),
    ]

torch_operator_rule = rule(
    implementation = _torch_operator_impl,
    doc = "See the macro `torch_operator`.",
    attrs = {
        "dtypes": attr.string_list(
            default = ["float32"],
            doc = "Dtypes of the tensors that the kernel takes, of %s; a program that gives it others is refused." % sorted(_DTYPES),
        ),
        "header": attr.label(mandatory = True, allow_single_file = [".h"], doc = "Declares the kernel."),
        "kernel": attr.string(
            mandatory = True,
            doc = """The kernel's name in C++, with its namespaces. Its parameters are a `KernelRuntimeContext&`, the
schema's arguments, and a `Tensor&` for each result.
""",
        ),
        "operator": attr.string(mandatory = True, doc = "The operator's name, `namespace::name`, as registered with torch.library."),
        "src": attr.label(
            mandatory = True,
            allow_single_file = [".py"],
            doc = "Registers the operator with torch.library: its schema, its eager and its fake implementation.",
        ),
        "srcs": attr.label_list(allow_files = [".c", ".cc", ".cpp", ".h"], doc = "The kernel's sources, and their headers."),
    },
    provides = [TorchOperatorInfo],
)

def torch_operator(name, operator, src, test_boards = _TEST_BOARDS, atol = "1e-5", rtol = "1e-5", tags = [], visibility = None, **kwargs):
    """Declares your own operator, for the `operators` of a torch_program.

    Creates `<name>`, and the tests `<name>_test_<board>`, which compare the kernel on an emulated or simulated board
    with the eager implementation, for all arguments that sample_inputs() of `src` returns. docs/own_operator.md shows
    all files.

    Args:
      name: the target.
      operator: the operator's name, `namespace::name`.
      src: the Python file that registers it with torch.library. It also has `sample_inputs()`, which returns a list of
      tuples: the arguments of one call each, in the schema's order.
      test_boards: the boards to test on; empty: no tests.
      atol: absolute tolerance of the test, of an output element.
      rtol: relative tolerance of the test.
      tags: tags of the operator and of its tests.
      visibility: visibility of the operator.
      **kwargs: attributes of `torch_operator_rule`: `kernel`, `header`, `srcs` and `dtypes`.
    """
    torch_operator_rule(name = name, operator = operator, src = src, tags = tags, visibility = visibility, **kwargs)
    if not test_boards:
        return
    _sample_calls(name = name + "_samples.py", operator = name, tags = ["manual"])
    torch_program(name = name + "_samples", src = name + "_samples.py", operators = [name], tags = ["manual"])
    firmware_test(name = name + "_test", model = name + "_samples", boards = test_boards, atol = atol, rtol = rtol, tags = tags)

def _sample_calls_impl(ctx):
    operator = ctx.attr.operator[TorchOperatorInfo]
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.write(output, """\
from tools.pipeline.model_file.sample_calls import SampleCalls

_calls = SampleCalls("{operator}", "{module}")
model = _calls.model
example_inputs = _calls.example_inputs
""".format(operator = operator.operator, module = operator.module.path))
    return [DefaultInfo(files = depset([output]))]

_sample_calls = rule(
    implementation = _sample_calls_impl,
    doc = "Makes a model file whose model calls an operator with all its sample inputs.",
    attrs = {"operator": attr.label(mandatory = True, providers = [TorchOperatorInfo], doc = "The torch_operator.")},
)
