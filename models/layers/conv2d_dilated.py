"""A 3x3 convolution of 16 channels, dilated by 2, on 16x16 pixels."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Conv2d(16, 16, kernel_size=3, padding=2, dilation=2).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 16, 16, 16, generator=torch.Generator().manual_seed(0)),)
