"""Determines the work of operators of a captured graph in int8, from which their instructions are estimated."""

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Node

from tools.artifacts.packed_layer.packed_layer import DSP, MVE, round_up
from tools.pipeline.export.backends.cortex_m.forms import WORD, is_channels_last
from tools.pipeline.export.backends.cortex_m.norms import norm_of
from tools.pipeline.export.backends.cortex_m.pack import (
    are_computed_together,
    has_depthwise_kernel,
    has_grouped_kernel,
    has_window,
    is_packed_dense,
)
from tools.pipeline.export.backends.cortex_m.prelu import is_prelu
from tools.pipeline.export.backends.cortex_m.softmax import has_table, scores_of
from tools.pipeline.export.ir.dim_orders import IMAGE
from tools.pipeline.export.ir.operators import SIZE_CHANGES, SOFTMAX, TRANSPOSITIONS
from tools.pipeline.export.ir.rewriting import for_each, named_arguments
from tools.pipeline.export.quantize.float_work import (
    Geometry,
    Work,
    convolution_in_float,
    index_select,
    pool_in_float,
    transposed_in_float,
    work_of_call,
)
from tools.pipeline.export.rewrite.own_operators import RECURRENT
from tools.pipeline.placement.leads import LANES

_aten = torch.ops.aten

# Elementwise operators whose int8 form is not a table.
_BINARY = {
    _aten.add.Tensor: "add",
    _aten.sub.Tensor: "add",
    _aten.mul.Tensor: "mul",
    _aten.maximum.default: "maximum",
    _aten.minimum.default: "maximum",
}
_POOLS = {_aten.max_pool2d.default: "max_pool2d", _aten.avg_pool2d.default: "avg_pool2d"}
MOVES = {_aten.constant_pad_nd.default: "pad", _aten.slice.Tensor: "slice", _aten.clone.default: "permute"}
# Operators that read more elements than they return.
_REDUCTIONS = {
    _aten.amax.default: "amax",
    _aten.amin.default: "amax",
    _aten.sum.dim_IntList: "sum",
    _aten.mean.dim: "sum",
    _aten.mean.default: "sum",
    **dict.fromkeys((_aten.var.dim, _aten.var.correction, _aten.std.dim, _aten.std.correction), "sum"),
}
VIEWS = SIZE_CHANGES | TRANSPOSITIONS | {_aten.alias.default, _aten.expand.default, _aten.select.int, operator.getitem}


def work_of(node: Node) -> Work | None:
    """Returns the work of an operator in a captured graph, or None if it moves no data."""
    value = node.meta.get("val")
    target: Any = node.target
    if target in RECURRENT:
        out, given = math.prod(value[0].shape), named_arguments(node)
        (rows, features), hidden = shape_of(given["input_weight"]), value[1].shape[-1]
        # Products per step and gate of each hidden value, with the input and with the hidden state.
        products = out * (rows // hidden) * (features + hidden)
        return Work(target._schema.name.partition("::")[2], (1, out, products))
    if not isinstance(value, torch.Tensor) or node.op != "call_function":
        return None
    outputs = math.prod(value.shape)
    if target == _aten.conv2d.default:
        return _convolution(node, outputs)
    if target == _aten.conv_transpose2d.input:
        return Work("transposed", transposed_in_float(_geometry(node)))
    if target == _aten.linear.default:
        features, inner = shape_of(node.args[1])
        rows = outputs // features
        if are_computed_together(rows, features):
            amounts = (1, outputs, outputs * inner, rows * inner)
            # In int8, four rows are computed together, and those that remain one after the other.
            return Work("linear_rows", (*amounts, rows % LANES * features), Work("linear_rows", amounts))
        return Work("linear", (1, outputs, outputs * inner))
    if target == _aten.bmm.default:
        return Work("bmm", (1, outputs, outputs * shape_of(node.args[0])[2]))
    if target in SOFTMAX:
        exact = Work("softmax", (1, outputs))
        rows = outputs // max(shape_of(node)[named_arguments(node)["dim"]], 1)
        return Work("softmax_by_table", (1, outputs, rows), exact) if has_table(node) else exact
    norm = norm_of(node)
    if norm is not None:
        kind, in_float = target._schema.name.partition("::")[2], (1, outputs, outputs // norm.count)
        # Groups of channels are normalized pixel by pixel.
        groups = outputs // shape_of(node)[1] * norm.groups if norm.groups is not None else 0
        return Work(kind, (*in_float, groups), Work(kind, in_float))
    if is_prelu(node):
        # Pixel by pixel, with contiguous channels.
        planes = math.prod(shape_of(node)[:2] if value.dim() > 2 else shape_of(node)[:1])
        return Work("prelu", (1, outputs, outputs // shape_of(node)[1]), Work("prelu", (1, outputs, planes)))
    if target in _POOLS:
        return _pool(node, outputs)
    if target in _BINARY:
        shapes = {shape_of(operand) for operand in node.all_input_nodes}
        is_broadcast = any(math.prod(shape) not in (1, outputs) for shape in shapes)
        if len(shapes) == 1 and len(node.all_input_nodes) == 1:
            # Only in int8 is a square a function of one operand.
            is_square = node.args[0] == node.args[1]
            return Work("scale", (1, outputs), Work(_BINARY[target], (1, outputs)) if is_square else None)
        return Work(_BINARY[target] + ("_broadcast" if is_broadcast else ""), (1, outputs))
    if target in _REDUCTIONS:
        return Work(_REDUCTIONS[target], (1, outputs, math.prod(shape_of(node.args[0]))))
    if target == _aten.cat.default:
        # In int8, images are concatenated pixel by pixel, which takes longer if the channels are not a multiple of
        # four.
        parts = [shape_of(operand) for operand in node.all_input_nodes]
        pieces = outputs // shape_of(node)[1] * len(parts) if value.dim() == 4 and any(p[1] % 4 for p in parts) else 0
        return Work("cat", (1, outputs, pieces))
    if target == _aten.index_select.default:
        return index_select(node)
    if target in MOVES:
        if target == _aten.clone.default and _is_of_pixels(node):
            return None
        return Work(MOVES[target], (1, outputs))
    if target == _aten.permute.default and value.dim() > 4:
        # In int8 programs this permutation is a pixel_shuffle.
        return Work("pixel_shuffle", (1, outputs))
    if target in VIEWS:
        return None
    return work_of_call(node) if hasattr(target, "_schema") else Work("", (1, outputs))


def work_of_group(group: Sequence[Node]) -> Work | None:
    """Returns the work of operators that are one in int8: a table of a function, or a softmax with the operators before
    it.
    """
    last = group[-1]
    scores = scores_of(last)
    if scores is not None and scores.mask is not None:
        outputs = math.prod(shape_of(last))
        return Work("masked_softmax", (1, outputs, outputs // shape_of(last)[-1]))
    return work_of(last) if last.target in SOFTMAX else Work("table", (1, math.prod(shape_of(last))))


def _pool(node: Node, outputs: int) -> Work:
    kind = _POOLS[node.target]
    given = named_arguments(node)
    kernel = for_each(given["kernel_size"])
    count = math.prod(kernel)
    stride = for_each(given["stride"] or kernel)
    floating = Work(kind, pool_in_float(_image_shape(node), kernel, stride))
    # Kernels for int8 process four channels at a time, and divide by shifting where the count is a power of two.
    # Columns that windows don't join are channels, too, and sums of one column are those of one row.
    batch, channels, height, width = _image_shape(node)
    if (kernel[1], stride[1], for_each(given["padding"])[1]) == (1, 1, 0):
        channels, width = channels * width, 1
    pixels = outputs // channels
    rows = 1 if kernel[1] == 1 and kind == "avg_pool2d" else kernel[0]
    alone = pixels * (channels % 4)
    divided = outputs if count & (count - 1) else 0
    vectors = batch * height * width * math.ceil(channels / 16)
    with_vectors = Work(kind, (1, outputs, pixels, vectors, vectors * count, divided))
    amounts = (1, outputs, outputs * rows, outputs * count, pixels, divided, alone, alone * rows, alone * count)
    has_squares = kernel == [2, 2] and not any(for_each(given["padding"])) and channels >= WORD
    if has_squares and kind == "max_pool2d":
        # The last channels are computed with some of those before them.
        words = pixels * math.ceil(channels / WORD)
        return Work("max_pool2d_2x2", (1, pixels, words), floating, with_vectors)
    return Work(kind, amounts, floating, with_vectors)


def _is_of_pixels(node: Node) -> bool:
    """Whether a channels-last image is a permuted view that moves no data."""
    image = node.all_input_nodes[0]
    return is_channels_last(node) and image.target == _aten.permute.default and image.args[1] == IMAGE


def shape_of(node: Any) -> tuple[int, ...]:
    """Returns the shape of a node's result."""
    return tuple(node.meta["val"].shape)


def _image_shape(node: Any) -> tuple[int, ...]:
    """Returns the shape of an image with its batch, which poolings and convolutions may omit."""
    shape = shape_of(node)
    return shape if len(shape) == 4 else (1, *shape)


def _vectors(node: Node) -> int:
    """Returns the number of vectors of sixteen channels in an image's pixels."""
    batch, channels, height, width = _image_shape(node)
    return batch * height * width * math.ceil(channels / 16)


def _convolution(node: Node, outputs: int) -> Work:
    image, weight = _image_shape(node.args[0]), shape_of(node.args[1])
    channels, inner = weight[0], math.prod(weight[1:])
    floating, given = convolution_in_float(_geometry(node)), named_arguments(node)
    steps = (for_each(given[name]) for name in ("stride", "padding", "dilation"))
    if not has_window(_dialect_shape(weight), *steps):
        kind = "convolution" if image[1] == weight[1] else "depthwise" if weight[1] == 1 else "grouped"
        return Work("unpacked", _unpacked(outputs, weight), Work(kind, floating))
    if image[1] == weight[1]:
        amounts: tuple[int, ...] = (1, outputs, *_products(_image_shape(node), image[1], weight))
        return Work("convolution", amounts, Work("convolution", floating), _with_vectors(node, weight))
    if weight[1] == 1 and weight[2:] == (1, 1) and image == _image_shape(node):
        # In floating point, a factor and a term per channel are a product and a sum of images.
        return Work("channelwise", (1, outputs, image[0] * channels, outputs if channels < WORD else 0))
    if weight[1] == 1 and image[1] >= WORD:
        planes = image[0] * channels
        dilation = for_each(given["dilation"])
        if has_depthwise_kernel(MVE, image[1], channels // image[1], weight[2], dilation):
            vectors, lines = _vectors(node), _vectors(node) // _image_shape(node)[3]
            amounts = (1, outputs, vectors, vectors * inner, lines, lines * weight[2], planes)
            with_vectors = Work("depthwise_3x3" if weight[2:] == (3, 3) else "depthwise", amounts)
        else:
            with_vectors = _without_kernel(node)
        if weight[2:] == (3, 3) and set(dilation) == {1} and channels == image[1]:
            # Four channels at a time: the kernel reads the words of their image, and unpacks the columns under windows.
            words = round_up(channels, 4) // 4 * image[0]
            columns = words * _image_shape(node)[2] * ((_image_shape(node)[3] - 1) * for_each(given["stride"])[1] + 3)
            read, in_rows = words * image[2] * image[3], words * _image_shape(node)[2]
            amounts = (1, outputs, read, columns, in_rows, planes)
            return Work("depthwise_3x3", amounts, Work("depthwise_3x3", floating), with_vectors)
        # Words of int8 have four channels, and rows of their outputs are computed one after another.
        unaligned = outputs if channels % 4 else 0
        rows = math.prod(_image_shape(node)[:-1])
        several = outputs if channels > image[1] else 0
        amounts = (1, outputs, outputs * inner, unaligned, several, rows, rows * inner, planes)
        return Work("depthwise", amounts, Work("depthwise", floating), with_vectors)
    with_vectors, in_groups = _without_kernel(node), Work("grouped", floating)
    if has_grouped_kernel(DSP, _dialect_shape(weight), _groups(node)):
        # The kernel computes four pixels of a group at a time.
        groups, pixels = _groups(node), math.prod(_image_shape(node)) // channels
        blocks = groups * math.ceil(pixels / 4)
        amounts = (1, outputs, outputs * inner, pixels * groups * inner, blocks, blocks * weight[2])
        return Work("grouped", amounts, in_groups, with_vectors)
    groups = dense_groups(node)
    if groups > 1:
        # Packed layers also multiply by the zeros between the groups.
        amounts = (1, outputs, outputs * inner, outputs * inner * groups)
        return Work("few_groups", amounts, in_groups, with_vectors)
    return Work("unpacked", _unpacked(outputs, weight), in_groups, with_vectors)


def _unpacked(outputs: int, weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the amounts that determine the cost of an unpacked int8 convolution."""
    inner = math.prod(weight[1:])
    # Its kernels compute four products at a time if a group's channels are a multiple of four.
    unaligned = outputs if weight[1] % 4 else 0
    return 1, outputs, outputs * inner, outputs * math.prod(weight[2:]), unaligned, unaligned * inner


def _without_kernel(node: Node) -> Work:
    """Returns the work of a grouped convolution that has no kernel for vectors."""
    image, weight = _image_shape(node.args[0]), shape_of(node.args[1])
    if is_packed_dense(MVE, _dialect_shape(weight), _groups(node)):
        return _with_vectors(node, (weight[0], image[1], *weight[2:]))
    return Work("unpacked", _unpacked(math.prod(shape_of(node)), weight))


def _with_vectors(node: Node, weight: tuple[int, ...]) -> Work:
    """Returns the work of a convolution without groups by the kernel for vectors of sixteen products."""
    outputs, inner = math.prod(_image_shape(node)), math.prod(weight[1:])
    pixels = outputs // weight[0]
    # Windows larger than a pixel are gathered: row by row, or pixel by pixel.
    windows = 0 if weight[2:] == (1, 1) else pixels
    pieces = weight[2] * (weight[3] if for_each(named_arguments(node)["dilation"])[1] > 1 else 1)
    vectors, alone = math.ceil(inner / 16), pixels * (weight[0] % 4)
    amounts = (1, outputs, outputs * vectors, pixels, alone, alone * vectors, windows * pieces, windows * inner)
    return Work("convolution", amounts)


def _products(out: tuple[int, ...], inputs: int, weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the amounts besides outputs that determine the cost of an int8 convolution without groups.

    Returns:
      products, including the padding of packed weights; products if outputs were padded to fours; products of pixels
      beyond a multiple of four; and for windows larger than a pixel: elements of all windows, their rows, and elements
      of windows whose channels are not a multiple of four.
    """
    channels, inner = weight[0], math.prod(weight[1:])
    pixels = math.prod(out) // channels
    products, in_fours = (pixels * round_up(channels, each) * round_up(inner, 4) for each in (2, 4))
    windows = 0 if inner == inputs else pixels
    unaligned = windows * inner if inputs % 4 else 0
    left = products // pixels * (pixels % 4)
    return products, in_fours, left, windows * inner, windows * weight[2], unaligned


def _geometry(node: Node) -> Geometry:
    given = named_arguments(node)
    stride, padding, dilation = (for_each(given[name]) for name in ("stride", "padding", "dilation"))
    image, out, weight = _image_shape(node.args[0]), _image_shape(node), shape_of(node.args[1])
    return Geometry(image, out, weight, stride, padding, dilation, given["groups"])


def dense_groups(node: Node) -> int:
    """Returns the groups of a convolution that is packed without groups, and 1 for all others."""
    weight, groups = _dialect_shape(shape_of(node.args[1])), _groups(node)
    return groups if is_packed_dense(DSP, weight, groups) and not has_grouped_kernel(DSP, weight, groups) else 1


def _groups(node: Node) -> int:
    """Returns the groups of a convolution."""
    return _image_shape(node.args[0])[1] // shape_of(node.args[1])[1]


def _dialect_shape(weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a weight in the int8 dialect, [out, height, width, in / groups]."""
    return (weight[0], *weight[2:], weight[1])
