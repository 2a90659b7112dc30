"""Implements 4-bit weights for linear layers and 1x1 convolutions, with int8 activations.

A channel's weights have one scale, or one per group of 32 inputs. The scales of groups are 8-bit multiples of the
channel's, so that a layer's sums are integers with one multiplier per channel: a weight is int4 times its group's
factor. In quantized modules these products are the weights, int16 with a scale per channel.

torch_fusion::linear_int4 and pointwise_int4 compute the integers that kernels/cortex_m/int4.cpp computes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.backends.cortex_m.passes.passes_utils import quantize_multiplier_aot, requantize_cmsis
from executorch.backends.transforms.utils import get_param_tensor
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.library import Library, impl, register_fake

from tools.abi.layouts.layouts import INT4_BLOCK
from tools.artifacts.packed_layer.packed_layer import CONVOLUTION, DSP, LINEAR, LINEAR_INT4, MVE, POINTWISE_INT4, Head
from tools.artifacts.packed_layer.packed_layer import round_up as _up
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.operators import DEQUANTIZATIONS, DEQUANTIZE, DEQUANTIZE_CHANNELS, QUANTIZE
from tools.pipeline.export.ir.rewriting import place_of, replace_node
from tools.pipeline.export.quantize.nodes import attribute, by_layer
from tools.quiet.console import UserError

_aten = torch.ops.aten

# The weight dtypes of a layer, and the automatic choice between them.
DTYPES = ("int8", "int4")
AUTO = "auto"
# The number of inputs that share a scale; 0: all inputs of a channel do.
GROUP_SIZES = (INT4_BLOCK, 0)
# The bounds of int4, and the largest factor of a group.
LEAST, LARGEST, _LARGEST_FACTOR = -8, 7, 127
# The factor of the group with the largest weights if none is clipped; a larger one can serve the others better.
_USUAL_FACTOR = 101
# The bit positions of eight inputs' weights in a word, from the lowest on, as in kernels/cortex_m/packed.h.
_PLACES = (5, 4, 1, 0, 7, 6, 3, 2)
# Candidate scales, relative to the smallest one that clips no weight.
_SHARES = [(40 - step) / 32 for step in range(24)]

_library = Library("torch_fusion", "FRAGMENT")
for _name in ("linear_int4", "pointwise_int4"):
    _library.define(f"{_name}(Tensor input, Tensor packed, int channels) -> Tensor")
    _library.define(f"{_name}.out(Tensor input, Tensor packed, int channels, *, Tensor(a!) out) -> Tensor(a!)")


@dataclass(frozen=True)
class WeightDtypes:
    """The dtypes of a model's weights.

    Attributes:
      dtype: the dtype for linear layers and 1x1 convolutions, `int8` or `int4`.
      by_layer: maps module names, which include all modules inside, to dtypes; the longest name wins.
      group_size: the number of inputs that share a scale of int4 weights, INT4_BLOCK; 0: all inputs of a channel do.
      in_int8: locations, as origin() returns them, whose weights are always int8.
    """

    dtype: str = "int8"
    by_layer: Mapping[str, str] = field(default_factory=dict)
    group_size: int = INT4_BLOCK
    in_int8: frozenset[str] = frozenset()

    @property
    def has_int4(self) -> bool:
        """Whether any layer may have int4 weights."""
        return "int4" in (self.dtype, *self.by_layer.values())

    def of(self, node: Node) -> str:
        """Returns the dtype of a layer's weights."""
        return by_layer(node, self.by_layer, self.dtype)


@dataclass(frozen=True)
class Int4Layer:
    """A layer with int4 weights.

    Attributes:
      weight: [out, in], integers: int4 times their group's factor.
      bias: integers in the scale of the sums, with the input's zero point folded in.
      multipliers, shifts: per channel, as from quantize_multiplier_aot().
    """

    kind: int
    weight: Tensor
    bias: Tensor
    multipliers: Tensor
    shifts: Tensor
    input_zero_point: int
    output_zero_point: int
    min: int
    max: int


def round_to_int4(weight: Tensor, group_size: int, energy: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Rounds weights to int4 with the smallest error.

    Args:
      weight: [out, in], in floating point.
      group_size: INT4_BLOCK, or 0 for one scale per channel.
      energy: the mean square of each input, which weights the errors; None: all have equal weight.

    Returns:
      integers, int16, each int4 times the factor of its group; and the scales of channels.
    """
    channels, inner = weight.shape
    # A single group has no other scale to be a multiple of.
    group_size = group_size if inner > group_size else 0
    size = group_size or inner
    groups, counts = (
        torch.nn.functional.pad(values.double(), (0, -inner % size)).reshape(len(values), -1, size)
        for values in (weight, torch.ones(1, inner) if energy is None else energy[None])
    )
    # The end that is farther from zero, relative to its integers, determines the scale.
    ideal = torch.maximum(groups.amax(2) / LARGEST, groups.amin(2) / LEAST).clamp(min=0)
    if not group_size:
        candidates = torch.stack([ideal * share for share in _SHARES])
        best = _best(groups, candidates, counts)
        scales = torch.where(best == 0, 1.0, best)[:, 0]
        return _nearest(groups, scales[:, None]).reshape(channels, -1).to(torch.int16), scales.float()
    scales = ideal.amax(1) / _USUAL_FACTOR
    # Rounded to float32, the dtype of the kernels' scales.
    scales = torch.where(scales == 0, 1.0, scales).float().double()
    steps = ideal / scales[:, None]
    # Also the scale of the largest group, for which the channel's scale may be optimized.
    shares = [*(steps * share for share in _SHARES), steps.amax(1, True).expand_as(steps)]
    factors = torch.stack([each.round().clamp(1, _LARGEST_FACTOR) for each in shares])
    best = _best(groups, factors * scales[:, None], counts)
    integers = _nearest(groups, best) * (best / scales[:, None]).round()[:, :, None]
    return integers.reshape(channels, -1)[:, :inner].to(torch.int16), scales.float()


def _nearest(groups: Tensor, scales: Tensor) -> Tensor:
    divisors = torch.where(scales == 0, 1.0, scales)[:, :, None]
    return (groups / divisors).round().clamp(LEAST, LARGEST)


def _best(groups: Tensor, candidates: Tensor, counts: Tensor) -> Tensor:
    """Selects the scales of groups with the smallest square error among candidates; the first of equal ones.

    Args:
      counts: weights of the squared errors.
    """
    errors = torch.stack(
        [((_nearest(groups, each) * each[:, :, None] - groups).square() * counts).sum(2) for each in candidates]
    )
    return candidates.gather(0, errors.argmin(0, keepdim=True))[0]


def factors_of(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Factors integers into int4 [out, in] and the factor of each group.

    A group's factor is the smallest one that leaves int4.
    """
    channels, inner = weight.shape
    groups = torch.nn.functional.pad(weight.to(torch.int64), (0, -inner % INT4_BLOCK)).reshape(channels, -1, INT4_BLOCK)
    factors = torch.zeros(groups.shape[:2], dtype=torch.int64)
    for factor in range(1, _LARGEST_FACTOR + 1):
        fits = (groups % factor == 0).all(2) & (groups <= factor * LARGEST).all(2) & (groups >= factor * LEAST).all(2)
        factors = torch.where((factors == 0) & fits, factor, factors)
    assert bool(factors.all()), "weights are no products of int4 and factors"
    return (groups // factors[:, :, None]).reshape(channels, -1)[:, :inner], factors


def pack_int4(layer: Int4Layer, arrangement: int) -> Tensor | None:
    """Returns the packed constant of a layer, int8, or None if its sums or multipliers exceed the kernels' range."""
    int4, factors = factors_of(layer.weight)
    channels, inner = int4.shape
    weight = layer.weight.to(torch.int64)
    folded = layer.bias.to(torch.int64)
    # The kernels double 32-bit sums and shift right by at least one.
    largest = folded.abs() + 128 * weight.abs().sum(1)
    multipliers = layer.multipliers.to(torch.int64)
    shifts = torch.where(multipliers == 0, -1, layer.shifts.to(torch.int64))
    if max(channels, inner) >= 1 << 16:
        return None
    if bool((largest >= 2**30).any() or (shifts >= 0).any() or (shifts < -31).any() or (multipliers < 0).any()):
        return None
    has_factors = bool((factors != 1).any())
    head = Head(
        arrangement, layer.kind, 0, inner, INT4_BLOCK if has_factors else 0, channels, (1, 1), (1, 1), (0, 0), (1, 1),
        layer.input_zero_point, layer.output_zero_point, layer.min, layer.max,
    )  # fmt: skip
    stored = shifts if arrangement == MVE else -1 - shifts
    rows = head.table_channels

    def padded(values: Tensor) -> Tensor:
        return torch.cat([values, values.new_zeros(rows - channels, *values.shape[1:])])

    tables = [folded.to(torch.int32), multipliers.to(torch.int32), stored.to(torch.int8)]
    data = b"".join(
        [
            head.pack(),
            *(padded(table).contiguous().numpy().tobytes() for table in tables),
            _arranged(padded(int4), padded(factors) if has_factors else None, arrangement),
        ]
    )
    assert len(data) == head.tables[2] + head.weight_bytes
    return torch.frombuffer(bytearray(data), dtype=torch.int8)


def _arranged(int4: Tensor, factors: Tensor | None, arrangement: int) -> bytes:
    """Packs weights and factors of groups of four channels, block by block."""
    parts = []
    for first in range(0, len(int4), 4):
        for at in range(0, int4.shape[1], INT4_BLOCK):
            block = int4[first : first + 4, at : at + INT4_BLOCK] & 15
            if factors is not None:
                parts.append(factors[first : first + 4, at // INT4_BLOCK].to(torch.uint8))
            parts.append(_halves(block) if arrangement == MVE else _words(block))
    return torch.cat(parts).contiguous().numpy().tobytes()


def _words(block: Tensor) -> Tensor:
    eights = torch.nn.functional.pad(block, (0, -block.shape[1] % 8)).reshape(4, -1, 8)[:, :, list(_PLACES)]
    pairs = eights.reshape(4, -1, 4, 2)
    return (pairs[..., 0] | pairs[..., 1] << 4).permute(1, 0, 2).flatten().to(torch.uint8)


def _halves(block: Tensor) -> Tensor:
    low = (block.shape[1] + 1) // 2
    high = torch.nn.functional.pad(block[:, low:], (0, 2 * low - block.shape[1]))
    return (block[:, :low] | high << 4).flatten().to(torch.uint8)


def unpack_int4(packed: Tensor) -> Int4Layer:
    """Unpacks the layer from a packed constant."""
    data = packed.numpy().tobytes()
    head = Head.unpack(data)
    multipliers_at, shifts_at, weights_at = head.tables

    def table(begin: int, end: int, dtype: torch.dtype) -> Tensor:
        return torch.frombuffer(bytearray(data[begin:end]), dtype=dtype)[: head.channels].to(torch.int64)

    shifts = table(shifts_at, weights_at, torch.int8)
    flat = torch.frombuffer(bytearray(data[weights_at:]), dtype=torch.uint8).to(torch.int64)
    weight = torch.zeros(head.table_channels, head.inner, dtype=torch.int64)
    place = 0
    for first in range(0, head.table_channels, 4):
        for at in range(0, head.inner, INT4_BLOCK):
            count = min(head.inner - at, INT4_BLOCK)
            factors = torch.ones(4, dtype=torch.int64)
            if head.group_size:
                factors, place = flat[place : place + 4], place + 4
            size = 4 * ((count + 1 if head.arrangement == MVE else _up(count, 8)) // 2)
            bits = flat[place : place + size]
            place += size
            if head.arrangement != MVE:
                pairs = bits.reshape(-1, 4, 4)
                words = torch.stack([pairs & 15, pairs >> 4], 3).reshape(-1, 4, 8)
                block = torch.empty_like(words)
                block[:, :, list(_PLACES)] = words
                block = block.permute(1, 0, 2).reshape(4, -1)
            else:
                pairs = bits.reshape(4, -1)
                block = torch.cat([pairs & 15, pairs >> 4], 1)
            signed = (block[:, :count] ^ 8) - 8
            weight[first : first + 4, at : at + count] = signed * factors[:, None]
    return Int4Layer(
        head.kind,
        weight[: head.channels],
        table(head.SIZE, multipliers_at, torch.int32),
        table(multipliers_at, shifts_at, torch.int32),
        shifts if head.arrangement == MVE else -1 - shifts,
        head.input_zero_point,
        head.output_offset,
        head.min,
        head.max,
    )


def compute(layer: Int4Layer, rows: Tensor) -> Tensor:
    """Computes a layer on int8 rows [..., in], bit by bit as the kernels do."""
    # Exact, because all sums are below 2**53.
    sums = (rows.double() @ layer.weight.double().T).to(torch.int64) + layer.bias
    scaled = torch.stack(
        [
            requantize_cmsis(
                sums[..., channel].to(torch.int32), int(layer.multipliers[channel]), int(layer.shifts[channel])
            )
            for channel in range(len(layer.weight))
        ],
        -1,
    )
    return (scaled.to(torch.int64) + layer.output_zero_point).clamp(layer.min, layer.max).to(torch.int8)


@impl(_library, "linear_int4", "CompositeExplicitAutograd")
def linear_int4(input: Tensor, packed: Tensor, channels: int) -> Tensor:
    """Computes a linear layer."""
    return compute(unpack_int4(packed), input)


@impl(_library, "pointwise_int4", "CompositeExplicitAutograd")
def pointwise_int4(input: Tensor, packed: Tensor, channels: int) -> Tensor:
    """Computes a 1x1 convolution of channels-last images."""
    result = compute(unpack_int4(packed), input.permute(PIXELS)).permute(IMAGE)
    return torch.empty_like(result, memory_format=torch.channels_last).copy_(result)


@register_fake("torch_fusion::linear_int4")
def _rows_like(input: Tensor, packed: Tensor, channels: int) -> Tensor:
    return input.new_empty((*input.shape[:-1], channels))


@register_fake("torch_fusion::pointwise_int4")
def _image_like(input: Tensor, packed: Tensor, channels: int) -> Tensor:
    shape = (input.shape[0], channels, *input.shape[2:])
    return torch.empty_strided(
        shape, torch.empty(shape, device="meta").to(memory_format=torch.channels_last).stride(),
        dtype=input.dtype, device=input.device,
    )  # fmt: skip


@dataclass(frozen=True)
class _Found:
    """A quantized layer that can have int4 weights.

    Attributes:
      layer: a linear layer or a 1x1 convolution.
      source: dequantizes its input.
      weight: dequantizes its weight.
      quantize: quantizes its result, or that of the activation that is fused with it.
    """

    layer: Node
    source: Node
    weight: Node
    quantize: Node
    low: float
    high: float


def _find(node: Node, constant: Callable[[Node], Tensor | None]) -> _Found | None:
    """Finds the nodes around a layer that can have int4 weights; returns None for other nodes.

    Args:
      constant: returns the constant value of a node.
    """
    if node.target not in (_aten.conv2d.default, _aten.linear.default):
        return None
    source, weight = node.args[:2]
    if not isinstance(source, Node) or source.target != DEQUANTIZE or source.args[5] != torch.int8:
        return None
    if not isinstance(weight, Node) or weight.target not in DEQUANTIZATIONS:
        return None
    integers = constant(weight.args[0]) if isinstance(weight.args[0], Node) else None
    if integers is None or (node.target == _aten.conv2d.default and not is_pointwise(node, integers)):
        return None
    low, high, last = -math.inf, math.inf, node
    while len(last.users) == 1:
        (user,) = last.users
        if user.target == QUANTIZE and user.args[5] == torch.int8:
            return _Found(node, source, weight, user, low, high)
        limits = _limits(user)
        if limits is None:
            return None
        low, high, last = max(low, limits[0]), min(high, limits[1]), user
    return None


def is_pointwise(node: Node, weight: Tensor) -> bool:
    """Whether a convolution's outputs depend on one pixel each, with all of its channels."""
    stride, padding, _, groups = [*node.args, *[None] * 7][3:7]
    return (
        node.meta["val"].dim() == 4
        and tuple(weight.shape[2:]) == (1, 1)
        and all(value == 1 for value in stride or [1])
        and all(value == 0 for value in padding or [0])
        and groups in (None, 1)
    )


def _limits(node: Node) -> tuple[float, float] | None:
    """Returns the bounds of an activation, or None for other nodes."""
    if node.target in (_aten.relu.default, _aten.relu_.default):
        return 0.0, math.inf
    if node.target in (_aten.hardtanh.default, _aten.hardtanh_.default):
        bounds: list[Any] = [*node.args[1:]]
        low, high = bounds + [-1.0, 1.0][len(bounds) :]
        return low, high
    if node.target in (_aten.clamp.default, _aten.clamp_.default):
        low, high = [*node.args[1:], None, None][:2]
        return -math.inf if low is None else low, math.inf if high is None else high
    return None


def _energy(values: Sequence[Tensor], dim: int) -> Tensor:
    """Returns the mean square of each input over the samples, plus a small share of the overall mean.

    Args:
      dim: the dimension of the inputs.
    """
    rows = [value.detach().double().movedim(dim, -1).flatten(0, -2) for value in values]
    energy = torch.stack([each.square().mean(0) for each in rows]).mean(0)
    # An input that is always zero on these samples may be nonzero on others.
    return energy + 0.01 * energy.mean() if bool(energy.any()) else torch.ones_like(energy)


def quantize_weights(
    converted: GraphModule,
    floating: GraphModule,
    dtypes: WeightDtypes,
    places: Mapping[Node, str],
    observed: Sequence[Mapping[str, Tensor]],
    samples: Sequence[Sequence[Tensor]],
) -> None:
    """Gives layers of a converted module int4 weights where these are smaller than int8 ones, in place.

    Args:
      floating: the module in floating point, with the same names of nodes.
      places: the locations of layers of `converted`, as origin() returns them.
      observed: the results of nodes of `floating` for samples, by their names.
      samples: the inputs of these samples.
    """
    by_name = {node.name: node for node in floating.graph.nodes}
    inputs = [node.name for node in floating.graph.nodes if node.op == "placeholder"]
    observed = [
        {**values, **dict(zip(inputs, sample, strict=True))} for values, sample in zip(observed, samples, strict=True)
    ]

    def constant(node: Node) -> Tensor | None:
        return attribute(converted, str(node.target)) if node.op == "get_attr" else None

    for node in list(converted.graph.nodes):
        found = _find(node, constant)
        if found is None or dtypes.of(node) != "int4" or places.get(node) in dtypes.in_int8:
            continue
        original = by_name.get(node.name)
        if original is None:
            continue
        constants = [each for each in original.args[1:3] if each is not None]
        if any(not isinstance(each, Node) or each.op != "get_attr" for each in constants):
            continue
        values = [attribute(floating, str(each.target)).detach() for each in constants]
        weight = values[0]
        dim = -1 if node.target == _aten.linear.default else 1
        energy = _energy([sample[original.args[0].name] for sample in observed], dim)
        integers, scales = round_to_int4(weight.flatten(1), dtypes.group_size, energy)
        bias = values[1] if len(values) > 1 else torch.zeros(len(weight))
        packed = _packed(found, integers, scales, bias, DSP)
        if packed is None or packed.numel() >= _int8_bytes(node, weight):
            continue
        with converted.graph.inserting_before(node):
            dequantized = dequantize_integers(converted, node.name, integers.reshape(weight.shape), scales)
            target = f"_{node.name}_float_bias"
            converted.register_buffer(target, bias)
            node.args = (node.args[0], dequantized, converted.graph.get_attr(target), *node.args[3:])
        dequantized.meta = {"val": found.weight.meta.get("val")}
    converted.graph.eliminate_dead_code()
    converted.recompile()


def dequantize_integers(module: GraphModule, name: str, integers: Tensor, scales: Tensor) -> Node:
    """Emits a call that dequantizes integers, each int4 times the factor of its group, with a scale per channel.

    The module gets buffers for them, whose names begin with `name`; the call is inserted at the graph's insertion
    point.
    """
    made = []
    zero_points = torch.zeros(len(scales), dtype=torch.int64)
    for kind, value in {"int4": integers, "int4_scales": scales, "int4_zero_points": zero_points}.items():
        target = f"_{name}_{kind}"
        module.register_buffer(target, value)
        made.append(module.graph.get_attr(target))
    limits = torch.iinfo(torch.int16)
    return module.graph.call_function(DEQUANTIZE_CHANNELS, (*made, 0, limits.min, limits.max, torch.int16))


def has_room_for_bias(module: GraphModule, layer: Node, bias: Tensor) -> bool:
    """Whether a layer of a converted module can have a bias: the sums of int4 weights must fit."""
    if not is_int4(layer.args[1]):
        return True

    def constant(node: Node) -> Tensor | None:
        return attribute(module, str(node.target)) if node.op == "get_attr" else None

    found = _find(layer, constant)
    assert found is not None, layer.name
    integers, scales = (attribute(module, str(each.target)) for each in found.weight.args[:2])
    return _packed(found, integers.flatten(1), scales, bias, DSP) is not None


def _int8_bytes(node: Node, weight: Tensor) -> int:
    """Returns the bytes of the packed constant of a layer with int8 weights."""
    channels, inner = weight.shape[:2]
    kind = LINEAR if node.target == _aten.linear.default else CONVOLUTION
    head = Head(DSP, kind, 0, inner, 0, channels, (1, 1), (1, 1), (0, 0), (1, 1), 0, 0, 0, 0)
    return head.tables[2] + head.table_channels * _up(inner, 4)


def is_int4(weight: Any) -> bool:
    """Whether a node dequantizes 4-bit weights: integers of dequantize_integers(), or within int4's range."""
    if not isinstance(weight, Node) or weight.target != DEQUANTIZE_CHANNELS:
        return False
    least, largest, dtype = weight.args[4:7]
    return dtype == torch.int16 or (least >= LEAST and largest <= LARGEST)


def _packed(found: _Found, integers: Tensor, scales: Tensor, bias: Tensor, arrangement: int) -> Tensor | None:
    _, in_scale, in_zero_point = found.source.args[:3]
    _, out_scale, out_zero_point, least, largest = found.quantize.args[:5]
    sums = scales.double() * in_scale
    folded = (bias.double() / sums).round() - in_zero_point * integers.to(torch.int64).sum(1)
    if bool((folded.abs() >= 2**30).any()):
        return None
    pairs = [quantize_multiplier_aot(float(each)) for each in sums / out_scale]
    low, high = (
        int(min(max(round(limit / out_scale) + out_zero_point, least), largest)) if math.isfinite(limit) else end
        for limit, end in ((found.low, least), (found.high, largest))
    )
    layer = Int4Layer(
        LINEAR_INT4 if found.layer.target == _aten.linear.default else POINTWISE_INT4,
        integers,
        folded.to(torch.int64),
        torch.tensor([multiplier for multiplier, _ in pairs]),
        torch.tensor([shift for _, shift in pairs]),
        in_zero_point,
        out_zero_point,
        low,
        high,
    )
    return pack_int4(layer, arrangement)


def lower_int4(program: ExportedProgram, arrangement: int) -> None:
    """Replaces the layers with int4 weights by int8 operators, in place.

    Args:
      program: a captured program.
      arrangement: the arrangement of the weights: SCALAR, DSP or MVE.

    Raises UserError for a layer that was quantized elsewhere in a way that the kernels can't compute.
    """
    graph = program.graph
    for node in list(graph.nodes):
        found = _find(node, lambda operand: get_param_tensor(program, operand))
        if found is None or not is_int4(found.weight):
            continue
        integers, scales, zero_points = (get_param_tensor(program, each) for each in found.weight.args[:3])
        if bool(zero_points.any()):
            continue
        bias = get_param_tensor(program, node.args[2]) if len(node.args) > 2 and node.args[2] is not None else None
        bias = torch.zeros(len(scales)) if bias is None else bias
        packed = _packed(found, integers.flatten(1), scales, bias, arrangement)
        if packed is None:
            raise UserError(
                f"the int4 weights of {node.name} give sums or factors that the kernels have no room for; let it have "
                "int8 weights."
            )
        constant = add_constant(program, f"{node.name}_packed", packed)
        operators = torch.ops.torch_fusion
        target = operators.linear_int4.default
        if node.target != _aten.linear.default:
            target = operators.pointwise_int4.default
        with graph.inserting_before(found.quantize):
            result = graph.call_function(target, (found.source.args[0], constant, len(scales)))
        result.meta = {**place_of(node), "val": found.quantize.meta["val"]}
        replace_node(program, found.quantize, result)
        graph.erase_node(found.quantize)
    graph.eliminate_dead_code()
