"""What a program in floating point is estimated to take, by the instructions that its plan keeps.

A model that is to be quantized is written in other operators than the same model in floating point: padding and
upsampling choose elements by an index, images lie channels-last. So the whole program in floating point is priced by
what it will be, with the factors of costs.json.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from torch.fx import Node

from tools.pipeline.export.backends.cortex_m.forms import WORD
from tools.pipeline.export.backends.cortex_m.pack import are_computed_together
from tools.pipeline.export.ir.rewriting import for_each, named_arguments
from tools.pipeline.export.quantize.costs import Costs, Geometry, Work, convolution_in_float, parts, pool_in_float

# Operators, without their namespaces, whose kind in costs.json has another name.
_KINDS = {
    "sub": "add",
    "minimum": "maximum",
    "transpose_copy": "permute",
    "permute_copy": "permute",
    "slice_copy": "slice",
    "constant_pad_nd": "pad",
    "native_layer_norm": "layer_norm",
    "native_group_norm": "group_norm",
    "_softmax": "softmax",
    "_log_softmax": "log_softmax",
    **dict.fromkeys(("clamp", "relu6", "hardshrink", "softshrink", "threshold"), "hardtanh"),
    **dict.fromkeys(("celu", "selu"), "elu"),
    **dict.fromkeys(("erf", "expm1", "log", "log10", "log1p", "log2"), "exp"),
    **dict.fromkeys(("acos", "asin", "atan", "cos", "tan"), "sin"),
    **dict.fromkeys(("cosh", "sinh"), "tanh"),
    **dict.fromkeys(("ge", "lt", "le", "eq", "ne"), "gt"),
    **dict.fromkeys(("mean", "var"), "sum"),
    **dict.fromkeys(("amin", "max", "min"), "amax"),
    **dict.fromkeys(("_clone_dim_order", "_to_dim_order_copy", "clone", "expand_copy", "select_copy"), "slice"),
}
_BINARY = frozenset(("add", "mul", "div", "maximum", "gt"))
_REDUCTIONS = frozenset(("sum", "amax"))
_POOLS = {"max_pool2d": "max_pool2d", "max_pool2d_with_indices": "max_pool2d", "avg_pool2d": "avg_pool2d"}


def instructions(nodes: Iterable[Node | None], costs: Costs) -> float:
    """Instructions of a program that consists of calls of operators."""
    return sum(costs.float32(work_of_call(node)) for node in nodes if node is not None)


def work_of_call(node: Node) -> Work:
    """What a call of an operator in floating point does."""
    given, name = named_arguments(node), node.target._schema.name.partition("::")[2]
    kind = _KINDS.get(name, name)
    out = _shapes(node)[0]
    operands = [shape for each in node.args for shape in _operands(each)]
    outputs = math.prod(out)
    if name == "convolution":
        return _convolution(out, given)
    if name in ("lstm", "gru"):
        (rows, features), hidden = _shapes(given["input_weight"])[0], _shapes(node)[1][-1]
        return Work(kind, (1, outputs, outputs * (rows // hidden) * (features + hidden)))
    if name == "linear":
        features, inner = operands[1]
        if are_computed_together(outputs // features, features):
            return Work("linear_rows", (1, outputs, outputs * inner, outputs // features * inner))
        return Work(kind, (1, outputs, outputs * inner))
    if name in ("bmm", "mm", "addmm"):
        inner = operands[-2][-1]
        return Work("bmm", (1, outputs, outputs * inner))
    if kind in ("layer_norm", "group_norm"):
        count = outputs // math.prod(_shapes(node)[1])
        return Work(kind, (1, outputs, outputs // count))
    if name in _POOLS:
        kernel = for_each(given["kernel_size"])
        image = out if len(out) == 4 else (1,) * (4 - len(out)) + out
        return Work(_POOLS[name], pool_in_float(image, kernel, for_each(given["stride"] or kernel)))
    if kind in _BINARY:
        is_broadcast = any(math.prod(shape) not in (1, outputs) for shape in operands)
        return Work(kind + ("_broadcast" if is_broadcast and kind in ("add", "mul") else ""), (1, outputs))
    if kind in _REDUCTIONS:
        return Work(kind, (1, outputs, math.prod(operands[0])))
    if name == "index":
        # What is behind the last dimension that is chosen from is copied together.
        last = max(dim for dim, index in enumerate(given["indices"]) if index is not None)
        return Work(kind, (1, outputs, outputs // max(math.prod(out[last + 1 :]), 1)))
    return Work(kind, (1, outputs))


def _convolution(out: tuple[int, ...], given: dict[str, Any]) -> Work:
    image, weight = _shapes(given["input"])[0], _shapes(given["weight"])[0]
    dims = len(weight) - 2
    if len(image) == dims + 1:
        image, out = (1, *image), (1, *out)
    groups = given["groups"]
    stride, padding, dilation = (for_each(given[name], dims) for name in ("stride", "padding", "dilation"))
    if dims == 1:
        image, out, weight = ((*shape[:2], 1, shape[2]) for shape in (image, out, weight))
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    if given["transposed"]:
        outputs = math.prod(out)
        windows = outputs // out[1] * math.prod(weight[2:])
        products = math.prod((*image, *weight[1:]))
        return Work("transposed", (1, outputs, products, windows, products if weight[0] % 4 else 0))
    # In depth, each plane of the weights over each one of the image is a convolution of images.
    depth = (each[-3] for each in (image, out, weight, stride, padding, dilation))
    planes = sum(count * over for count, over in parts(*depth)) if dims > 2 else 1
    image, out, weight = ((*shape[:2], *shape[-2:]) for shape in (image, out, weight))
    plane = Geometry(image, out, weight, stride[-2:], padding[-2:], dilation[-2:], groups)
    amounts = (1, *(planes * amount for amount in convolution_in_float(plane)[1:]))
    if groups == 1:
        return Work("convolution3d" if dims > 2 else "convolution", amounts)
    if weight[1] > 1 or image[1] < WORD or dims > 2:
        return Work("grouped", amounts)
    is_usual = weight[2:] == (3, 3) and set(dilation) == {1} and weight[0] == image[1]
    return Work("depthwise_3x3" if is_usual else "depthwise", amounts)


def _operands(argument: Any) -> list[tuple[int, ...]]:
    """The shapes of tensors among what an operator is given."""
    given = argument if isinstance(argument, (list, tuple)) else [argument]
    return [_shapes(each)[0] for each in given if isinstance(each, Node)]


def _shapes(node: Node) -> list[tuple[int, ...]]:
    """The shapes of what a node returns."""
    value = node.meta["val"]
    return [tuple(each.shape) for each in (value if isinstance(value, (list, tuple)) else [value]) if each is not None]
