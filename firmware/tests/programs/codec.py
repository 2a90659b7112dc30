"""A module of several methods, which share weights."""

import torch
from torch import nn


class Codec(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(16, 4)
        self.up = nn.Linear(4, 16)

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.down(x))

    def decode(self, code: torch.Tensor, gain: torch.Tensor) -> torch.Tensor:
        return self.up(code) * gain

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.up(self.encode(x))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Codec().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 16),)


def method_inputs() -> dict[str, tuple[torch.Tensor, ...]]:
    torch.manual_seed(2)
    return {"encode": (torch.randn(1, 16),), "decode": (torch.randn(1, 4), torch.tensor([0.5]))}
