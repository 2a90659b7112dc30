"""Networks on images whose layers can be computed a band of rows at a time; the outputs are images."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn


def _convolution(channels: int, out: int, kernel: int = 1, stride: int = 1, **more: int) -> nn.Sequential:
    padding = more.get("dilation", 1) * (kernel // 2)
    return nn.Sequential(nn.Conv2d(channels, out, kernel, stride, padding, **more), nn.ReLU6())


class _Residual(nn.Module):
    """An inverted residual block, and what it adds to."""

    def __init__(self, channels: int, kernel: int) -> None:
        super().__init__()
        hidden = 6 * channels
        self.layers = nn.Sequential(
            _convolution(channels, hidden),
            _convolution(hidden, hidden, kernel, groups=hidden),
            nn.Conv2d(hidden, channels, 1),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


def _mobile() -> nn.Module:
    """Strides, several kernels, and rows of odd sizes."""
    layers = [_convolution(3, 8, 3, 2), _Residual(8, 3), _Residual(8, 5), _convolution(8, 12, 3, 2, groups=4)]
    return nn.Sequential(*layers, _convolution(12, 16, 3, dilation=2))


class _Stage(nn.Module):
    """A stage of a residual network, whose skip has a stride."""

    def __init__(self) -> None:
        super().__init__()
        self.path = nn.Sequential(_convolution(12, 20, 3, 2), nn.Conv2d(20, 20, 3, padding=1))
        self.skip = nn.Conv2d(12, 20, 1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.path(x) + self.skip(x))


def _residual() -> nn.Module:
    """Poolings and convolutions that read several channels."""
    layers = [_convolution(4, 12, 5), nn.MaxPool2d(3, 2, 1), _Stage(), _convolution(20, 16, 3), nn.AvgPool2d(2)]
    return nn.Sequential(*layers)


@dataclass
class _Described:
    """A network, and the shape of its image."""

    make: Callable[[], nn.Module]
    image: tuple[int, ...]

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return self.make().eval()

    def example_inputs(self) -> tuple[torch.Tensor, ...]:
        return self.calibration_inputs()[0]

    def calibration_inputs(self) -> list[tuple[torch.Tensor, ...]]:
        generator = torch.Generator().manual_seed(0)
        return [(torch.randn(1, *self.image, generator=generator),) for _ in range(4)]


def entries() -> dict[str, object]:
    return {"mobile": _Described(_mobile, (3, 45, 35)), "residual": _Described(_residual, (4, 41, 29))}
