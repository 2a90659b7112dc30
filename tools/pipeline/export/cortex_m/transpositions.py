"""Transpositions that undo each other, with dimensions of size 1 that come or go in between.

A model that has its steps first transposes them for a convolution, whose image the kernels want with its channels last:
back again. What is left of it is a view of another shape.
"""

from __future__ import annotations

import torch
from torch.fx import Graph, Node

from tools.pipeline.export.rewrite import emit

_aten = torch.ops.aten

_TRANSPOSITIONS = (_aten.permute.default, _aten.transpose.int)
# What may only add or drop dimensions of size 1.
_VIEWS = (
    _aten.view.default, _aten.reshape.default, _aten._unsafe_view.default, _aten.squeeze.dim, _aten.squeeze.dims,
    _aten.squeeze.default, _aten.unsqueeze.default,
)  # fmt: skip


def drop_undone_transpositions(graph: Graph) -> None:
    """Views tensors that lie in the default order in place of transpositions that end as they began, in place."""
    for node in list(graph.nodes):
        if node.target not in _TRANSPOSITIONS:
            continue
        source = _undone(node)
        if source is not None:
            with graph.inserting_before(node):
                view = emit(graph, node, _aten.reshape.default, source, list(node.meta["val"].shape))
            node.replace_all_uses_with(view)
    graph.eliminate_dead_code()


def _shape(node: object) -> tuple[int, ...] | None:
    """The shape of a tensor of known sizes."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(value.shape)


def _long_dims(shape: tuple[int, ...]) -> list[int]:
    """The dimensions whose size is not 1."""
    return [dim for dim, size in enumerate(shape) if size != 1]


def _undone(node: Node) -> Node | None:
    """The first tensor behind a transposition whose elements have the same order, if it lies in the default one."""
    shape = _shape(node)
    if shape is None:
        return None
    # Which of the long dimensions of `source` those of `node` are.
    source, order, is_moved, found = node, list(range(len(_long_dims(shape)))), False, None
    while source.target in (*_TRANSPOSITIONS, *_VIEWS):
        before = source.args[0]
        before_shape = _shape(before)
        if not isinstance(before, Node) or before_shape is None:
            break
        long, before_long = _long_dims(shape), _long_dims(before_shape)
        if source.target in _TRANSPOSITIONS:
            dims = list(range(len(shape)))
            if source.target == _aten.permute.default:
                dims = [dim % len(shape) for dim in source.args[1]]
            else:
                one, other = (dim % len(shape) for dim in source.args[1:])
                dims[one], dims[other] = other, one
            places = [before_long.index(dims[dim]) for dim in long]
            order = [places[place] for place in order]
            is_moved |= places != sorted(places)
        elif [shape[dim] for dim in long] != [before_shape[dim] for dim in before_long]:
            break
        source, shape = before, before_shape
        if is_moved and order == sorted(order) and source.meta["val"].is_contiguous():
            found = source
    return found
