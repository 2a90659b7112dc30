"""int8 layer, group and RMS normalization: torch_fusion::quantized_layer_norm and quantized_group_norm.

The operators compute the integers that kernels/cortex_m/norm.cpp computes. Weights are int16 and biases int32, scaled
for the output, so that nothing of a channel is rounded but its result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.backends.cortex_m.own_layers import is_marked
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE
from tools.pipeline.export.ir.rewriting import named_arguments, place_of, replace_node

_aten = torch.ops.aten

# Most values that are normalized together, as kernels/cortex_m/norm.h has it.
_MAX_NORMALIZED = 0xFFFF

# What stands for no epsilon in rms_norm.
_LEAST_EPSILON = torch.finfo(torch.float32).eps

_library = Library("torch_fusion", "FRAGMENT")

# `center`: none for the mean. `epsilon` is in squared steps of the input, `shift` how many bits products have behind
# the point.
_SCHEMAS = {
    "quantized_layer_norm": "Tensor input, Tensor weight, Tensor bias, int? center, float epsilon, int shift",
    "quantized_group_norm": "Tensor input, Tensor weight, Tensor bias, int groups, float epsilon, int shift",
}
for _name, _arguments in _SCHEMAS.items():
    _library.define(f"{_name}({_arguments}) -> Tensor")
    _library.define(f"{_name}.out({_arguments}, *, Tensor(a!) out) -> Tensor(a!)")


@dataclass(frozen=True)
class Constants:
    """A normalization's weights and biases as its kernel takes them, per channel.

    Attributes:
      weight: int16.
      bias: int32.
    """

    weight: Tensor
    bias: Tensor
    shift: int


def _value_bits(count: int) -> int:
    """Bits behind the point of `count` values normalized together: none is larger than the root of their number."""
    return 14 - math.ceil(math.ceil(math.log2(count)) / 2)


def constants(count: int, weight: Tensor, bias: Tensor, scale: float, zero_point: int) -> Constants | None:
    """The constants of a normalization of `count` values each to int8 of a scale and zero point.

    None for weights or biases that are too large for them.
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
    """Integers in the last dimension less their center, by their size, with _value_bits() behind the point."""
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
    # float32 of the upper 24 bits; frexp's exponent is how many there are.
    cut = (torch.frexp(spread.double()).exponent - 24).clamp(min=0).to(torch.int64)
    spread = ((spread >> cut) << cut).float() + torch.tensor(epsilon) * size * size
    factor = (size * 2.0 ** _value_bits(count)) / spread.sqrt()
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
    """Normalizes groups of the channels of [batch, channels, ...], each with all that lies behind it."""
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
      count: how many values are normalized together.
      channels: how many weights it has.
      groups: of channels; None for the last dimensions.
      is_centered: whether around the mean.
    """

    weight: Node | None
    bias: Node | None
    epsilon: float
    count: int
    channels: int
    groups: int | None
    is_centered: bool


def norm_of(node: Node) -> Norm | None:
    """The normalization that a node is; None for other nodes, and for what has no int8 form."""
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


def lower_norms(program: ExportedProgram) -> None:
    """Puts int8 operators in place of the normalization that the quantizer gave to them, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.target != QUANTIZE or node.args[5] != torch.int8 or not isinstance(node.args[0], Node):
            continue
        layer = node.args[0]
        norm = norm_of(layer) if is_marked(layer) else None
        source = layer.args[0] if norm is not None else None
        if norm is None or not isinstance(source, Node) or source.target != DEQUANTIZE or source.args[5] != torch.int8:
            continue
        weight = torch.ones(norm.channels) if norm.weight is None else get_param_tensor(program, norm.weight)
        bias = torch.zeros(norm.channels) if norm.bias is None else get_param_tensor(program, norm.bias)
        if weight is None or bias is None:
            continue
        operand, scale, zero_point = source.args[:3]
        made = constants(norm.count, weight.detach().flatten(), bias.detach().flatten(), *node.args[1:3])
        epsilon = norm.epsilon / scale**2
        if made is None or not math.isfinite(epsilon):
            continue
        tables = [
            add_constant(program, f"{layer.name}_{name}", value)
            for name, value in (("weights", made.weight), ("biases", made.bias))
        ]
        if norm.groups is None:
            target = torch.ops.torch_fusion.quantized_layer_norm.default
            middle = None if norm.is_centered else zero_point
            arguments = (operand, *tables, middle, epsilon, made.shift)
        else:
            target = torch.ops.torch_fusion.quantized_group_norm.default
            arguments = (operand, *tables, norm.groups, epsilon, made.shift)
        with graph.inserting_before(node):
            result = graph.call_function(target, arguments)
        result.meta = {**place_of(layer), "val": node.meta["val"]}
        replace_node(program, node, result)
        graph.erase_node(node)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
