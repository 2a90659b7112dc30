"""Folds padding that maxima ignore into the pooling, so that no range of a tensor has to hold the padding.

TensorFlow's "same" pooling pads one end more than the other, with minus infinity or a large negative number.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.operators import PADS
from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments

_aten = torch.ops.aten

# Padding below this value is for maxima to ignore: no element of an image is as small.
_IGNORED = -1e3


def take_ignored_padding(program: ExportedProgram) -> ExportedProgram:
    """Folds padding that maxima ignore into poolings of images, in place."""
    for node in list(program.graph.nodes):
        if node.target == _aten.amax.default:
            drop_padding(node)
        elif node.target == _aten.max_pool2d.default:
            take_padding(node)
    program.graph.eliminate_dead_code()
    return program


def _constant_padding(node: Node) -> tuple[Node, list[int], float] | None:
    """Returns what a node pads with a constant, the amounts at each end, last dimension first, and the constant."""
    if node.target not in PADS:
        return None
    given = named_arguments(node)
    if given.get("mode", "constant") != "constant" or min(given["pad"]) < 0:
        return None
    return given["self"], list(given["pad"]), given["value"] or 0.0


def _is_ignored(source: Node, padding: float) -> bool:
    """Whether no maximum of a tensor that is padded with a number is that number."""
    return padding < _IGNORED or (is_positive(source) and padding <= 0)


def drop_padding(maximum: Node) -> None:
    """Takes the maximum over whole dimensions before they are padded with what it ignores."""
    padding = _constant_padding(maximum.args[0])
    if maximum.target != _aten.amax.default or padding is None:
        return
    source, ends, value = padding
    rank = source.meta["val"].dim()
    reduced = {dim % rank for dim in named_arguments(maximum)["dim"] or range(rank)}
    grown = {rank - 1 - index // 2 for index, end in enumerate(ends) if end}
    if _is_ignored(source, value) and grown <= reduced:
        maximum.replace_input_with(maximum.args[0], source)


def take_padding(pooling: Node) -> Node:
    """Folds padding that a max pooling of images ignores into the pooling.

    The pooling pads both ends equally. The rest becomes repeated first and last rows and columns, which every window
    that exceeds the image contains anyway. Zeros do as well, if nothing is negative.

    Returns the pooling that takes its place, or the same.
    """
    found = _constant_padding(pooling.args[0])
    if found is None or pooling.meta["val"].dim() != 4:
        return pooling
    source, ends, value = found
    given = named_arguments(pooling)
    kernel, stride, padding, dilation = (
        for_each(given[name]) for name in ("kernel_size", "stride", "padding", "dilation")
    )
    left, right, top, bottom, *others = [*ends, 0, 0, 0, 0][: max(len(ends), 4)]
    if not _is_ignored(source, value) or any(others) or dilation != [1, 1]:
        return pooling
    paddings, counts = [], []
    for axis, end in enumerate((top, left)):
        size, out = (node.meta["val"].shape[2 + axis] for node in (source, pooling))
        step = (stride or kernel)[axis]
        before = padding[axis] + end
        after = (out - 1) * step + kernel[axis] - before - size
        if not 0 <= before < kernel[axis] or after >= kernel[axis]:
            return pooling
        # The largest padding for both ends that doesn't change the number of windows.
        most = next(
            each
            for each in range(min(before, kernel[axis] // 2), -1, -1)
            if (size + before + max(after, each) - kernel[axis]) // step + 1 == out
        )
        paddings.append(most)
        counts.append((before - most, max(after - most, 0)))
    with pooling.graph.inserting_before(pooling):
        if any(map(any, counts)) and is_positive(source):
            (top, bottom), (left, right) = counts
            source = emit(pooling, _aten.constant_pad_nd.default, source, [left, right, top, bottom], 0.0)
        else:
            source = repeat_ends(pooling, source, counts)
        pooled = emit(pooling, pooling.target, source, kernel, stride or kernel, paddings)
    pooling.replace_all_uses_with(pooled)
    pooling.graph.erase_node(pooling)
    return pooled


def repeat_ends(pooling: Node, image: Node, counts: list[tuple[int, int]]) -> Node:
    """Repeats the first and last rows and columns of the image that many times."""
    for dim, (before, after) in zip((2, 3), counts, strict=True):
        size, parts = image.meta["val"].shape[dim], [image]
        if before:
            parts = [emit(pooling, _aten.slice.Tensor, image, dim, 0, 1)] * before + parts
        if after:
            parts += [emit(pooling, _aten.slice.Tensor, image, dim, size - 1, size)] * after
        if len(parts) > 1:
            image = emit(pooling, _aten.cat.default, parts, dim)
    return image


def is_positive(node: Node) -> bool:
    """Whether a node returns no negative numbers, judging by the last operators."""
    if node.target in (_aten.relu.default, _aten.relu6.default, _aten.sigmoid.default, _aten.hardsigmoid.default):
        return True
    if node.target in (_aten.hardtanh.default, _aten.clamp.default):
        return len(node.args) > 1 and isinstance(node.args[1], (int, float)) and node.args[1] >= 0
    if node.target in (_aten.cat.default, _aten.max_pool2d.default, _aten.avg_pool2d.default, _aten.add.Tensor):
        return all(is_positive(operand) for operand in node.all_input_nodes)
    return False
