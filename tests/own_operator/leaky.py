"""A layer, an operator of one's own that remembers nothing between inferences, and another layer."""

import torch
from leak import leak


class Leaky(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(4, 8)
        self.last = torch.nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(leak(torch.tanh(self.first(x)), 0.125))


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Leaky().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(2, 4),)
