"""Chains of one small operator: images differ in how many there are, so the difference is what a call takes."""

from collections.abc import Callable

import torch
from torch import nn

LENGTHS = (16, 32)

# The first two call inner functions of kernels, of two pointers and a size and of four pointers and three sizes; the
# last one calls an outer function.
OPERATORS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "linear": lambda: nn.Linear(4, 4), "tanh": nn.Tanh}


class _Entry:
    """An operator, as often as is said, on four numbers."""

    def __init__(self, operator: str, length: int) -> None:
        self.operator, self.length = operator, length

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(*(OPERATORS[self.operator]() for _ in range(self.length))).eval()

    def example_inputs(self) -> tuple[torch.Tensor, ...]:
        return (torch.tensor([[-1.0, 0.0, 0.5, 2.0]]),)


def entries() -> dict[str, object]:
    return {f"{operator}_{length}": _Entry(operator, length) for operator in OPERATORS for length in LENGTHS}
