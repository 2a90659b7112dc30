"""int8 softmax by a table of exponentials: torch_fusion::quantized_softmax.

It computes the integers that softmax_by_table() of kernels/cortex_m/softmax.cpp computes. An int8 value is one of 256
steps below the largest one, so there are 256 exponentials; the dialect's operator computes one for each value.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.constants import add_constant
from tools.pipeline.export.cortex_m.own_layers import is_marked
from tools.pipeline.export.rewrite import named_arguments, place_of, replace_node

SOFTMAX = (torch.ops.aten.softmax.int, torch.ops.aten._softmax.default)

_QUANTIZE = torch.ops.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = torch.ops.quantized_decomposed.dequantize_per_tensor.default

# What e^0 is in the table.
_ONE = 32767
# Results for which the 512 bytes of a table are spent.
_MIN_RESULTS = 256
# What is below half a unit of the table, of that many values, is less than a hundredth of their sum.
_MAX_COUNT = 512

_library = Library("torch_fusion", "FRAGMENT")
_ARGUMENTS = "Tensor input, Tensor exponentials, int dim"
_library.define(f"quantized_softmax({_ARGUMENTS}) -> Tensor")
_library.define(f"quantized_softmax.out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")


def has_table(node: Node) -> bool:
    """Whether a softmax is worth a table in int8, and exact enough by it."""
    if node.target not in SOFTMAX:
        return False
    shape = node.meta["val"].shape
    return math.prod(shape) >= _MIN_RESULTS and shape[named_arguments(node)["dim"]] <= _MAX_COUNT


def exponentials(scale: float) -> Tensor:
    """e^-d of values that are d = 255, ... 0 steps of `scale` below the largest one, int16 in 1 / 32767."""
    return (torch.exp(-scale * torch.arange(255, -1, -1, dtype=torch.float64)) * _ONE).round().to(torch.int16)


@impl(_library, "quantized_softmax", "CompositeExplicitAutograd")
def quantized_softmax(input: Tensor, exponentials: Tensor, dim: int) -> Tensor:
    """Softmax of int8 values to such of scale 1 / 256 and zero point -128."""
    if input.numel() == 0:
        return torch.empty_like(input)
    values = input.to(torch.int64)
    values = exponentials.to(torch.int64)[255 - values.amax(dim, True) + values]
    factors = 2**30 // values.sum(dim, True)
    result = ((values * factors + 2**21) >> 22).clamp(max=255) - 128
    return torch.empty_like(input).copy_(result)


register_fake("torch_fusion::quantized_softmax")(lambda input, *_: torch.empty_like(input))


def lower_softmaxes(program: ExportedProgram) -> None:
    """Puts the operator in place of each softmax that the quantizer gave to it, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        layer = node.args[0] if node.target == _QUANTIZE else None
        if not isinstance(layer, Node) or not is_marked(layer) or not has_table(layer):
            continue
        source = layer.args[0]
        # Its result always has this scale, but where another operator's is shared.
        if node.args[1:3] != (1 / 256, -128) or source.target != _DEQUANTIZE or source.args[5] != torch.int8:
            continue
        operand, scale = source.args[:2]
        table = add_constant(program, f"{layer.name}_exponentials", exponentials(scale))
        with graph.inserting_before(node):
            result = graph.call_function(
                torch.ops.torch_fusion.quantized_softmax.default, (operand, table, named_arguments(layer)["dim"])
            )
        result.meta = {**place_of(layer), "val": node.meta["val"]}
        replace_node(program, node, result)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
