"""Maxima of 2x2 windows of 16 channels of 32x32 pixels that are positive, as after a ReLU."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.MaxPool2d(2).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 16, 32, 32, generator=torch.Generator().manual_seed(0)),)
