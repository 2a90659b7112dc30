"""Sensor signals into classes by convolutions over time that read the past only."""

import torch
from torch import nn


class Block(nn.Module):
    """A dilated convolution beside a shortcut; padding behind the signal is cut off again."""

    def __init__(self, channels: int, dilation: int) -> None:
        super().__init__()
        self.cut = 2 * dilation
        self.conv = nn.Conv1d(channels, channels, 3, padding=self.cut, dilation=dilation)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.conv(x)[..., : -self.cut])) + x


class CausalConvolution(nn.Module):
    """[batch, 4, 48] samples of four sensors to the scores of five classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv1d(4, 16, 1)
        self.blocks = nn.Sequential(Block(16, 1), Block(16, 2), Block(16, 4))
        self.classes = nn.Linear(16, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classes(self.blocks(self.first(x)).mean(-1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return CausalConvolution().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 4, 48, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
