"""The sum of two int32 tensors, the second one broadcast; the sums wrap around as in PyTorch."""

import torch
from add import Add
from torch import nn


def model() -> nn.Module:
    return Add().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (
        torch.tensor([[1, -2, 2**31 - 1], [2**30, 0, -7]], dtype=torch.int32),
        torch.tensor([1, 20, 3], dtype=torch.int32),
    )
