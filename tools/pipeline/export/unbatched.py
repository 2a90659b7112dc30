"""Layers of a model without a batch, given a batch of one.

PyTorch's layers take [channels, height, width], [channels, steps] or a plain vector, too. Quantizers, partitioners and
the passes that rewrite layers know them with a batch alone. In memory both are the same bytes, so a layer reads its
operand as a batch of one; operators behind it that are the same on that go on with it, so that what is computed with a
layer stays beside it, and where another operator reads a result it is viewed without the batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.rewrite import emit, is_elementwise, named_arguments, replace_node

_aten = torch.ops.aten

# Layers with weights, and the dimensions that an operand without a batch has.
_LAYERS: dict[Any, int] = {
    _aten.linear.default: 1,
    **dict.fromkeys((_aten.conv1d.default, _aten.conv1d.padding, _aten.conv_transpose1d.default), 2),
    **dict.fromkeys((_aten.conv2d.default, _aten.conv2d.padding, _aten.conv_transpose2d.input), 3),
    **dict.fromkeys((_aten.conv3d.default, _aten.conv3d.padding), 4),
}

# The same of layers that may only go on with a batch: poolings of others are how sums over channels are written.
_POOLINGS: dict[Any, int] = {
    **dict.fromkeys((_aten.max_pool1d.default, _aten.avg_pool1d.default, _aten.adaptive_avg_pool1d.default), 2),
    **dict.fromkeys(
        (
            _aten.max_pool2d.default, _aten.avg_pool2d.default, _aten.adaptive_avg_pool2d.default,
            _aten.pixel_shuffle.default,
        ),
        3,
    ),
}  # fmt: skip

# Operators that work on the last dimensions of their operand.
_UNCHANGED = (_aten.linear.default, _aten.layer_norm.default, _aten.rms_norm.default)


def _moved(dims: int | list[int]) -> int | list[int]:
    """Dimensions, counted from the front, behind one more."""
    if isinstance(dims, int):
        return dims + 1 if dims >= 0 else dims
    return [dim + 1 if dim >= 0 else dim for dim in dims]


# Operators that name dimensions or are given a shape, and by which arguments, and what these are with a batch.
_CHANGES: dict[Any, dict[str, Callable[[Any], Any]]] = {
    **dict.fromkeys(
        (
            _aten.mean.dim, _aten.amax.default, _aten.amin.default, _aten.sum.dim_IntList, _aten.softmax.int,
            _aten.log_softmax.int, _aten.slice.Tensor, _aten.select.int, _aten.squeeze.dim, _aten.squeeze.dims,
            _aten.unsqueeze.default, _aten.cat.default,
        ),
        {"dim": _moved},
    ),
    _aten.transpose.int: {"dim0": _moved, "dim1": _moved},
    _aten.permute.default: {"dims": lambda dims: [0, *(dim % len(dims) + 1 for dim in dims)]},
    _aten.view.default: {"size": lambda size: [1, *size]},
    _aten.reshape.default: {"shape": lambda shape: [1, *shape]},
}  # fmt: skip


def add_batch(program: ExportedProgram, begins_with_poolings: bool = False) -> None:
    """Rewrites layers without a batch, and what goes on from them, in place.

    Args:
      program: functional; what has no known shape stays as it is.
      begins_with_poolings: whether poolings are such layers, too.
    """
    layers = {**_LAYERS, **_POOLINGS} if begins_with_poolings else _LAYERS
    batches: dict[Node, Node] = {}
    begun: dict[Node, Node] = {}
    graph = program.graph

    def batch(node: Node, operand: Node) -> Node:
        if operand in batches:
            return batches[operand]
        if operand not in begun:
            with graph.inserting_before(node):
                begun[operand] = emit(graph, node, _aten.unsqueeze.default, operand, 0)
        return begun[operand]

    for node in list(graph.nodes):
        value = node.meta.get("val")
        if node.op != "call_function" or not isinstance(value, torch.Tensor):
            continue
        if not all(isinstance(size, int) for size in value.shape):
            continue
        operands = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor)]
        if not operands:
            continue
        dims = operands[0].meta["val"].dim()
        goes_on = node.target in _UNCHANGED or _POOLINGS.get(node.target) == dims
        if layers.get(node.target) == dims or (goes_on and operands[0] in batches):
            taken = {operands[0]}
        elif any(each in batches for each in operands) and (is_elementwise(node.target) or node.target in _CHANGES):
            # What has fewer dimensions broadcasts as before.
            taken = {each for each in operands if each in batches or each.meta["val"].dim() == value.dim()}
        else:
            continue
        arguments = _arguments(node)
        if arguments is None:
            continue
        given = {each: batch(node, each) for each in taken}
        args, options = torch.fx.node.map_arg(arguments, lambda each, given=given: given.get(each, each))
        with graph.inserting_before(node):
            result = emit(graph, node, node.target, *args, **options)
        if result.meta["val"].shape == (1, *value.shape):
            batches[node] = result
        else:
            graph.erase_node(result)
    for node, result in batches.items():
        with graph.inserting_after(result):
            replace_node(program, node, emit(graph, node, _aten.squeeze.dims, result, [0]))
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _arguments(node: Node) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """The arguments of an operator on operands with a batch; None if it is of all dimensions there are."""
    if node.target not in _CHANGES:
        return node.args, node.kwargs
    given = named_arguments(node)
    for name, change in _CHANGES[node.target].items():
        if given[name] is None or given[name] == []:
            return None
        given[name] = change(given[name])
    named = {each.name for each in node.target._schema.arguments if each.kwarg_only}
    return (
        tuple(value for name, value in given.items() if name not in named),
        {name: value for name, value in given.items() if name in named},
    )
