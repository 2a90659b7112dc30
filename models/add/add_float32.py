"""The sum of two float32 tensors, the second one broadcast."""

import torch
from add import Add
from torch import nn


def model() -> nn.Module:
    return Add().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return torch.tensor([[0.5, -1.25, 3.0], [1e-3, 2.0, -7.5]]), torch.tensor([1.0, 2.0, 4.0])
