"""A small convolutional network whose integers differ everywhere, so that a wrong one is seen."""

import torch
from torch import nn


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3), nn.Flatten(),
        nn.Linear(8 * 6 * 6, 10),
    ).eval()  # fmt: skip


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, 32, 32),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(1, 3, 32, 32),) for _ in range(8)]
