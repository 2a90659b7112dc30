"""Packs constants into the kernels' layout: replaces `cortex_m::` layers by `torch_fusion::` operators.

A packed layer takes one constant with everything but its images: parameters, biases into which the input's zero point
and the sums of the kernel are folded, multipliers, shifts, and the weights in the arrangement of the target's
instructions. kernels/cortex_m/packed.h describes the layout.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from executorch.backends.cortex_m.library.cmsis_nn import Backend
from executorch.backends.cortex_m.target_config import CortexM, CortexMTargetConfig
from executorch.backends.transforms.utils import delete_constant_placeholder, get_param_tensor, is_param_node
from executorch.exir import memory
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.abi.layouts.layouts import MOST_FLOATS
from tools.artifacts.packed_layer.packed_layer import (
    CONVOLUTION,
    DEPTHWISE,
    DSP,
    GROUPED,
    LINEAR,
    LINEAR_FACTORS,
    MVE,
    SCALAR,
    Floats,
    Head,
    problem_of,
    problem_of_head,
)
from tools.artifacts.packed_layer.packed_layer import round_up as _up
from tools.pipeline.export.backends.cortex_m.forms import WORD
from tools.pipeline.export.backends.cortex_m.transposed import TRANSPOSED, VIEWS
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.plan.plan_passes import LEAD
from tools.pipeline.placement.leads import LANES, is_pointwise, lead

# The bytes after a window that these kernels copy along with it.
_COPIED_MORE = 8
# Equals kPairOutputs in these kernels.
_PAIR_OUTPUTS = 32
# The largest number of groups of a convolution that is packed without groups: its weights are no larger than in
# floating point, and its products take a quarter of the instructions of unpacked ones.
_MAX_DENSE_GROUPS = 4
# The largest weights of a layer with any number of groups that is packed this way for vectors, if these have no kernel
# for it. There a product with zero takes a tenth of an instruction, and an unpacked layer ten times as many.
_MAX_DENSE_BYTES = 8192

_cortex_m = torch.ops.cortex_m
_edge = exir_ops.edge.cortex_m
_library = Library("torch_fusion", "FRAGMENT")


@dataclass(frozen=True)
class Layer:
    """A layer of the dialect. Weight: [out, height, width, in / groups]; depthwise [out, height, width, 1].

    Depthwise layers have `times` outputs per input channel, usually one.

    Attributes:
      bias: int32; None for zeros.
      input_offset: the negated zero point of the input.
      floats: how a linear layer quantizes its inputs and dequantizes its outputs.
    """

    kind: int
    weight: Tensor
    bias: Tensor | None
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    input_offset: int
    output_offset: int
    multipliers: Tensor
    shifts: Tensor
    min: int
    max: int
    times: int = 1
    groups: int = 1
    floats: Floats = Floats()

    @property
    def in_channels(self) -> int:
        """The number of input channels."""
        return self.weight.shape[0] // self.times if self.kind == DEPTHWISE else self.weight.shape[3] * self.groups


def pack(layer: Layer, arrangement: int) -> Tensor:
    """Returns the packed constant of a layer, int8."""
    weight = layer.weight.to(torch.int8)
    channels = weight.shape[0]
    folded = layer.input_offset * weight.sum((1, 2, 3), dtype=torch.int64)
    if layer.bias is not None:
        folded = folded + layer.bias
    multipliers = layer.multipliers.to(torch.int64)
    shifts = torch.where(multipliers == 0, -1, layer.shifts.to(torch.int64))
    # The kernels double 32-bit sums and shift right by at least one.
    largest = folded.abs() + 128 * weight.to(torch.int64).abs().sum((1, 2, 3))
    is_wide = bool((largest >= 2**30).any() or (shifts >= 0).any() or (shifts < -31).any())
    if layer.kind == DEPTHWISE and arrangement == MVE:
        # The kernel adds the products of two adjacent elements in 16 bits, which two of -128 * -128 exceed.
        lowest = (weight == -128).flatten(1)
        is_wide = is_wide or bool((lowest[:, 0:-1:2] & lowest[:, 1::2]).any())
    if layer.kind != DEPTHWISE and arrangement == SCALAR:
        # Kernels for cores without the DSP extension add two products in 16 bits: 0 and 2, 1 and 3 of each four.
        rows = _padded(weight.reshape(channels, -1).T, _up(weight[0].numel(), 4)).T
        is_wide = is_wide or bool((rows.reshape(channels, -1, 2, 2) == -128).all(2).any())
    if layer.kind == GROUPED:
        group_size = weight.shape[3]
    else:
        group_size = int(layer.kind != DEPTHWISE and arrangement == DSP and _has_short_sums(weight))
    # Kernels without MVE perform the last bit of a right shift separately.
    stored = shifts if is_wide or arrangement == MVE else -1 - shifts
    kernel, stride, padding, dilation = (
        layer.floats.windows
        if layer.kind == LINEAR
        else ((weight.shape[1], weight.shape[2]), layer.stride, layer.padding, layer.dilation)
    )
    head = Head(
        arrangement,
        layer.kind,
        int(is_wide),
        layer.in_channels,
        group_size,
        channels,
        kernel,
        stride,
        padding,
        dilation,
        -layer.input_offset,
        layer.output_offset,
        layer.min,
        layer.max,
    )
    if layer.kind == LINEAR:
        # The dialect has one multiplier for all channels, but the kernels load four at once.
        multipliers, stored = multipliers[:1].expand(LINEAR_FACTORS), stored[:1].expand(LINEAR_FACTORS)
    factors = head.factors
    data = b"".join(
        [
            head.pack(),
            _table(folded.to(torch.int32), head.table_channels, head),
            _table(multipliers.to(torch.int32), factors, head),
            _table(stored.to(torch.int8), _up(factors, 4), head),
            _arranged(weight, head),
        ]
    )
    return torch.frombuffer(bytearray(data), dtype=torch.int8)


def _has_short_sums(weight: Tensor) -> bool:
    """Whether all sums of the second channels of pairs fit in 24 bits."""
    return bool((128 * weight[1::2].to(torch.int64).abs().sum((1, 2, 3)) < 2**23).all())


def can_be_arranged(layer: Layer, arrangement: int) -> bool:
    """Whether a layer's weights can be arranged: for DSP, 256 times a second channel's and a first one's must fit in 16
    bits.
    """
    if arrangement != DSP or layer.kind == DEPTHWISE:
        return True
    channels = layer.weight.shape[0]
    rows = _padded(layer.weight.to(torch.int8).reshape(channels, -1), _up(channels, 2))
    return not bool(((rows[1::2] == -128) & (rows[0::2] < 0)).any())


def join_pairs(data: bytes, sign: int) -> bytes:
    """Converts pairs of weights from two bytes each to halves of words, with a sign of -1, or back, with 1.

    The upper byte of a half is one less than the second channel's weight if the first channel's is negative.
    """
    pairs = torch.frombuffer(bytearray(data), dtype=torch.int8).reshape(-1, 2).clone()
    pairs[:, 1] += sign * (pairs[:, 0] < 0).to(torch.int8)
    return pairs.numpy().tobytes()


def _table(values: Tensor, length: int, head: Head) -> bytes:
    return _interleaved(_padded(values, length), head).contiguous().numpy().tobytes()


def _interleaved(table: Tensor, head: Head) -> Tensor:
    """Permutes a table to the channel order of the depthwise kernel for MVE: 0, 4, 8, 12, 1, and so on.

    The permutation is its own inverse.
    """
    if not head.is_depthwise or head.arrangement != MVE:
        return table
    return table.reshape(-1, 4, 4).mT.flatten()


def _padded(values: Tensor, length: int) -> Tensor:
    return torch.cat([values, values.new_zeros(length - values.shape[0], *values.shape[1:])])


def _arranged(weight: Tensor, head: Head) -> bytes:
    data = _ordered(weight, head).contiguous().numpy().tobytes()
    return join_pairs(data, -1) if _has_joined_pairs(head) else data


def _has_joined_pairs(head: Head) -> bool:
    return head.arrangement == DSP and head.kind in (CONVOLUTION, GROUPED, LINEAR)


def _ordered(weight: Tensor, head: Head) -> Tensor:
    if head.is_depthwise:
        # [group of channels, kernel element, channel]
        rows = weight.reshape(head.channels, -1)
        if head.arrangement == MVE:
            rows = _padded(rows, _up(head.channels, head.group))
        else:
            rows = rows[_depthwise_channels(head)]
        return rows.reshape(-1, head.group, head.inner).mT
    if head.arrangement == MVE:
        # The kernels load sixteen weights at once.
        return _padded(weight.flatten(), weight.numel() + _up(head.inner, 16) - head.inner)
    rows = _padded(weight.reshape(head.channels, -1), _up(head.channels, 2))
    rows = _padded(rows.T, _up(head.inner, 4)).T
    # From [pair, channel, four products, 0 or 2, 0 or 1] to [pair, four products, 0 or 1, 0 or 2, channel].
    return rows.reshape(rows.shape[0] // 2, 2, -1, 2, 2).permute(0, 2, 4, 3, 1)


def _depthwise_channels(head: Head) -> Tensor:
    """Returns the channel order of a depthwise layer's groups without MVE; the last group has the last channels."""
    starts = torch.arange(0, head.in_channels, head.group).clamp(max=head.in_channels - head.group)
    # A group's outputs: the first one of each input, then the second ones, and so on.
    times = head.channels // head.in_channels
    inputs = starts[:, None, None] + torch.arange(head.group)
    return (inputs * times + torch.arange(times)[:, None]).flatten()


def _restored(data: bytes, head: Head) -> Tensor:
    """Returns the weights of a packed constant in the layout of Layer."""
    padded = _up(head.channels, 2)
    data = data[head.tables[2] :]
    if _has_joined_pairs(head):
        data = join_pairs(data, 1)
    flat = torch.frombuffer(bytearray(data), dtype=torch.int8)
    height, width = (1, 1) if head.kind == LINEAR else head.kernel
    if head.is_depthwise:
        rows = flat.reshape(-1, head.inner, head.group).mT.reshape(-1, head.inner)
        if head.arrangement != MVE:
            rows = torch.empty_like(rows).index_copy(0, _depthwise_channels(head), rows)
    elif head.arrangement == MVE:
        rows = flat[: head.channels * head.inner].reshape(head.channels, head.inner)
    else:
        rows = flat.reshape(padded // 2, -1, 2, 2, 2).permute(0, 4, 1, 3, 2).reshape(padded, -1)
    return rows[: head.channels, : head.inner].reshape(head.channels, height, width, -1)


def unpack(packed: Tensor) -> Layer:
    """Unpacks the layer from a packed constant; its bias is the one given to pack(), with zeros for None."""
    data = packed.numpy().tobytes()
    head = Head.unpack(data)
    multipliers, shifts_at, weights = head.tables
    start = Head.SIZE
    biases, factors, shifts = (
        _interleaved(torch.frombuffer(bytearray(data[begin:end]), dtype=dtype), head)
        for begin, end, dtype in [
            (start, multipliers, torch.int32),
            (multipliers, shifts_at, torch.int32),
            (shifts_at, weights, torch.int8),
        ]
    )
    biases, shifts = biases[: head.channels], shifts.to(torch.int32)
    if head.kind == LINEAR:
        factors, shifts = factors[:1].expand(head.channels), shifts[:1].expand(head.channels)
    factors, shifts = factors[: head.channels], shifts[: head.channels]
    if not head.is_wide and head.arrangement != MVE:
        shifts = -1 - shifts
    weight = _restored(data, head)
    folded = -head.input_zero_point * weight.sum((1, 2, 3), dtype=torch.int64)
    is_linear = head.kind == LINEAR
    return Layer(
        head.kind,
        weight,
        (biases - folded).to(torch.int32),
        *(((1, 1), (0, 0), (1, 1)) if is_linear else (head.stride, head.padding, head.dilation)),
        -head.input_zero_point,
        head.output_offset,
        factors,
        shifts,
        head.min,
        head.max,
        head.channels // head.in_channels if head.is_depthwise else 1,
        head.in_channels // head.group_size if head.kind == GROUPED else 1,
        head.floats if is_linear else Floats(),
    )


def scratch_size(head: Head, input_width: int) -> int:
    """Returns the exact scratch bytes of a packed layer on images of a width."""
    if head.kind == LINEAR or head.is_channelwise:
        return 0
    if head.kind == GROUPED:
        return rows_scratch_size(head)
    # The rows under a window, with their padding.
    extent = (head.kernel[0] - 1) * head.dilation[0] + 1
    rows = extent * (input_width + 2 * head.padding[1]) * head.in_channels
    if head.is_depthwise:
        if head.is_by_columns:
            # The rows under a window, of four channels, and their expanded form.
            height, width = head.kernel
            columns = input_width + 2 * head.padding[1]
            beside = head.dilation[1] if width > 1 else 1
            outputs = (columns - (width - 1) * head.dilation[1] - 1) // head.stride[1] + 1
            if head.is_three_by_three:
                expanded = 8 * ((outputs - 1) * head.stride[1] + 3)
            else:
                # Pairs of weights and of elements, in two rows or, in the last one of an odd number, side by side.
                used = (min(outputs, _PAIR_OUTPUTS) - 1) * head.stride[1] + (width - 1) * beside + 1
                expanded = 4 * (height // 2) * (width + _up(used, beside))
                expanded += 4 * (height % 2) * ((width + 1) // 2 + _up(used, 2 * beside))
            return 4 * (extent * columns + expanded)
        return rows if any(head.padding) else 0
    is_gathered = not is_pointwise(head) and (head.arrangement == MVE or head.in_channels % 4 != 0)
    gathered = _up(head.inner, 4) if is_gathered else 0
    if head.arrangement == MVE:
        return gathered
    # Copying by words may copy some more bytes.
    return rows_scratch_size(head) + (rows + LANES * (gathered + _COPIED_MORE) if is_gathered else 0)


def rows_scratch_size(head: Head) -> int:
    """Returns the exact scratch bytes of a packed linear layer of many rows: four expanded rows.

    The same goes for four windows of a group's channels.
    """
    return 2 * LANES * _up(head.inner, 4)


# `geometry` determines the shape of the result, because the contents of a constant are not available during shape
# inference. It is a single number, because each argument takes memory in the program.
_SCHEMAS = {
    "convolution": "Tensor input, Tensor packed, int geometry, Tensor scratch",
    "depthwise_convolution": "Tensor input, Tensor packed, int geometry, Tensor scratch",
    "grouped_convolution": "Tensor input, Tensor packed, int geometry, Tensor scratch",
    "linear": "Tensor input, Tensor packed, int geometry",
    "linear_rows": "Tensor input, Tensor packed, int geometry, Tensor scratch",
    "linear_transposed": "Tensor input, Tensor packed, int geometry, Tensor scratch",
    "linear_table": "Tensor input, Tensor packed, int geometry, Tensor table",
}
# The bits of the numbers in a geometry, the first one lowest: channels, and per axis the window size less the padding,
# plus half of its range, and the stride less one.
_CHANNEL_BITS, _WINDOW_BITS, _STRIDE_BITS = 16, 13, 10
# This bit of a geometry marks a linear layer with outputs in floating point.
_IN_FLOAT = 1 << _CHANNEL_BITS


def geometry_of(head: Head) -> int | None:
    """Returns the geometry of a layer, or None if one of the numbers doesn't fit."""
    if head.kind == LINEAR:
        return head.channels | (_IN_FLOAT if head.floats.scale else 0)
    numbers = [(head.channels, _CHANNEL_BITS)]
    for axis in range(2):
        window = head.dilation[axis] * (head.kernel[axis] - 1) + 1 - 2 * head.padding[axis]
        numbers += [(window + (1 << _WINDOW_BITS - 1), _WINDOW_BITS), (head.stride[axis] - 1, _STRIDE_BITS)]
    result = shift = 0
    for value, bits in numbers:
        if not 0 <= value < 1 << bits:
            return None
        result |= value << shift
        shift += bits
    return result


def _taken(geometry: int, bits: int) -> tuple[int, int]:
    """Splits off the lowest number of a geometry."""
    return geometry & ((1 << bits) - 1), geometry >> bits


for _name, _arguments in _SCHEMAS.items():
    _library.define(f"{_name}({_arguments}) -> Tensor")
    # The scratch memory is written, too, which kernels/cortex_m/operators.yaml tells the checks of programs.
    _written = _arguments.replace("Tensor scratch", "Tensor(b!) scratch")
    _library.define(f"{_name}.out({_written}, *, Tensor(a!) out) -> Tensor(a!)")


def _convolution(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    layer = unpack(packed)
    kernel: Tensor = layer.weight
    extra: tuple[int, ...] = ()
    operator = _cortex_m.quantized_conv2d
    if layer.kind == DEPTHWISE and input.shape[0] == 1:
        # The dialect has no depthwise convolution of several images.
        kernel, extra, operator = layer.weight.permute(3, 1, 2, 0), (layer.times,), _cortex_m.quantized_depthwise_conv2d
    windows = [list(layer.stride), list(layer.padding), list(layer.dilation)]
    offsets = (layer.input_offset, layer.output_offset, layer.multipliers, layer.shifts, layer.min, layer.max)
    return operator(input, kernel.contiguous(), layer.bias, *windows, *extra, *offsets, scratch)


@impl(_library, "linear", "CompositeExplicitAutograd")
def linear(input: Tensor, packed: Tensor, geometry: int) -> Tensor:
    """Computes a linear layer with the dialect: inputs and outputs are int8, or floating-point numbers."""
    layer = unpack(packed)
    floats = layer.floats
    factor = ([int(layer.multipliers[0])], [int(layer.shifts[0])])
    weight = layer.weight.reshape(layer.weight.shape[0], -1)
    offsets = (layer.input_offset, 0, layer.output_offset)
    if input.is_floating_point():
        input = _cortex_m.quantize_per_tensor(
            input, 1 / floats.inverse_scale, -layer.input_offset, -128, 127, torch.int8
        )
    out = _cortex_m.quantized_linear(input, weight, layer.bias, None, *offsets, *factor, layer.max, layer.min)
    if not geometry & _IN_FLOAT:
        return out
    return _cortex_m.dequantize_per_tensor(out, floats.scale, floats.zero_point, -128, 127, torch.int8)


@impl(_library, "linear_rows", "CompositeExplicitAutograd")
def linear_rows(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    """Computes a linear layer of many rows with the dialect."""
    return linear(input, packed, geometry)


@impl(_library, "linear_transposed", "CompositeExplicitAutograd")
def linear_transposed(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    """Computes a linear layer of many rows with the dialect; the result is [channels, rows]."""
    return linear(input.reshape(-1, input.shape[-1]), packed, geometry).T.contiguous()


@impl(_library, "linear_table", "CompositeExplicitAutograd")
def linear_table(input: Tensor, packed: Tensor, geometry: int, table: Tensor) -> Tensor:
    """Computes a linear layer with the dialect, and looks its results up in a table."""
    return _cortex_m.quantized_activation(linear(input, packed, geometry), table)


def _image_like(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    channels, rest = _taken(geometry, _CHANNEL_BITS)
    out = []
    for size in input.shape[2:]:
        window, rest = _taken(rest, _WINDOW_BITS)
        stride, rest = _taken(rest, _STRIDE_BITS)
        out.append((size + (1 << _WINDOW_BITS - 1) - window) // (stride + 1) + 1)
    return input.new_empty((input.shape[0], channels, *out)).to(memory_format=torch.channels_last)


@register_fake("torch_fusion::linear")
def _rows_like(input: Tensor, packed: Tensor, geometry: int) -> Tensor:
    channels, _ = _taken(geometry, _CHANNEL_BITS)
    return input.new_empty((*input.shape[:-1], channels), dtype=torch.float32 if geometry & _IN_FLOAT else torch.int8)


@register_fake("torch_fusion::linear_rows")
def _many_rows_like(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    return _rows_like(input, packed, geometry)


@register_fake("torch_fusion::linear_transposed")
def _columns_like(input: Tensor, packed: Tensor, geometry: int, scratch: Tensor) -> Tensor:
    rows = _rows_like(input, packed, geometry)
    return rows.new_empty((rows.shape[-1], rows.shape[:-1].numel()))


@register_fake("torch_fusion::linear_table")
def _replaced_rows_like(input: Tensor, packed: Tensor, geometry: int, table: Tensor) -> Tensor:
    return _rows_like(input, packed, geometry)


for _name in _SCHEMAS:
    if _name.endswith("convolution"):
        impl(_library, _name, "CompositeExplicitAutograd")(_convolution)
        register_fake(f"torch_fusion::{_name}")(_image_like)


def _pair(values: Any) -> tuple[int, int]:
    first, second = values
    return int(first), int(second)


def _layer(program: ExportedProgram, node: Node, arrangement: int) -> Layer | None:
    """Returns the layer that a node computes, if it can be packed."""
    if node.target not in (
        _edge.quantized_conv2d.default,
        _edge.quantized_depthwise_conv2d.default,
        _edge.quantized_linear.default,
    ):
        return None

    def constant(argument: Any) -> Tensor | None:
        return None if argument is None else get_param_tensor(program, argument)

    if node.target == _edge.quantized_linear.default:
        _, weights, bias, sums, input_offset, filter_offset, output_offset, multipliers, shifts, high, low = node.args
        weight = constant(weights)
        if weight is None or filter_offset != 0:
            return None
        start, folded = constant(bias), constant(sums)
        if folded is not None:
            # The sums include the input's offset.
            start = folded.reshape(-1) - input_offset * weight.sum(1, dtype=torch.int64)
        return Layer(
            LINEAR,
            weight.reshape(weight.shape[0], 1, 1, -1),
            start,
            (1, 1),
            (0, 0),
            (1, 1),
            input_offset,
            output_offset,
            torch.full((weight.shape[0],), multipliers[0], dtype=torch.int64),
            torch.full((weight.shape[0],), shifts[0], dtype=torch.int64),
            low,
            high,
        )
    image, weights, bias, stride, padding, dilation, *rest = node.args
    weight = constant(weights)
    if weight is None:
        return None
    channels = image.meta["val"].shape[1]
    if node.target == _edge.quantized_depthwise_conv2d.default:
        _, *rest = rest
        weight = weight.permute(3, 1, 2, 0)
    kind, times, groups = CONVOLUTION, 1, channels // weight.shape[3]
    is_depthwise = weight.shape[3] == 1 and has_depthwise_kernel(
        arrangement, channels, weight.shape[0] // channels, weight.shape[1], _pair(dilation)
    )
    # With one input channel it is an ordinary convolution.
    if is_depthwise and groups > 1:
        kind, times = DEPTHWISE, weight.shape[0] // channels
    elif groups > 1 and has_grouped_kernel(arrangement, weight.shape, groups):
        kind = GROUPED
    elif groups > 1:
        if not is_packed_dense(arrangement, weight.shape, groups):
            return None
        weight = _dense(weight, channels)
    input_offset, output_offset, multipliers, shifts, low, high, _ = rest
    windows = (_pair(stride), _pair(padding), _pair(dilation))
    factors = (constant(multipliers), constant(shifts))
    offsets = (input_offset, output_offset)
    packed_groups = groups if kind == GROUPED else 1
    return Layer(kind, weight, constant(bias), *windows, *offsets, *factors, low, high, times, packed_groups)


def _dense(weight: Tensor, channels: int) -> Tensor:
    """Expands a grouped convolution's weight [out, height, width, in / groups] with zeros to one without groups."""
    inner = weight.shape[3]
    groups = channels // inner
    dense = weight.new_zeros(*weight.shape[:3], channels)
    for group, rows in enumerate(dense.chunk(groups)):
        rows[..., group * inner : (group + 1) * inner] = weight.chunk(groups)[group]
    return dense


_OPERATORS = {
    CONVOLUTION: exir_ops.edge.torch_fusion.convolution.default,
    DEPTHWISE: exir_ops.edge.torch_fusion.depthwise_convolution.default,
    GROUPED: exir_ops.edge.torch_fusion.grouped_convolution.default,
    LINEAR: exir_ops.edge.torch_fusion.linear.default,
}


def has_depthwise_kernel(
    arrangement: int, channels: int, multiplier: int, kernel_height: int, dilation: Sequence[int]
) -> bool:
    """Whether an arrangement has a depthwise kernel for channels that have `multiplier` outputs each."""
    windows = ((kernel_height, 1), (1, 1), (0, 0), _pair(dilation))
    return Head(arrangement, DEPTHWISE, 0, channels, 0, channels * multiplier, *windows, 0, 0, 0, 0).can_be_depthwise


def has_grouped_kernel(arrangement: int, weight: Sequence[int], groups: int) -> bool:
    """Whether an arrangement has a kernel for a grouped convolution, which runs the ordinary kernel group by group.

    Args:
      weight: the shape of the weight, [out, height, width, in / groups].
    """
    out, height, width, inputs = weight
    windows = ((height, width), (1, 1), (0, 0), (1, 1))
    return Head(arrangement, GROUPED, 0, groups * inputs, inputs, out, *windows, 0, 0, 0, 0).can_be_grouped


def has_window(weight: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]) -> bool:
    """Whether a packed convolution supports a kernel and strides of these sizes; otherwise it stays in the dialect's
    form.

    Args:
      weight: the shape of the weight, [out, height, width, in / groups].
    """
    out, height, width, inputs = weight
    windows = ((height, width), _pair(stride), _pair(padding), _pair(dilation))
    head = Head(DSP, CONVOLUTION, 0, inputs, 0, out, *windows, 0, 0, -128, 127)
    return geometry_of(head) is not None and problem_of_head(head) is None


def is_packed_dense(arrangement: int, weight: Sequence[int], groups: int) -> bool:
    """Whether a grouped convolution that has no kernel of an arrangement is packed without groups.

    Args:
      weight: the shape of the weight, [out, height, width, in / groups].
    """
    # With one channel per group, fewer channels than a word has also fit, although more zeros are multiplied.
    most = WORD - 1 if weight[3] == 1 else _MAX_DENSE_GROUPS
    return groups <= most or (arrangement == MVE and math.prod(weight) * groups <= _MAX_DENSE_BYTES)


# The number of rows from which a linear layer reads weights for four rows at once, and the number of outputs from which
# expanding the inputs for that pays off.
_MANY_ROWS = 3
_MANY_OUTPUTS = 4


def are_computed_together(rows: int, outputs: int) -> bool:
    """Whether cores without MVE compute the rows of a linear layer together, by the numbers of rows and of outputs."""
    return rows >= _MANY_ROWS and outputs >= _MANY_OUTPUTS


def _has_many_rows(node: Node, layer: Layer, arrangement: int) -> bool:
    rows = node.args[0].meta["val"].shape[:-1]
    if layer.kind != LINEAR or arrangement == MVE or not all(isinstance(size, int) for size in rows):
        return False
    return are_computed_together(math.prod(rows), layer.weight.shape[0])


# The outputs up to which a linear layer dequantizes them, as it quantizes MOST_FLOATS inputs: each saves a call. These
# floats have no memory in common with the integers.
_FEW_FLOATS = MOST_FLOATS


@dataclass
class _Replacement:
    """A packed layer that computes what several nodes do.

    Attributes:
      operator, layer: what it is.
      operand: what it reads.
      tables: the arguments behind the others.
      read: the operators that it takes the place of, beside the layer itself; the last one is that whose result it has.
    """

    operator: Any
    layer: Layer
    operand: Node
    tables: Sequence[Any] = ()
    read: Sequence[Node] = ()


def _replacement(node: Node, layer: Layer, arrangement: int, is_repeated: bool) -> _Replacement:
    """Returns what replaces a node, with the operators beside it that a packed layer can take the place of.

    A linear layer transposes its results, looks them up in a table, or dequantizes them, if the only reader of them or
    of a view of them does so, and quantizes its few inputs, if nothing else reads their integers. If it is repeated,
    all have one constant, which has nothing of the others' scales.
    """
    found = _Replacement(_OPERATORS[layer.kind], layer, node.args[0])
    if layer.kind != LINEAR:
        return found
    own, channels = exir_ops.edge.torch_fusion, layer.weight.shape[0]
    views, reader = _only_reader(node)
    if _has_many_rows(node, layer, arrangement):
        found.operator = own.linear_rows.default
        rows = node.meta["val"].numel() // channels
        if (
            reader is not None
            and reader.target == TRANSPOSED
            and reader.args[3:] == (rows, channels, 1)
            and reader.meta["val"].is_contiguous()
        ):
            found.operator = own.linear_transposed.default
            found.read = [*views, reader]
            views, reader = _only_reader(reader)
    elif reader is not None and reader.target == _edge.quantized_activation.default:
        found.operator, found.tables, found.read = own.linear_table.default, reader.args[1:], [*views, reader]
        return found
    if is_repeated:
        return found
    floats = layer.floats
    has_few = node.meta["val"].numel() <= _FEW_FLOATS
    dequantize = _edge.dequantize_per_tensor.default
    if reader is not None and has_few and reader.target == dequantize and reader.args[3:] == _INT8:
        found.read = [*found.read, *views, reader]
        floats = replace(floats, scale=reader.args[1], zero_point=reader.args[2])
    quantization = node.args[0]
    size = quantization.meta["val"].numel()
    if quantization.target == _edge.quantize_per_tensor.default and isinstance(size, int) and size <= MOST_FLOATS:
        numbers, scale, *kept = quantization.args
        if tuple(kept) == (-layer.input_offset, *_INT8) and len(quantization.users) == 1:
            found.operand, floats = numbers, replace(floats, inverse_scale=1 / scale)
    if floats != layer.floats:
        found.layer = replace(layer, floats=floats)
    return found


# The range and dtype of what is quantized to int8.
_INT8 = (-128, 127, torch.int8)


def _only_reader(node: Node) -> tuple[list[Node], Node | None]:
    """Returns the only reader of a result, if there is one, and the views of the result before it."""
    views, readers = list[Node](), [*node.users]
    while len(readers) == 1 and readers[0].target in VIEWS and readers[0].meta["val"].is_contiguous():
        views += readers
        readers = [*readers[0].users]
    return views, readers[0] if len(readers) == 1 else None


def _replace(
    program: ExportedProgram, node: Node, layer: Layer, packed: Tensor, arrangement: int, is_repeated: bool
) -> None:
    """Replaces a node, and operators beside it, by a packed layer; `packed` is the layer without scales."""
    found = _replacement(node, layer, arrangement, is_repeated)
    if found.layer is not layer:
        packed = pack(found.layer, arrangement)
    data = packed.numpy().tobytes()
    head = Head.unpack(data)
    geometry = geometry_of(head)
    if geometry is None or problem_of(data) is not None:
        return
    constant = add_constant(program, f"{node.name}_packed", packed)
    arguments = [found.operand, constant, geometry, *found.tables]
    shape = node.args[0].meta["val"].shape
    own = exir_ops.edge.torch_fusion
    has_lanes = found.operator in (own.linear_rows.default, own.linear_transposed.default)
    scratch = None
    if has_lanes:
        with program.graph.inserting_before(node):
            scratch = program.graph.call_function(memory.alloc)
        scratch.meta = rewriting.place_of(node)
        size = rows_scratch_size(head)
    elif layer.kind != LINEAR:
        scratch = node.args[-1]
        size = scratch_size(head, shape[3])
    if scratch is not None:
        scratch.args = (((size,), torch.uint8),)
        scratch.meta["val"] = torch.empty((size,), dtype=torch.uint8, device="meta")
        arguments.append(scratch)
    if found.operator != own.linear_transposed.default and found.layer.floats == Floats():
        node.meta[LEAD] = lead(head, shape, node.meta["val"].shape, LANES if has_lanes else 1)
    node.target, node.args = found.operator, tuple(arguments)
    if not found.read:
        return
    *views, last = found.read
    value = last.meta["val"]
    if found.operator == own.linear_transposed.default:
        node.meta["val"] = value.new_empty((head.channels, value.numel() // head.channels))
        with program.graph.inserting_after(node):
            result = program.graph.call_function(VIEWS[0], (node, [*value.shape]))
        result.meta = {**rewriting.place_of(last), "val": value}
    else:
        for result in (node, *views):
            result.meta["val"] = result.meta["val"].to(value.dtype)
    last.replace_all_uses_with(result)
    program.graph.erase_node(last)


def arrangement_of(target: CortexMTargetConfig) -> int:
    """Returns the arrangement of weights for a core."""
    if target.cpu == CortexM.M55:
        return MVE
    return SCALAR if target.isa == Backend.SCALAR else DSP


def prepare(program: ExportedProgram, target: CortexMTargetConfig) -> ExportedProgram:
    """Replaces the layers of a lowered program that can be packed for a core by packed ones, in place.

    Not packed are transposed convolutions, those with more than four groups unless has_grouped_kernel(), and depthwise
    ones that have less than four channels, or for MVE a number that is not a multiple of four, or that, without DSP and
    for MVE, are dilated or have several outputs per input channel; and for DSP, layers with weights of -128, which
    quantizers don't produce, beside negative ones.

    Args:
      program: an edge program after CortexMPassManager.
      target: the core.
    """
    arrangement = arrangement_of(target)
    layers = {
        node: layer
        for node in program.graph.nodes
        if (layer := _layer(program, node, arrangement)) is not None and can_be_arranged(layer, arrangement)
    }
    constants = {node: pack(layer, arrangement) for node, layer in layers.items()}
    counts = Counter(packed.numpy().tobytes() for packed in constants.values())
    for node, layer in layers.items():
        packed = constants[node]
        _replace(program, node, layer, packed, arrangement, counts[packed.numpy().tobytes()] > 1)
    for node in list(program.graph.nodes):
        if is_param_node(program, node) and not node.users:
            delete_constant_placeholder(program, node)
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program
