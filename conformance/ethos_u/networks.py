"""Small networks, one an operator or a form of it, that the Ethos-U quantizer and partitioner take whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass(frozen=True)
class Network:
    """A module and what it is captured and calibrated with.

    Attributes:
      make: returns the module; weights are those that the seed gives.
      shapes: of the inputs.
      bits: of activations, 8 or 16.
      positive: whether inputs are above 0.
      u85_only: whether it is left to the core with an Ethos-U55 or U65.
    """

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    bits: int = 8
    positive: bool = False
    u85_only: bool = False

    def inputs(self) -> tuple[Tensor, ...]:
        """Inputs whose ranges differ, so that operands need scaling."""
        generator = torch.Generator().manual_seed(1)
        values = [torch.randn(shape, generator=generator) * (1 + 2 * i) for i, shape in enumerate(self.shapes)]
        return tuple(value.abs() + 0.1 if self.positive else value for value in values)


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self._function(*inputs)


class _Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, 1, 1)
        self.first = nn.Conv2d(16, 16, 3, 1, 1)
        self.second = nn.Conv2d(16, 16, 3, 1, 1)
        self.down = nn.Conv2d(16, 32, 3, 2, 1)
        self.short = nn.Conv2d(16, 32, 1, 2)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.second(F.relu(self.first(x))))
        x = F.relu(self.down(x) + self.short(x))
        return self.head(x.mean((2, 3)))


class _Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.into = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.into(x).chunk(3, -1)
        return self.out(F.softmax(q @ k.transpose(-1, -2) / 4, -1) @ v)


def _separable() -> nn.Module:
    layers: list[nn.Module] = [nn.Conv2d(1, 16, (10, 4), 2, (5, 1)), nn.ReLU()]
    for _ in range(2):
        layers += [nn.Conv2d(16, 16, 3, 1, 1, groups=16), nn.ReLU(), nn.Conv2d(16, 16, 1), nn.ReLU()]
    return nn.Sequential(*layers, nn.AvgPool2d((25, 5)), nn.Flatten(), nn.Linear(16, 12))


def _scaled_by_mean(x: Tensor) -> Tensor:
    return x * x.mean((2, 3), keepdim=True)


_IMAGE = (1, 8, 10, 10)


def _one(make: Callable[[], nn.Module], shape: tuple[int, ...] = _IMAGE, **fields: Any) -> Network:
    return Network(make, (shape,), **fields)


def _call(function: Callable[..., Tensor], *shapes: tuple[int, ...], **fields: Any) -> Network:
    return Network(lambda: Call(function), shapes or (_IMAGE,), **fields)


NETWORKS = {
    "conv": _one(lambda: nn.Conv2d(8, 24, 3, 1, 1)),
    "conv_int16": _one(lambda: nn.Conv2d(8, 24, 3, 1, 1), bits=16),
    "conv_stride_2": _one(lambda: nn.Conv2d(8, 40, 5, 2, 2)),
    "conv_stride_3": _one(lambda: nn.Conv2d(8, 20, 3, 3, 1), (1, 8, 16, 16)),
    "conv_dilated": _one(lambda: nn.Conv2d(8, 40, 3, 1, 2, dilation=2)),
    "conv_deep": _one(lambda: nn.Conv2d(48, 70, 3, 1, 1), (1, 48, 9, 7)),
    "conv_large_kernel": _one(lambda: nn.Conv2d(3, 10, (11, 9), 1, (5, 4)), (1, 3, 20, 20)),
    "conv_grouped": _one(lambda: nn.Conv2d(8, 16, 3, 1, 1, groups=4)),
    "conv_1x1_no_bias": _one(lambda: nn.Conv2d(8, 16, 1, bias=False)),
    "conv1d": _one(lambda: nn.Conv1d(4, 8, 5, padding=2), (1, 4, 30)),
    "depthwise": _one(lambda: nn.Conv2d(8, 8, 3, 1, 1, groups=8)),
    "depthwise_int16": _one(lambda: nn.Conv2d(8, 8, 3, 1, 1, groups=8), bits=16),
    "depthwise_stride_2": _one(lambda: nn.Conv2d(24, 24, 5, 2, 2, groups=24), (1, 24, 15, 13)),
    "depthwise_multiplier": _one(lambda: nn.Conv2d(8, 32, 3, 1, 1, groups=8)),
    "depthwise_dilated": _one(lambda: nn.Conv2d(8, 8, 3, 1, 2, dilation=2, groups=8)),
    "transposed": _one(lambda: nn.ConvTranspose2d(8, 12, 3, 2, 1, output_padding=1)),
    "transposed_even": _one(lambda: nn.ConvTranspose2d(8, 12, 4, 2, 1)),
    "linear": _one(lambda: nn.Linear(40, 30), (3, 40)),
    "linear_int16": _one(lambda: nn.Linear(40, 30), (3, 40), bits=16),
    "matmul": _call(torch.matmul, (3, 16, 20), (3, 20, 24)),
    "max_pool": _one(lambda: nn.MaxPool2d(3, 2, 1)),
    "max_pool_int16": _one(lambda: nn.MaxPool2d(3, 2, 1), bits=16),
    "avg_pool": _one(lambda: nn.AvgPool2d(3, 1)),
    "avg_pool_padded": _one(lambda: nn.AvgPool2d(3, 2, 1, count_include_pad=False)),
    "avg_pool_zeros": _one(lambda: nn.AvgPool2d(3, 2, 1)),
    "avg_pool_int16": _one(lambda: nn.AvgPool2d(3, 1), bits=16),
    "global_pool": _one(lambda: nn.AdaptiveAvgPool2d(1)),
    "add": _call(torch.add, _IMAGE, _IMAGE),
    "add_int16": _call(torch.add, _IMAGE, _IMAGE, bits=16),
    "add_broadcast": _call(torch.add, _IMAGE, (1, 8, 1, 1)),
    "sub": _call(torch.sub, _IMAGE, _IMAGE),
    "sub_int16": _call(torch.sub, _IMAGE, _IMAGE, bits=16),
    "sub_broadcast": _call(torch.sub, (1, 8, 1, 1), _IMAGE),
    "mul": _call(torch.mul, _IMAGE, _IMAGE),
    "mul_int16": _call(torch.mul, _IMAGE, _IMAGE, bits=16),
    "mul_constant": _call(lambda x: x * 0.3 + 2),
    "maximum": _call(torch.maximum, _IMAGE, _IMAGE),
    "minimum": _call(torch.minimum, _IMAGE, _IMAGE),
    "abs": _call(torch.abs),
    "neg": _call(torch.neg),
    "div": _call(torch.div, (2, 5, 16), (2, 5, 16), positive=True),
    "relu": _one(nn.ReLU),
    "relu6": _one(nn.ReLU6),
    "clamp": _call(lambda x: x.clamp(-0.5, 0.7)),
    "leaky_relu": _one(lambda: nn.LeakyReLU(0.2)),
    "leaky_relu_int16": _one(lambda: nn.LeakyReLU(0.2), bits=16),
    "sigmoid": _one(nn.Sigmoid),
    "sigmoid_int16": _one(nn.Sigmoid, bits=16),
    "tanh": _one(nn.Tanh),
    "tanh_int16": _one(nn.Tanh, bits=16),
    "hardswish": _one(nn.Hardswish),
    "gelu_int16": _one(nn.GELU, bits=16),
    "silu": _one(nn.SiLU),
    "exp": _call(torch.exp),
    "rsqrt": _call(torch.rsqrt, (2, 5, 16), positive=True),
    "softmax": _one(lambda: nn.Softmax(-1), (2, 12)),
    "softmax_int16": _one(lambda: nn.Softmax(-1), (2, 12), bits=16),
    "softmax_channels": _one(lambda: nn.Softmax(1)),
    "log_softmax": _one(lambda: nn.LogSoftmax(-1), (2, 12)),
    "layer_norm": _one(lambda: nn.LayerNorm(16), (2, 5, 16)),
    "mean": _call(lambda x: x.mean((2, 3))),
    "mean_channels": _call(lambda x: x.mean(1, keepdim=True)),
    "sum": _call(lambda x: x.sum(2, keepdim=True)),
    "sum_int16": _call(lambda x: x.sum(1), bits=16),
    "amax": _call(lambda x: x.amax(1)),
    "amax_keepdim": _call(lambda x: x.amax((3,), keepdim=True)),
    "cat": _call(lambda a, b: torch.cat([a, b], 1), _IMAGE, (1, 5, 10, 10)),
    "cat_width": _call(lambda a, b: torch.cat([a, b], 3), _IMAGE, (1, 8, 10, 4)),
    "split": _call(lambda x: torch.split(x, 4, 1)),
    "slice": _call(lambda x: x[:, 2:6, 1:9:2, 3:]),
    "permute": _call(lambda x: x.permute(0, 2, 3, 1)),
    "permute_back": _call(lambda x: x.permute(0, 3, 1, 2), (1, 5, 6, 7)),
    "transpose": _call(lambda x: x.transpose(1, 2), (3, 14, 9)),
    "transpose_int16": _call(lambda x: x.transpose(1, 2), (3, 14, 9), bits=16),
    "reshape": _call(lambda x: x.reshape(1, 20, 40) * 2),
    "pad": _call(lambda x: F.pad(x, (1, 2, 3, 4))),
    "repeat": _call(lambda x: x.repeat(1, 2, 1, 2)),
    "upsample_bilinear": _one(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), u85_only=True),
    "matmul_int16": _call(torch.matmul, (3, 16, 20), (3, 20, 24), bits=16, u85_only=True),
    "where": _call(lambda a, b: torch.where(a > b, a, b), _IMAGE, _IMAGE, u85_only=True),
    "upsample_nearest": _one(lambda: nn.Upsample(scale_factor=2)),
    "upsample_nearest_int16": _one(lambda: nn.Upsample(scale_factor=4), bits=16),
    "residual": _one(_Residual, (1, 3, 32, 32)),
    "separable": _one(_separable, (1, 1, 49, 10)),
    "attention": _one(_Attention, (1, 10, 16)),
    # Parts that are copied, as Vela's commands would be wrong without.
    "slice_softmax": _call(lambda x: x[:, 1:7].softmax(1)),
    "slice_layer_norm": _call(lambda x: F.layer_norm(x[:, :, 2:7], (10,))),
    "slice_transposed": _one(lambda: nn.Sequential(Call(lambda x: x[:, 2:6]), nn.ConvTranspose2d(4, 12, 2, 2))),
    "cat_scaled_by_mean": _call(lambda a, b: _scaled_by_mean(torch.cat([a, b], 1)), _IMAGE, (1, 5, 10, 10)),
}
