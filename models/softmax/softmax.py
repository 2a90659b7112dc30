"""Softmax over the rows of a 2x2 matrix: the smallest model with a floating point kernel."""

import torch
from torch import nn


def model() -> nn.Module:
    return nn.Softmax(dim=1).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.tensor([[1.0, 2.0], [-0.5, 0.5]]),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(2, 2, generator=generator),) for _ in range(8)]
