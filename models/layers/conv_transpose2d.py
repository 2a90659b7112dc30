"""A 3x3 transposed convolution of 16 channels that doubles 8x8 pixels."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.ConvTranspose2d(16, 16, kernel_size=3, stride=2, padding=1, output_padding=1).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 16, 8, 8, generator=torch.Generator().manual_seed(0)),)
