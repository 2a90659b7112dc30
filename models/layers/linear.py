"""A linear layer from 256 to 64 features."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Linear(256, 64).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 256, generator=torch.Generator().manual_seed(0)),)
