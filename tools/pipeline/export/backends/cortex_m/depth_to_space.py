"""Computes enlarged images as channels of smaller images, whose channels then become pixels.

pixel_shuffle moves channels to pixels by definition. A transposed convolution of stride s adds a kernel for each pixel
of its input, s pixels apart. For a result's coordinate o, padding p, and s * q + r = o + p with 0 <= r < s,

    result[o] = sum over j of input[q - j] * kernel[r + s * j]

so that the pixels of one r are those of a convolution of stride 1 whose kernel is every s-th weight. All r with the
same number of weights are channels of one convolution. It doesn't multiply zeros, and its kernel is packed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import add_constant, is_constant
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.operators import CLAMPS
from tools.pipeline.export.ir.rewriting import emit, for_each, is_elementwise, named_arguments

_aten = torch.ops.aten


# [batch, height, width, rows, columns, channels] in the order of pixels in the larger image.
_ORDER = [0, 1, 3, 2, 4, 5]


def move_channels_to_pixels(node: Node) -> None:
    """Replaces pixel_shuffle of images by a transposition of a channels-last image.

    If nothing else reads the convolution before it, that convolution computes its channels in the order of the result,
    so that the transposition moves runs of channels.
    """
    image, factor = node.args
    layer, readers = image, [node]
    while is_elementwise(layer.target) and len(layer.all_input_nodes) == 1 and [*layer.users] == readers:
        layer, readers = layer.all_input_nodes[0], [layer]
    is_ordered = [*layer.users] == readers and _has_channels_last(layer, factor)
    last = _after_fused(node)
    with last.graph.inserting_before(last):
        pixels = emit(last, _aten.permute.default, _fused(node, last, image), PIXELS)
        batch, height, width, channels = pixels.meta["val"].shape
        inner = [factor, factor, channels // factor**2]
        if not is_ordered:
            inner = [inner[2], *inner[:2]]
        parts = emit(last, _aten.view.default, pixels, [batch, height, width, *inner])
        order = _ORDER if is_ordered else [0, 1, 4, 2, 5, 3]
        result = _channels_last(last, _interleaved(last, parts, order))
    last.replace_all_uses_with(result)


def _has_channels_last(layer: Node, factor: int) -> bool:
    """Makes a convolution compute [factor, factor, channels] instead of [channels, factor, factor]; returns whether it
    can.
    """
    if layer.target != _aten.conv2d.default or named_arguments(layer)["groups"] != 1:
        return False
    constants = [constant for constant in layer.args[1:3] if constant is not None]
    if not all(map(is_constant, constants)):
        return False
    with layer.graph.inserting_before(layer):
        for place, constant in enumerate(constants, 1):
            shape = constant.meta["val"].shape
            parts = emit(layer, _aten.reshape.default, constant, [-1, factor, factor, shape[1:].numel()])
            moved = emit(layer, _aten.permute.default, parts, [1, 2, 0, 3])
            layer.update_arg(place, emit(layer, _aten.reshape.default, moved, [*shape]))
    return True


class _Run(NamedTuple):
    """Remainders `begin` to `end - 1` in one dimension, whose pixels are sums over the same number of weights."""

    begin: int
    end: int
    weights: int


class _Dimension(NamedTuple):
    """One dimension of a transposed convolution; the module's docstring defines q."""

    stride: int
    runs: list[_Run]
    # The range of q in the result: for its first pixel, and one beyond its last one.
    first: int
    end: int
    # The result's first pixel, relative to stride * first.
    offset: int
    # The sizes of input and result.
    size: int
    length: int

    @classmethod
    def of(cls, kernel: int, stride: int, padding: int, size: int, length: int) -> _Dimension:
        often, rest = divmod(kernel, stride)
        bounds = sorted({0, rest, stride})
        runs = [_Run(begin, end, often + (begin < rest)) for begin, end in pairwise(bounds)]
        first = padding // stride
        end = (padding + length - 1) // stride + 1
        return cls(stride, runs, first, end, padding - stride * first, size, length)

    def ends(self, run: _Run) -> tuple[int, int]:
        """Returns the padding of the input at both ends for a run's convolution."""
        return run.weights - 1 - self.first, self.end - self.size

    def places(self, run: _Run) -> list[int]:
        """Returns the kernel indices of the weights of a run's convolution, in order."""
        return [
            remainder + self.stride * back
            for remainder in range(run.begin, run.end)
            for back in range(run.weights - 1, -1, -1)
        ]


def write_transposed_convolution(program: ExportedProgram, node: Node) -> None:
    """Replaces a transposed convolution as the module's docstring describes.

    Those with groups, dilation, computed weights, or a stride larger than the kernel stay unchanged.
    """
    graph = program.graph
    image, weight, bias, stride, padding, _, groups, dilation = named_arguments(node).values()
    strides, paddings = for_each(stride), for_each(padding)
    kernel = weight.meta["val"].shape[2:]
    constants = [constant for constant in (weight, bias) if constant is not None]
    is_plain = groups == 1 and for_each(dilation) == [1, 1] and all(map(is_constant, constants))
    if not is_plain or any(size < step for size, step in zip(kernel, strides, strict=True)):
        return
    sizes, lengths = image.meta["val"].shape[2:], node.meta["val"].shape[2:]
    rows, columns = map(_Dimension.of, kernel, strides, paddings, sizes, lengths)
    last = _after_fused(node)
    with graph.inserting_before(node):
        parts = []
        for row in rows.runs:
            layers = [
                _layer(program, node, (image, weight, bias), (rows, columns), (row, column), last)
                for column in columns.runs
            ]
            parts.append(_joined(node, layers, 4))
        pixels = _interleaved(node, _joined(node, parts, 3), _ORDER)
        for dim, dimension in ((1, rows), (2, columns)):
            if pixels.meta["val"].shape[dim] != dimension.length:
                ends = dimension.offset, dimension.offset + dimension.length
                pixels = emit(node, _aten.slice.Tensor, pixels, dim, *ends)
        result = _channels_last(last, pixels)
    last.replace_all_uses_with(result)


def _layer(
    program: ExportedProgram,
    node: Node,
    operands: tuple[Node, Node, Node | None],
    dimensions: tuple[_Dimension, _Dimension],
    runs: tuple[_Run, _Run],
    last: Node,
) -> Node:
    """Computes the pixels of two runs' remainders: [batch, q of rows, q of columns, rows, columns, channels]."""
    image, weight, bias = operands
    channels, results = weight.meta["val"].shape[:2]
    (rows, height), (columns, width) = ((run.end - run.begin, run.weights) for run in runs)
    for dim, (dimension, run) in enumerate(zip(dimensions, runs, strict=True), 2):
        places = dimension.places(run)
        if places != list(range(weight.meta["val"].shape[dim])):
            name = f"{node.name}_weights_{dim}_{runs[0].begin}_{runs[1].begin}"
            index = add_constant(program, name, torch.tensor(places))
            weight = emit(node, _aten.index_select.default, weight, dim, index)
    parts = emit(node, _aten.reshape.default, weight, [channels, results, rows, height, columns, width])
    moved = emit(node, _aten.permute.default, parts, [2, 4, 1, 0, 3, 5])
    weight = emit(node, _aten.reshape.default, moved, [-1, channels, height, width])
    if bias is not None:
        bias = emit(node, _aten.repeat.default, bias, [rows * columns])

    ends = [dimension.ends(run) for dimension, run in zip(dimensions, runs, strict=True)]
    padding = [0, 0]
    if all(before == after >= 0 for before, after in ends):
        padding = [before for before, _ in ends]
    else:
        for dim, (before, after) in enumerate(ends, 2):
            if before < 0 or after < 0:
                end = image.meta["val"].shape[dim] + min(after, 0)
                image = emit(node, _aten.slice.Tensor, image, dim, max(-before, 0), end)
        more = [max(end, 0) for pair in reversed(ends) for end in pair]
        if any(more):
            image = emit(node, _aten.constant_pad_nd.default, image, more, 0.0)
    layer = emit(node, _aten.conv2d.default, image, weight, bias, [1, 1], padding)
    pixels = emit(node, _aten.permute.default, _fused(node, last, layer), PIXELS)
    shape = [*pixels.meta["val"].shape[:3], rows, columns, results]
    return emit(node, _aten.view.default, pixels, shape)


def _joined(node: Node, parts: list[Node], dim: int) -> Node:
    return parts[0] if len(parts) == 1 else emit(node, _aten.cat.default, parts, dim)


def _after_fused(node: Node) -> Node:
    """Returns the last of the operators after a node that are fused into it."""
    while len(node.users) == 1 and (user := next(iter(node.users))).target in CLAMPS:
        node = user
    return node


def _fused(node: Node, last: Node, image: Node) -> Node:
    """Applies the operators after `node`, up to `last`, to another image."""
    while node is not last:
        node = next(iter(node.users))
        image = emit(node, node.target, image, *node.args[1:], **node.kwargs)
    return image


def _interleaved(node: Node, parts: Node, order: list[int]) -> Node:
    """Interleaves pixels in height and width by a permutation: [batch, height, width, channels]."""
    moved = emit(node, _aten.permute.default, parts, order)
    batch, height, rows, width, columns, channels = moved.meta["val"].shape
    return emit(node, _aten.reshape.default, moved, [batch, height * rows, width * columns, channels])


def _channels_last(node: Node, pixels: Node) -> Node:
    """Views pixels as a channels-last image."""
    image = emit(node, _aten.permute.default, pixels, IMAGE)
    return emit(node, _aten.clone.default, image, memory_format=torch.channels_last)
