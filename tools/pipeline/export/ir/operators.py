"""Sets of PyTorch's operators that several passes take; a pass that takes more of them, or fewer, says so itself."""

from typing import Any

import torch

# Defines the operators of quantized_decomposed.
import torch.ao.quantization.fx._decomposed

_aten = torch.ops.aten
_decomposed = torch.ops.quantized_decomposed

# A view fails where the elements are not in the order that it needs; a reshape copies them then.
VIEWS = frozenset((_aten.view.default, _aten._unsafe_view.default))
RESHAPES = VIEWS | {_aten.reshape.default}
# Change the sizes of the dimensions and leave the elements in their order.
SIZE_CHANGES = RESHAPES | {
    _aten.flatten.using_ints,
    _aten.squeeze.default,
    _aten.squeeze.dim,
    _aten.squeeze.dims,
    _aten.unflatten.int,
    _aten.unsqueeze.default,
}
TRANSPOSITIONS = frozenset((_aten.permute.default, _aten.transpose.int))
# Return all elements of their operand.
COPIES = frozenset((
    _aten.alias.default, _aten.clone.default, _aten.contiguous.default, _aten.detach.default,
    _aten.lift_fresh_copy.default,
))  # fmt: skip
DROPOUTS = frozenset((_aten.alpha_dropout.default, _aten.dropout.default, _aten.feature_dropout.default))

CONVOLUTIONS = frozenset((_aten.conv1d.default, _aten.conv2d.default))
# Convolutions whose padding is "same" or "valid".
CONVOLUTIONS_BY_WORD = frozenset((_aten.conv1d.padding, _aten.conv2d.padding))
IMAGE_POOLS = frozenset((_aten.avg_pool2d.default, _aten.max_pool2d.default))
# Cut values at bounds; computed together with the layer before them.
CLAMPS = frozenset((
    _aten.clamp.default, _aten.clamp_.default, _aten.hardtanh.default, _aten.hardtanh_.default, _aten.relu.default,
    _aten.relu_.default,
))  # fmt: skip
SOFTMAX = frozenset((_aten._softmax.default, _aten.softmax.int))
EXTREMES = frozenset((_aten.amax.default, _aten.amin.default))
REDUCTIONS = EXTREMES | {_aten.mean.dim, _aten.sum.dim_IntList}

SUMS = frozenset((_aten.add.Tensor, _aten.sub.Tensor))
ARITHMETIC = SUMS | {_aten.div.Tensor, _aten.mul.Tensor}
ARITHMETIC_WITH_ROUNDING = ARITHMETIC | {_aten.div.Tensor_mode}
# Choose between tensors, or a tensor and a number, by a condition.
CHOICES = frozenset((_aten.where.self, _aten.where.ScalarOther, _aten.where.ScalarSelf))
MASKED_FILLS = frozenset((_aten.masked_fill.Scalar, _aten.masked_fill.Tensor))

JOINS = frozenset((_aten.cat.default, _aten.concat.default, _aten.stack.default))
SPLITS = frozenset((_aten.split.Tensor, _aten.split_with_sizes.default))
PADS = frozenset((_aten.constant_pad_nd.default, _aten.pad.default))

# Make a tensor of another one's shape with one number everywhere: the number, or the index of the argument that it is.
FILLS: dict[Any, int] = {
    _aten.new_ones.default: 1,
    _aten.new_zeros.default: 0,
    _aten.ones_like.default: 1,
    _aten.zeros_like.default: 0,
}
FILLS_WITH: dict[Any, int] = {_aten.full_like.default: 1, _aten.new_full.default: 2}

# Allocate a tensor without values.
EMPTY = frozenset((_aten.empty.memory_format, _aten.empty_like.default, _aten.new_empty.default))

QUANTIZE = _decomposed.quantize_per_tensor.default
DEQUANTIZE = _decomposed.dequantize_per_tensor.default
DEQUANTIZE_CHANNELS = _decomposed.dequantize_per_channel.default
DEQUANTIZATIONS = frozenset((DEQUANTIZE, DEQUANTIZE_CHANNELS))
