"""MobileNetV2 with width 0.35 for images of 96x96 pixels and 10 classes; random weights, seed 0.

Sandler et al., "MobileNetV2: Inverted Residuals and Linear Bottlenecks", 2018, table 2.
"""

import torch
from torch import nn

_WIDTH = 0.35
_CLASSES = 10

# Expansion factor, output channels at width 1, blocks, stride of the first one.
_STAGES = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
_FIRST, _LAST = 32, 1280


class InvertedResidual(nn.Module):
    """Expansion by a pointwise convolution, depthwise convolution, projection; added to the input of the same shape."""

    def __init__(self, channels: int, out_channels: int, expansion: int, stride: int) -> None:
        super().__init__()
        hidden = channels * expansion
        layers = [] if expansion == 1 else [_convolution(channels, hidden, 1)]
        self.layers = nn.Sequential(
            *layers,
            _convolution(hidden, hidden, 3, stride, groups=hidden),
            _scaled(nn.Conv2d(hidden, out_channels, 1, bias=False), "linear"),
            nn.BatchNorm2d(out_channels),
        )
        self.is_residual = stride == 1 and channels == out_channels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x) if self.is_residual else self.layers(x)


def model() -> nn.Module:
    torch.manual_seed(0)
    channels = _rounded(_FIRST)
    layers: list[nn.Module] = [_convolution(3, channels, 3, stride=2)]
    for expansion, width, blocks, stride in _STAGES:
        for block in range(blocks):
            layers.append(InvertedResidual(channels, _rounded(width), expansion, stride if block == 0 else 1))
            channels = _rounded(width)
    # The last layer is not narrowed at widths below 1.
    layers += [_convolution(channels, _LAST, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(_LAST, _CLASSES)]
    return nn.Sequential(*layers).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return inputs(8)


def inputs(count: int, size: int = 96) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 3, size, size, generator=generator) * 2 - 1,) for _ in range(count)]


def _convolution(channels: int, out_channels: int, kernel: int, stride: int = 1, groups: int = 1) -> nn.Sequential:
    return nn.Sequential(
        _scaled(nn.Conv2d(channels, out_channels, kernel, stride, kernel // 2, groups=groups, bias=False), "relu"),
        nn.BatchNorm2d(out_channels),
        nn.ReLU6(),
    )


def _scaled(layer: nn.Conv2d, followed_by: str) -> nn.Conv2d:
    """Gives a layer weights with which values stay as large; PyTorch's make them less, in int8 zeros in the end."""
    nn.init.kaiming_uniform_(layer.weight, nonlinearity=followed_by)
    return layer


def _rounded(channels: int) -> int:
    """Channels at the width, as a multiple of 8 that is at least 90 % of it."""
    narrow = channels * _WIDTH
    result = max(8, int(narrow + 4) // 8 * 8)
    return result if result >= 0.9 * narrow else result + 8
