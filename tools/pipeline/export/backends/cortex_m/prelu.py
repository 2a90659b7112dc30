"""Implements int8 PReLU: torch_fusion::quantized_prelu.

A PReLU with one slope is a function of one tensor. With a slope per channel it takes two products, where values below
the zero point are multiplied with their channel's factor, as in kernels/cortex_m/prelu.cpp. The memory plan may put the
result over its operand.
"""

import math

import torch
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.abi.layouts.layouts import MAX_PRELU_SHIFT
from tools.pipeline.export.backends.cortex_m.own_layers import emit_int8, marked_layer
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import QUANTIZE
from tools.pipeline.export.ir.rewriting import rewrites

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


@rewrites(QUANTIZE)
def lower_prelus(node: Node, program: ExportedProgram) -> Node | None:
    """Replaces PReLUs that the quantizer annotated by int8 operators, in place."""
    layer = marked_layer(node)
    slopes = get_param_tensor(program, layer.args[1]) if layer is not None and is_prelu(layer) else None
    if layer is None or slopes is None:
        return None
    operand, scale, zero_point = layer.args[0].args[:3]
    made = factors(slopes.detach().flatten(), scale / node.args[1])
    if made is None:
        return None
    negative, *numbers = made
    table = add_constant(program, f"{layer.name}_factors", negative)
    arguments = (operand, table, numbers[0], zero_point, node.args[2], numbers[1])
    return emit_int8(node, layer, torch.ops.torch_fusion.quantized_prelu.default, *arguments)


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
