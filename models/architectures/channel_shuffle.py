"""Grouped convolutions between which channels change places, and pixels made of channels."""

import torch
from torch import nn
from torch.nn import functional


class ChannelShuffle(nn.Module):
    """[batch, 3, 16, 16] to [batch, 4, 16, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.grouped = nn.Conv2d(16, 32, 1, groups=4)
        self.last = nn.Conv2d(8, 4, 3, padding="same")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.grouped(functional.relu6(self.first(x)))
        x = functional.pixel_shuffle(functional.channel_shuffle(x, 4), 2)
        return functional.leaky_relu(self.last(x), 0.1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return ChannelShuffle().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 16, 16, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
