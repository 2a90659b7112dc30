"""Determines the work of operators in floating point, from which their instructions are estimated.

A model that is prepared for quantization has other operators than the same model in floating point: padding and
upsampling select elements by index, and images are channels-last. So a program all in floating point is priced by the
calls in its plan.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch.fx import Node

from tools.artifacts.core.core import has_vectors
from tools.pipeline.export.backends.cortex_m.forms import WORD
from tools.pipeline.export.backends.cortex_m.pack import are_computed_together
from tools.pipeline.export.ir.rewriting import for_each, named_arguments

# Operators, without their namespaces, whose kind in costs.json has another name.
_KINDS = {
    "conv3d": "convolution",
    "grid_sampler": "grid_sampler_2d",
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
_BINARY = frozenset(("add", "mul", "div", "maximum", "gt", "where"))
# Those whose kernel is another one where sizes differ.
_BROADCAST = frozenset(("add", "mul", "where"))
_REDUCTIONS = frozenset(("sum", "amax"))
_POOLS = {"max_pool2d": "max_pool2d", "max_pool2d_with_indices": "max_pool2d", "avg_pool2d": "avg_pool2d"}


@dataclass(frozen=True)
class Work:
    """The work of an operator.

    Attributes:
      kind: its name in costs.json.
      amounts: what the cost factors apply to: 1, the outputs, and further amounts of its kind.
      floating: the work in floating point; None if it is the same.
      with_vectors: the work in int8 on cores with vectors, if these have no kernel for it.
    """

    kind: str
    amounts: tuple[int, ...]
    floating: Work | None = None
    with_vectors: Work | None = None

    def in_int8(self, core: str) -> Work:
        """Returns the work in int8 on a core."""
        return self.with_vectors if self.with_vectors is not None and has_vectors(core) else self

    def in_float(self) -> Work:
        """Returns the work in floating point."""
        return self.floating or self


def work_of_call(node: Node) -> Work:
    """Returns the work of a call in floating point."""
    given, name = named_arguments(node), node.target._schema.name.partition("::")[2].rstrip("_")
    kind = _KINDS.get(name, name)
    out = _shapes(node)[0]
    operands = [shape for each in node.args for shape in _operands(each)]
    outputs = math.prod(out)
    if kind == "convolution":
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
    if name in ("native_layer_norm", "native_group_norm"):
        count = outputs // math.prod(_shapes(node)[1])
        return Work(kind, (1, outputs, outputs // count))
    if name in _POOLS:
        kernel = for_each(given["kernel_size"])
        image = out if len(out) == 4 else (1,) * (4 - len(out)) + out
        return Work(_POOLS[name], pool_in_float(image, kernel, for_each(given["stride"] or kernel)))
    if kind in _BINARY:
        is_broadcast = any(math.prod(shape) not in (1, outputs) for shape in operands)
        return Work(kind + ("_broadcast" if is_broadcast and kind in _BROADCAST else ""), (1, outputs))
    if kind in _REDUCTIONS:
        return Work(kind, (1, outputs, math.prod(operands[0])))
    if name == "index_select":
        return index_select(node)
    if name == "index":
        # Elements after the last indexed dimension are copied together.
        last = max(dim for dim, index in enumerate(given["indices"]) if index is not None)
        return Work(kind, (1, outputs, outputs // max(math.prod(out[last + 1 :]), 1)))
    if kind == "grid_sampler_2d":
        # The source of a pixel is computed once for all channels.
        return Work(kind, (1, outputs, outputs // out[1]))
    return Work(kind, (1, outputs))


def index_select(node: Node) -> Work:
    """Returns the work of a choice of elements by a constant index."""
    (out,), dim = _shapes(node), node.args[1]
    assert isinstance(dim, int)
    return Work("index_select", (1, math.prod(out), out[dim], out[dim] * math.prod(out[:dim])))


def _convolution(out: tuple[int, ...], given: dict[str, Any]) -> Work:
    image, weight = _shapes(given["input"])[0], _shapes(given["weight"])[0]
    dims = len(weight) - 2
    if len(image) == dims + 1:
        image, out = (1, *image), (1, *out)
    groups = given["groups"]
    stride, dilation = (for_each(given[name], dims) for name in ("stride", "dilation"))
    padding = given["padding"]
    if isinstance(padding, str):
        same = [step * (size - 1) // 2 for step, size in zip(dilation, weight[2:], strict=True)]
        padding = same if padding == "same" else 0
    padding = for_each(padding, dims)
    if dims == 1:
        image, out, weight = ((*shape[:2], 1, shape[2]) for shape in (image, out, weight))
        stride, padding, dilation = [1, *stride], [0, *padding], [1, *dilation]
    transposed = bool(given.get("transposed"))
    outputs, deep = math.prod(out), [each[-3:] for each in (image, out, weight, stride, padding, dilation)]
    image, out, weight = ((*shape[:2], *shape[-2:]) for shape in (image, out, weight))
    plane = Geometry(image, out, weight, stride[-2:], padding[-2:], dilation[-2:], groups)
    amounts_of = transposed_in_float if transposed else convolution_in_float
    amounts = amounts_of(plane)
    if dims > 2:
        # In depth, a plane of the weights over a plane of the image is a convolution of images. All but the first one
        # over a plane add to its results.
        depth = [each[0] for each in deep]
        over = [part for phase in _phases(*depth) for part in phase] if transposed else parts(*depth)
        first, added = sum(count for count, _ in over), sum(count * (taps - 1) for count, taps in over if taps)
        pairs = zip(amounts[2:], amounts_of(plane, is_added=True)[2:], strict=True)
        amounts = (1, outputs, *(first * one + added * other for one, other in pairs), added * math.prod(out))
    if transposed:
        return Work("transposed", amounts)
    if groups == 1:
        return Work("convolution3d" if dims > 2 else "convolution", amounts)
    if weight[1] > 1 or image[1] < WORD or dims > 2:
        return Work("grouped", amounts)
    is_usual = weight[2:] == (3, 3) and set(dilation) == {1} and weight[0] == image[1]
    return Work("depthwise_3x3" if is_usual else "depthwise", amounts)


def _operands(argument: Any) -> list[tuple[int, ...]]:
    """Returns the shapes of tensors in an argument."""
    given = argument if isinstance(argument, (list, tuple)) else [argument]
    return [_shapes(each)[0] for each in given if isinstance(each, Node)]


def _shapes(node: Node) -> list[tuple[int, ...]]:
    """Returns the shapes of a node's results."""
    value = node.meta["val"]
    return [tuple(each.shape) for each in (value if isinstance(value, (list, tuple)) else [value]) if each is not None]


@dataclass(frozen=True)
class Geometry:
    """The geometry of a two-dimensional convolution.

    Attributes:
      image, out: the shapes of the image and of the result.
      weight: the shape of the weight.
      stride, padding, dilation: vertical and horizontal values.
      groups: the number of groups.
    """

    image: tuple[int, ...]
    out: tuple[int, ...]
    weight: tuple[int, ...]
    stride: list[int]
    padding: list[int]
    dilation: list[int]
    groups: int


def convolution_in_float(of: Geometry, is_added: bool = False) -> tuple[int, ...]:
    """Returns the amounts that determine the cost of a convolution in floating point.

    Its kernel splits an image by which rows and columns of the weights overlap it, computes each part in blocks of four
    pixels by four channels, and repeats that for the next channels: see pixels() in kernels/portable/convolution.cpp.

    Args:
      is_added: whether it adds to results, which it must not do twice.

    Returns:
      1, outputs, such parts, blocks in them, and products of blocks of four adjacent pixels, of four others, of one
      pixel.
    """
    sizes = zip(of.image[2:], of.out[2:], of.weight[2:], of.stride, of.padding, of.dilation, strict=True)
    down, across = (parts(*axis) for axis in sizes)
    if of.weight[2:] == (1, 1) and (*of.stride, *of.padding) == (1, 1, 0, 0):
        # Rows need not be distinguished.
        down, across = [(1, 1)], [(math.prod(of.out[2:]), 1)]
    channels, passes = _passes(of, of.weight[0] // of.groups)
    counts = _blocks(down, across, channels * of.weight[1], not is_added, of.stride[1] == 1)
    return (1, math.prod(of.out), *(passes * count for count in counts))


def transposed_in_float(of: Geometry, is_added: bool = False) -> tuple[int, ...]:
    """Returns the amounts that determine the cost of a transposed convolution in floating point.

    It is one convolution for each distance of results from the first one of a stride: see phase_of() in
    kernels/portable/convolution.cpp.

    Args:
      is_added: whether it adds to results, which it must not do twice.

    Returns:
      those of convolution_in_float().
    """
    sizes = zip(of.image[2:], of.out[2:], of.weight[2:], of.stride, of.padding, of.dilation, strict=True)
    down, across = (_phases(*axis) for axis in sizes)
    channels, passes = _passes(of, of.weight[1])
    inner = of.weight[0] // of.groups
    found = [_blocks(rows, columns, channels * inner, not is_added, True) for rows in down for columns in across]
    return (1, math.prod(of.out), *(passes * sum(counts) for counts in zip(*found, strict=True)))


def _passes(of: Geometry, per_group: int) -> tuple[int, int]:
    """Returns how many channels a kernel computes at a time, and how often it does for a number of them per group."""
    channels = 4 if per_group >= 4 else 1
    return channels, of.out[0] * of.groups * math.ceil(per_group / channels)


def _blocks(
    down: list[tuple[int, int]],
    across: list[tuple[int, int]],
    products_of_pixel: int,
    may_overlap: bool,
    is_adjacent: bool,
) -> tuple[int, ...]:
    """Returns the parts of an image, blocks in them and products of three kinds of blocks.

    Args:
      may_overlap: whether the last block of a line may overlap the one before.
      is_adjacent: whether the inputs of adjacent columns are.
    """
    blocks, products = 0, [0, 0, 0]
    for rows, high in down:
        for columns, wide in across:
            if columns >= 4 and (may_overlap or columns % 4 == 0):
                count, kind = rows * math.ceil(columns / 4), 0 if is_adjacent else 1
            elif rows >= 4 and (may_overlap or rows % 4 == 0):
                count, kind = math.ceil(rows / 4) * columns, 1
            elif min(rows, columns) >= 2 and may_overlap:
                count, kind = math.ceil(rows / 2) * math.ceil(columns / 2), 1
            else:
                count, kind = rows * columns, 2
            blocks += count
            products[kind] += count * (1 if kind == 2 else 4) * products_of_pixel * high * wide
    return len(down) * len(across), blocks, *products


def _phases(
    size: int, results: int, kernel: int, stride: int, padding: int, dilation: int
) -> list[list[tuple[int, int]]]:
    """Returns the parts() of an axis of a transposed convolution, for each distance of results from the first one."""
    found = []
    divisor = math.gcd(stride, dilation)
    for first in range(min(stride, results)):
        position, count = first + padding, (results - 1 - first) // stride + 1
        taps = [tap for tap in range(kernel) if (position - tap * dilation) % stride == 0]
        if taps:
            before = (taps[-1] * dilation - position) // stride
            found.append(parts(size, count, len(taps), 1, before, dilation // divisor))
        else:
            found.append([(count, 0)])
    return found


def parts(size: int, results: int, kernel: int, stride: int, padding: int, dilation: int) -> list[tuple[int, int]]:
    """Groups adjacent results along an axis that overlap the same kernel elements: their number, and that of the
    elements.
    """
    found: list[tuple[int, int]] = []
    place = 0
    while place < results:
        start = place * stride - padding
        over = sum(0 <= start + tap * dilation < size for tap in range(kernel))
        count = 1
        if over == kernel:
            count = min(results - place, (size - 1 - start - (kernel - 1) * dilation) // stride + 1)
        found.append((count, over))
        place += count
    return found


def pool_in_float(out: tuple[int, ...], kernel: list[int], stride: list[int]) -> tuple[int, ...]:
    """Returns the amounts that determine the cost of a pooling in floating point.

    Windows of two by two are computed in pairs, others row by row.
    """
    outputs = math.prod(out)
    others = 0 if kernel == stride == [2, 2] else outputs
    return 1, outputs - others, others, others * kernel[0], others * math.prod(kernel), math.prod(out[:2])
