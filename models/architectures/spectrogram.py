"""The logarithm of a signal's power spectrum, frame by frame, and a score of each frame."""

import math

import torch
from torch import nn


class Spectrogram(nn.Module):
    """[batch, 256] samples to [batch, 7, 33] logarithms and [batch, 7, 8] scores."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(64), torch.arange(33)) * (2 * math.pi / 64)
        self.register_buffer("window", torch.hann_window(64))
        self.register_buffer("cosines", torch.cos(angles))
        self.register_buffer("sines", torch.sin(angles))
        self.scores = nn.Linear(33, 8)

    def forward(self, signal: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        frames = signal.unfold(1, 64, 32) * self.window
        power = (frames @ self.cosines) ** 2 + (frames @ self.sines) ** 2
        return torch.log(power + 1e-3).clamp(min=-10), self.scores(power.sqrt())


def model() -> nn.Module:
    torch.manual_seed(0)
    return Spectrogram().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 256, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
