"""A small autoencoder in floating point."""

import torch


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(16, 4), torch.nn.ReLU(), torch.nn.Linear(4, 16)).eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 16, generator=torch.Generator().manual_seed(0)),)
