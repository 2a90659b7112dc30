"""Implements int8 PReLU: torch_fusion::quantized_prelu.

A PReLU with one slope is a function of one tensor. With a slope per channel it takes two products, where values below
the zero point are multiplied with their channel's factor, as in kernels/cortex_m/prelu.cpp. The memory plan may put the
result over its operand.
"""

import math
from typing import Any

import torch
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.abi.layouts.layouts import MAX_PRELU_SHIFT
from tools.pipeline.export.backends.cortex_m.own_layers import is_marked
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE
from tools.pipeline.export.ir.rewriting import place_of, replace_node

_library = Library("torch_fusion", "FRAGMENT")
_ARGUMENTS = "Tensor input, Tensor negative, int positive, int zero_point, int output_zero_point, int shift"
_library.define(f"quantized_prelu({_ARGUMENTS}) -> Tensor")
_library.define(f"quantized_prelu.out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")


@impl(_library, "quantized_prelu", "CompositeExplicitAutograd")
def quantized_prelu(
    input: Tensor, negative: Tensor, positive: int, zero_point: int, output_zero_point: int, shift: int
) -> Tensor:
    """Multiplies [batch, channels, ...], less its zero point, with factors that have `shift` fractional bits."""
    x = input.to(torch.int64) - zero_point
    below = negative.to(torch.int64).reshape(-1, *[1] * (input.dim() - 2))
    sums = x * torch.where(x < 0, below, positive) + (output_zero_point << shift) + (1 << shift >> 1)
    return torch.empty_like(input).copy_((sums >> shift).clamp(-128, 127))


register_fake("torch_fusion::quantized_prelu")(lambda input, *_: torch.empty_like(input))


def is_prelu(node: Node) -> bool:
    """Whether a node of a captured graph is a PReLU with a slope per channel."""
    if node.target != torch.ops.aten.prelu.default:
        return False
    shape, slopes = (operand.meta["val"].shape for operand in node.all_input_nodes)
    return len(shape) >= 2 and math.prod(slopes) == shape[1] and math.prod(shape) > 0


def lower_prelus(program: ExportedProgram) -> None:
    """Replaces PReLUs that the quantizer annotated by int8 operators, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.target != QUANTIZE or node.args[5] != torch.int8 or not isinstance(node.args[0], Node):
            continue
        layer = node.args[0]
        if not (is_prelu(layer) and is_marked(layer)):
            continue
        source, slopes = layer.args[0], get_param_tensor(program, layer.args[1])
        if source.target != DEQUANTIZE or source.args[5] != torch.int8 or slopes is None:
            continue
        operand, scale, zero_point = source.args[:3]
        made = factors(slopes.detach().flatten(), scale / node.args[1])
        if made is None:
            continue
        negative, *numbers = made
        table = add_constant(program, f"{layer.name}_factors", negative)
        arguments: tuple[Any, ...] = (operand, table, numbers[0], zero_point, node.args[2], numbers[1])
        with graph.inserting_before(node):
            result = graph.call_function(torch.ops.torch_fusion.quantized_prelu.default, arguments)
        result.meta = {**place_of(layer), "val": node.meta["val"]}
        replace_node(program, node, result)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def factors(slopes: Tensor, ratio: float) -> tuple[Tensor, int, int] | None:
    """Returns the factors of negative elements and of others, and the number of their fractional bits.

    Args:
      ratio: the scale of the operand relative to the result's. Returns None if factors are too large.
    """
    largest = ratio * max(1.0, float(slopes.abs().max()))
    shift = min(MAX_PRELU_SHIFT - math.ceil(math.log2(largest)), MAX_PRELU_SHIFT)
    if shift < 0:
        return None
    steps = ratio * 2**shift
    return (slopes.double() * steps).round().to(torch.int32), round(steps), shift
