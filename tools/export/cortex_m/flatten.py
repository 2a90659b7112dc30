"""Linear layers that read a flattened image in the order in which it lies in memory.

Flattening [batch, channels, height, width] numbers the elements channel by channel. The int8 kernels keep images
channels-last, so the flattened one would have to be copied into another order in every inference. Here the columns of
the layer's weight are permuted instead, once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

_aten = torch.ops.aten

_VIEWS = (_aten.view.default, _aten._unsafe_view.default, _aten.reshape.default)


def flatten_in_memory_order(program: ExportedProgram) -> ExportedProgram:
    """Rewrites every channels-last image that only linear layers with constant weights read flattened, in place.

    Args:
      program: a functional program; constants are to be propagated afterwards.
    """
    graph = program.graph
    for copy in list(graph.nodes):
        image = copy.args[0] if copy.target == _aten.clone.default else None
        if not isinstance(image, Node) or not _is_channels_last(image):
            continue
        _, channels, height, width = image.meta["val"].shape
        views = list(copy.users)
        if not views or not all(_is_flattened_for_layers(view, channels * height * width) for view in views):
            continue
        with graph.inserting_before(copy):
            in_memory_order = _emit(graph, copy, _aten.permute.default, image, [0, 2, 3, 1])
        for view in views:
            for layer in list(view.users):
                weight = layer.args[1]
                with graph.inserting_before(layer):
                    columns = _emit(graph, layer, _aten.view.default, weight, [-1, channels, height, width])
                    moved = _emit(graph, layer, _aten.permute.default, columns, [0, 2, 3, 1])
                    shape = list(weight.meta["val"].shape)
                    layer.update_arg(1, _emit(graph, layer, _aten.reshape.default, moved, shape))
            view.target = _aten.view.default
            view.update_arg(0, in_memory_order)
        graph.erase_node(copy)
    program.graph_module.recompile()
    return program


def _is_channels_last(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 4 and list(value.dim_order()) == [0, 2, 3, 1]


def _is_flattened_for_layers(view: Node, features: int) -> bool:
    return (
        view.target in _VIEWS
        and view.meta["val"].dim() == 2
        and view.meta["val"].shape[1] == features
        and bool(view.users)
        and all(
            layer.target == _aten.linear.default and layer.args[0] is view and _is_constant(layer.args[1])
            for layer in view.users
        )
    )


def _is_constant(node: Any) -> bool:
    """Whether a weight is a parameter or, folded with batch normalization, computed from parameters."""
    if node.op == "placeholder":
        return node.name.startswith(("p_", "b_", "c_"))
    return node.op == "call_function" and all(_is_constant(operand) for operand in node.all_input_nodes)


def _emit(graph: torch.fx.Graph, origin: Node, operator: Callable[..., Any], *args: Any) -> Node:
    node = graph.call_function(operator, args)
    node.meta = {key: value for key, value in origin.meta.items() if key not in ("val", "tensor_meta")}
    node.meta["val"] = operator(*torch.fx.node.map_arg(args, lambda argument: argument.meta["val"]))
    return node
