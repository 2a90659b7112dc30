"""One 3x3 convolution with 16 channels on 16x16 pixels, random weights: what the kernel itself costs."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Conv2d(16, 16, kernel_size=3, padding=1).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 16, 16, 16, generator=torch.Generator().manual_seed(0)),)
