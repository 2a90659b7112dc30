"""Implements int8 layer, group and RMS normalization: torch_fusion::quantized_layer_norm and quantized_group_norm.

The operators compute the integers that kernels/cortex_m/norm.cpp computes. Weights are int16 and biases int32, scaled
for the output, so that a channel is only rounded once, in its result.
"""

import math
from dataclasses import dataclass

import torch
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.backends.cortex_m.own_layers import emit_int8, marked_layer
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import QUANTIZE
from tools.pipeline.export.ir.rewriting import named_arguments, rewrites

_aten = torch.ops.aten

# The limit of values that are normalized together, as in kernels/cortex_m/norm.h.
_MAX_NORMALIZED = 0xFFFF

# The epsilon of an rms_norm that has none.
_LEAST_EPSILON = torch.finfo(torch.float32).eps

_library = Library("torch_fusion", "FRAGMENT")

# `center` is None for the mean. `epsilon` is in squared units of the input, `shift` the fractional bits of products.
_SCHEMAS = {
    "quantized_layer_norm": "Tensor input, Tensor weight, Tensor bias, int? center, float epsilon, int shift",
    "quantized_group_norm": "Tensor input, Tensor weight, Tensor bias, int groups, float epsilon, int shift",
}
for _name, _arguments in _SCHEMAS.items():
    _library.define(f"{_name}({_arguments}) -> Tensor")
    _library.define(f"{_name}.out({_arguments}, *, Tensor(a!) out) -> Tensor(a!)")


@dataclass(frozen=True)
class Constants:
    """A normalization's weights and biases per channel, in its kernel's format.

    Attributes:
      weight: int16.
      bias: int32.
    """

    weight: Tensor
    bias: Tensor
    shift: int


def _value_bits(count: int) -> int:
    """Returns fractional bits of `count` values normalized together: none exceeds the square root of their number."""
    return 14 - math.ceil(math.ceil(math.log2(count)) / 2)


def constants(count: int, weight: Tensor, bias: Tensor, scale: float, zero_point: int) -> Constants | None:
    """Returns the constants of a normalization over `count` values to int8 with a scale and zero point.

    Returns None for weights or biases that are too large.
    """
    weight, bias = weight.double() / scale, bias.double() / scale + zero_point
    largest = max(float(weight.abs().max()) / 32767, float(bias.abs().max()) * 2.0 ** (_value_bits(count) - 30), 1e-9)
    shift = min(_value_bits(count) + math.floor(-math.log2(largest)), 30)
    if shift < 0:
        return None
    steps = 2.0 ** (shift - _value_bits(count))
    half = 1 << (shift - 1) if shift else 0
    return Constants(
        (weight * steps).round().to(torch.int16), ((bias * 2.0**shift).round() + half).to(torch.int32), shift
    )


def _normalize(x: Tensor, center: int | None, epsilon: float) -> Tensor:
    """Normalizes integers in the last dimension, with _value_bits() fractional bits."""
    count = x.shape[-1]
    x = x.to(torch.int64)
    size = torch.tensor(float(count))
    if center is None:
        sums = x.sum(-1, True)
        middle = sums.float() / size
        spread = (x * x).sum(-1, True) * count - sums * sums
    else:
        middle = torch.tensor(float(center))
        spread = ((x - center) ** 2).sum(-1, True) * count
    # float32 represents the upper 24 bits; the exponent from frexp is the bit length.
    cut = (torch.frexp(spread.double()).exponent - 24).clamp(min=0).to(torch.int64)
    spread = ((spread >> cut) << cut).float() + torch.tensor(epsilon) * size * size
    # PyTorch's root of single precision is not that of kernels, which is rounded to the nearest number.
    factor = (size * 2.0 ** _value_bits(count)) / spread.double().sqrt().float()
    pattern = torch.where(spread == 0, 0.0, factor).view(torch.int32).to(torch.int64)
    shift = 149 - (pattern >> 23)
    mantissa = ((pattern & 0x7FFFFF) | 0x800000) >> 1
    mantissa = torch.where(spread == 0, 0, mantissa >> (shift - 31).clamp(0, 30))
    shift = torch.where(spread == 0, 0, shift.clamp(1, 31))
    offset = (middle * mantissa.float()).to(torch.int64)
    half = torch.where(shift > 0, 1 << (shift - 1).clamp(min=0), 0)
    return (x * mantissa - offset + half) >> shift


def _weigh(values: Tensor, weight: Tensor, bias: Tensor, shift: int) -> Tensor:
    return ((values * weight.to(torch.int64) + bias.to(torch.int64)) >> shift).clamp(-128, 127).to(torch.int8)


@impl(_library, "quantized_layer_norm", "CompositeExplicitAutograd")
def quantized_layer_norm(
    input: Tensor, weight: Tensor, bias: Tensor, center: int | None, epsilon: float, shift: int
) -> Tensor:
    """Normalizes the last elements, as many as there are weights, around their mean or a center."""
    values = _normalize(input.reshape(-1, weight.numel()), center, epsilon)
    return _weigh(values, weight.flatten(), bias.flatten(), shift).reshape(input.shape)


@impl(_library, "quantized_group_norm", "CompositeExplicitAutograd")
def quantized_group_norm(
    input: Tensor, weight: Tensor, bias: Tensor, groups: int, epsilon: float, shift: int
) -> Tensor:
    """Normalizes groups of the channels of [batch, channels, ...], including all trailing dimensions."""
    values = _normalize(input.reshape(input.shape[0], groups, -1), None, epsilon).reshape(input.shape)
    per_channel = (-1, *[1] * (input.dim() - 2))
    result = _weigh(values, weight.reshape(per_channel), bias.reshape(per_channel), shift)
    return torch.empty_like(input).copy_(result)


register_fake("torch_fusion::quantized_layer_norm")(lambda input, *_: torch.empty_like(input))
register_fake("torch_fusion::quantized_group_norm")(lambda input, *_: torch.empty_like(input))


@dataclass(frozen=True)
class Norm:
    """A normalization in a captured graph.

    Attributes:
      weight, bias: constants, or None.
      count: the number of values that are normalized together.
      channels: the number of weights.
      groups: the number of groups of channels; None for normalization over the last dimensions.
      is_centered: whether the mean is subtracted.
    """

    weight: Node | None
    bias: Node | None
    epsilon: float
    count: int
    channels: int
    groups: int | None
    is_centered: bool


def norm_of(node: Node) -> Norm | None:
    """Returns the normalization that a node computes, or None for other nodes and those without an int8 form."""
    if node.target not in (_aten.layer_norm.default, _aten.rms_norm.default, _aten.group_norm.default):
        return None
    shape = node.args[0].meta["val"].shape
    given = named_arguments(node)
    weight, bias, epsilon, groups = given["weight"], given.get("bias"), given["eps"], None
    if node.target == _aten.group_norm.default:
        groups, channels = given["num_groups"], shape[1]
        count = channels // groups * math.prod(shape[2:])
    else:
        channels = count = math.prod(given["normalized_shape"])
    if node.target == _aten.rms_norm.default:
        epsilon = _LEAST_EPSILON if epsilon is None else epsilon
    if not 0 < count <= _MAX_NORMALIZED or math.prod(shape) == 0:
        return None
    return Norm(weight, bias, epsilon, count, channels, groups, node.target != _aten.rms_norm.default)


@rewrites(QUANTIZE)
def lower_norms(node: Node, program: ExportedProgram) -> Node | None:
    """Replaces normalization that the quantizer annotated by int8 operators, in place."""
    layer = marked_layer(node)
    norm = None if layer is None else norm_of(layer)
    if layer is None or norm is None:
        return None
    weight = torch.ones(norm.channels) if norm.weight is None else get_param_tensor(program, norm.weight)
    bias = torch.zeros(norm.channels) if norm.bias is None else get_param_tensor(program, norm.bias)
    if weight is None or bias is None:
        return None
    operand, scale, zero_point = layer.args[0].args[:3]
    made = constants(norm.count, weight.detach().flatten(), bias.detach().flatten(), *node.args[1:3])
    epsilon = norm.epsilon / scale**2
    if made is None or not math.isfinite(epsilon):
        return None
    tables = [
        add_constant(program, f"{layer.name}_{name}", value)
        for name, value in (("weights", made.weight), ("biases", made.bias))
    ]
    if norm.groups is None:
        target = torch.ops.torch_fusion.quantized_layer_norm.default
        middle = None if norm.is_centered else zero_point
        return emit_int8(node, layer, target, operand, *tables, middle, epsilon, made.shift)
    target = torch.ops.torch_fusion.quantized_group_norm.default
    return emit_int8(node, layer, target, operand, *tables, norm.groups, epsilon, made.shift)
