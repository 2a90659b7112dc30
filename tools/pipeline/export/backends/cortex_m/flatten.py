"""Makes linear layers read a flattened image in its memory order.

Flattening [batch, channels, height, width] numbers the elements channel by channel. The int8 kernels keep images
channels-last, so that each inference would copy the flattened image into another order. Instead, this pass permutes the
columns of the layer's weight once.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.backends.cortex_m.forms import is_channels_last
from tools.pipeline.export.ir.constants import is_constant
from tools.pipeline.export.ir.dim_orders import PIXELS
from tools.pipeline.export.ir.operators import RESHAPES
from tools.pipeline.export.ir.rewriting import emit

_aten = torch.ops.aten


def flatten_in_memory_order(program: ExportedProgram) -> ExportedProgram:
    """Rewrites every channels-last image whose flattened form only linear layers with constant weights read, in place.

    Args:
      program: a functional program; constants must be propagated afterwards.
    """
    graph = program.graph
    for copy in list(graph.nodes):
        image = copy.args[0] if copy.target == _aten.clone.default else None
        if not isinstance(image, Node) or not is_channels_last(image):
            continue
        _, channels, height, width = image.meta["val"].shape
        views = list(copy.users)
        if not views or not all(_is_flattened_for_layers(view, channels * height * width) for view in views):
            continue
        with graph.inserting_before(copy):
            in_memory_order = emit(copy, _aten.permute.default, image, PIXELS)
        for view in views:
            for layer in list(view.users):
                weight = layer.args[1]
                with graph.inserting_before(layer):
                    columns = emit(layer, _aten.view.default, weight, [-1, channels, height, width])
                    moved = emit(layer, _aten.permute.default, columns, PIXELS)
                    shape = list(weight.meta["val"].shape)
                    layer.update_arg(1, emit(layer, _aten.reshape.default, moved, shape))
            view.target = _aten.view.default
            view.update_arg(0, in_memory_order)
        graph.erase_node(copy)
    return program


def _is_flattened_for_layers(view: Node, features: int) -> bool:
    return (
        view.target in RESHAPES
        and view.meta["val"].dim() == 2
        and view.meta["val"].shape[1] == features
        and bool(view.users)
        and all(
            layer.target == _aten.linear.default and layer.args[0] is view and is_constant(layer.args[1])
            for layer in view.users
        )
    )
