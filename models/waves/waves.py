"""Tells sine, triangle and square waves apart, from 64 noisy samples."""

import math

import torch
from torch import Tensor, nn


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, (1, 5), stride=(1, 2), padding=(0, 2)), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 32, (1, 5), stride=(1, 2), padding=(0, 2)), nn.BatchNorm2d(32), nn.ReLU(),
        nn.Conv2d(32, 32, (1, 5), padding=(0, 2)), nn.BatchNorm2d(32), nn.ReLU(),
        nn.AvgPool2d((1, 4)), nn.Flatten(), nn.Linear(128, 3),
    ).eval()  # fmt: skip


def example_inputs() -> tuple[Tensor, ...]:
    return (waves(1, seed=0)[0],)


def train() -> nn.Module:
    net = model().train()
    x, labels = waves(900, seed=1)
    optimizer = torch.optim.Adam(net.parameters(), 0.01)
    for _ in range(60):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), labels).backward()
        optimizer.step()
    return net.eval()


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    return [(wave,) for wave in waves(100, seed=2)[0].split(1)]


def evaluation_set() -> tuple[list[tuple[Tensor, ...]], Tensor]:
    x, labels = waves(300, seed=3)
    return [(wave,) for wave in x.split(1)], labels


def waves(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Waves [count, 1, 1, 64] and which of the three each is."""
    generator = torch.Generator().manual_seed(seed)
    cycles, phase = torch.rand(2, count, 1, generator=generator)
    sine = torch.sin(2 * math.pi * (torch.linspace(0, 1, 64) * (1 + cycles) + phase))
    labels = torch.arange(count) % 3
    shapes = torch.stack([sine, sine.asin() * 2 / math.pi, sine.sign()])
    x = shapes[labels, torch.arange(count)] + 0.25 * torch.randn(count, 64, generator=generator)
    return x.reshape(count, 1, 1, 64), labels
