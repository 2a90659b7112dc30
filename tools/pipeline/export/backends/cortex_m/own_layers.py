"""Marks the layers that the quantizer assigned to operators of our own; layers in floating point look the same
otherwise.
"""

from typing import Any

import torch
from torch.fx import Node

from tools.pipeline.export.ir.operators import DEQUANTIZE
from tools.pipeline.export.ir.rewriting import place_of

# The key of a node's meta that torch.export keeps.
_CUSTOM, _KEY = "custom", "torch_fusion_int8"


def mark(node: Node) -> None:
    """Records that a node of an annotated graph becomes int8."""
    node.meta[_CUSTOM] = {**node.meta.get(_CUSTOM, {}), _KEY: True}


def is_marked(node: Node) -> bool:
    """Whether mark() was called for the origin of a node."""
    return _KEY in node.meta.get(_CUSTOM, {})


def marked_layer(quantized: Node) -> Node | None:
    """Returns the marked layer whose result becomes int8 integers in a node, if its operand is int8 integers, too."""
    layer = quantized.args[0]
    if quantized.args[5] != torch.int8 or not isinstance(layer, Node) or not is_marked(layer):
        return None
    source = layer.args[0]
    is_int8 = isinstance(source, Node) and source.target == DEQUANTIZE and source.args[5] == torch.int8
    return layer if is_int8 else None


def emit_int8(quantized: Node, layer: Node, operator: Any, *args: Any) -> Node:
    """Adds a call that computes the integers of a layer's result, with the source location of the layer."""
    result = quantized.graph.call_function(operator, args)
    result.meta = {**place_of(layer), "val": quantized.meta["val"]}
    return result
