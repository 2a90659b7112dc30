"""A 1-d convolution of 16 channels, kernel 3, on 256 samples."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Conv1d(16, 16, kernel_size=3, padding=1).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 16, 256, generator=torch.Generator().manual_seed(0)),)
