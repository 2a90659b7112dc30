"""Layers one by one, by their names in layers.bzl: what a kernel costs per product or element of a window."""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from torch import Tensor, nn


class First(nn.Module):
    """The results of a recurrent layer, without its states."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0]


class Bmm(nn.Module):
    """Products of matrices."""

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return torch.bmm(a, b)


def entries() -> dict[str, SimpleNamespace]:
    """Returns the layers, by name."""
    of_16, image = (16, 16, 3), (1, 16, 16, 16)
    return {
        "avg_pool2d": _entry(lambda: nn.AvgPool2d(2), (1, 16, 32, 32)),
        "bmm": _entry(Bmm, (2, 32, 32), count=2),
        "conv1d": _entry(lambda: nn.Conv1d(*of_16, padding=1), (1, 16, 256)),
        "conv2d_depthwise": _entry(lambda: nn.Conv2d(*of_16, padding=1, groups=16), image),
        "conv2d_dilated": _entry(lambda: nn.Conv2d(*of_16, padding=2, dilation=2), image),
        "conv2d_grouped": _entry(lambda: nn.Conv2d(*of_16, padding=1, groups=4), image),
        "conv_transpose2d": _entry(lambda: nn.ConvTranspose2d(*of_16, 2, 1, 1), (1, 16, 8, 8)),
        "gru": _entry(lambda: First(nn.GRU(16, 32)), (32, 1, 16)),
        "linear": _entry(lambda: nn.Linear(256, 64), (1, 256)),
        "lstm": _entry(lambda: First(nn.LSTM(16, 32)), (32, 1, 16)),
        # The numbers are positive, as after a ReLU.
        "max_pool2d": _entry(lambda: nn.MaxPool2d(2), (1, 16, 32, 32)),
    }


def _entry(make: Callable[[], nn.Module], shape: tuple[int, ...], count: int = 1) -> SimpleNamespace:
    def model() -> nn.Module:
        torch.manual_seed(0)
        return make().eval()

    def example_inputs() -> tuple[Tensor, ...]:
        generator = torch.Generator().manual_seed(0)
        return tuple(torch.rand(shape, generator=generator) for _ in range(count))

    return SimpleNamespace(model=model, example_inputs=example_inputs)
