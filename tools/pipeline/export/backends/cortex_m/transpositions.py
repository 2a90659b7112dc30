"""Removes transpositions that cancel each other, or that move no data in a channels-last image.

A model with steps first transposes them for a convolution, whose image the kernels transpose back to channels-last.
Both together are a view, even if dimensions of size 1 are added or removed in between. Likewise, the tokens of an image
that a transformer converts back to an image for a convolution already have the order of its pixels.
"""

import torch
from torch.fx import Graph, Node

from tools.pipeline.export.ir.dim_orders import IMAGE
from tools.pipeline.export.ir.operators import RESHAPES, SIZE_CHANGES, TRANSPOSITIONS
from tools.pipeline.export.ir.rewriting import emit

_aten = torch.ops.aten


def view_tokens_as_pixels(graph: Graph) -> None:
    """Makes images of tokens, [batch, height * width, channels], by transposing their view as pixels, in place.

    Models transpose tokens and then view them as an image, which moves all of them in the default order.
    """
    for node in list(graph.nodes):
        moved = node.args[0] if node.target in RESHAPES else None
        shape, moved_shape = _shape(node), _shape(moved)
        if not isinstance(moved, Node) or shape is None or moved_shape is None or len(shape) != 4:
            continue
        if shape[:2] != moved_shape[:2] or order_of(moved) != [0, 2, 1]:
            continue
        with graph.inserting_before(node):
            batch, channels, height, width = shape
            pixels = emit(node, _aten.reshape.default, moved.args[0], [batch, height, width, channels])
            image = emit(node, _aten.permute.default, pixels, IMAGE)
        node.replace_all_uses_with(image)
    graph.eliminate_dead_code()


def drop_undone_transpositions(graph: Graph) -> None:
    """Replaces transpositions that cancel each other by views of the original tensor, if it has the default order, in
    place.
    """
    for node in list(graph.nodes):
        if node.target not in TRANSPOSITIONS:
            continue
        source = _undone(node)
        if source is not None:
            with graph.inserting_before(node):
                view = emit(node, _aten.reshape.default, source, list(node.meta["val"].shape))
            node.replace_all_uses_with(view)
    graph.eliminate_dead_code()


def _shape(node: object) -> tuple[int, ...] | None:
    """Returns the shape of a tensor of static sizes."""
    value = node.meta.get("val") if isinstance(node, Node) else None
    if not isinstance(value, torch.Tensor) or not all(isinstance(size, int) for size in value.shape):
        return None
    return tuple(value.shape)


def _long_dims(shape: tuple[int, ...]) -> list[int]:
    """Returns the dimensions whose size is not 1."""
    return [dim for dim, size in enumerate(shape) if size != 1]


def order_of(node: Node) -> list[int] | None:
    """Returns the permutation of a transposition, or None for other operators."""
    if node.target == _aten.permute.default:
        return [dim % len(node.args[1]) for dim in node.args[1]]
    if node.target != _aten.transpose.int:
        return None
    dims = list(range(node.meta["val"].dim()))
    one, other = (dim % len(dims) for dim in node.args[1:])
    dims[one], dims[other] = other, one
    return dims


def _undone(node: Node) -> Node | None:
    """Returns the first tensor before a transposition with the same element order, if it has the default order."""
    shape = _shape(node)
    if shape is None:
        return None
    # Maps the long dimensions of `node` to those of `source`.
    source, order, is_moved, found = node, list(range(len(_long_dims(shape)))), False, None
    while source.target in TRANSPOSITIONS | SIZE_CHANGES:
        before = source.args[0]
        before_shape = _shape(before)
        if not isinstance(before, Node) or before_shape is None:
            break
        long, before_long = _long_dims(shape), _long_dims(before_shape)
        dims = order_of(source)
        if dims is not None:
            places = [before_long.index(dims[dim]) for dim in long]
            order = [places[place] for place in order]
            is_moved |= places != sorted(places)
        elif [shape[dim] for dim in long] != [before_shape[dim] for dim in before_long]:
            break
        source, shape = before, before_shape
        if is_moved and order == sorted(order) and source.meta["val"].is_contiguous():
            found = source
    return found
