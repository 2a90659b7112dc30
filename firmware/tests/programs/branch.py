"""A module with a branch on its data, and lists of tensors: jumps and moves in the program."""

import torch
from torch import nn


class Branch(nn.Module):
    """One of two functions of the input, and the input with what came of it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = torch.cond(x.sum() > 0, lambda v: v * 3.0, lambda v: v - 1.0, (x,))
        return torch.cat([x, y], 1)


def model() -> nn.Module:
    return Branch().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.tensor([[1.0, -2.0, 0.5, -4.0]]),)


def evaluation_set() -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]:
    # There is one for each branch.
    return [example_inputs(), (torch.tensor([[1.0, 2.0, 0.5, 4.0]]),)], torch.tensor([3, 7])
