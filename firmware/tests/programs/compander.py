"""A module whose methods are called as those of codec.py are, and which share a constant, too."""

import torch
from torch import nn


class Compander(nn.Module):
    """The mu-law of each of twelve channels."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mu", torch.linspace(10, 255, 12))

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sign(x) * torch.log1p(self.mu * x.abs()) / torch.log1p(self.mu)

    def decode(self, code: torch.Tensor) -> torch.Tensor:
        return torch.sign(code) * torch.expm1(code.abs() * torch.log1p(self.mu)) / self.mu

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.decode(self.encode(x) * 0.5)


def model() -> nn.Module:
    return Compander().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.linspace(-1, 1, 24).reshape(2, 12),)


def method_inputs() -> dict[str, tuple[torch.Tensor, ...]]:
    return {
        "encode": (torch.linspace(-0.5, 1, 24).reshape(2, 12),),
        "decode": (torch.linspace(-1, 0.5, 24).reshape(2, 12),),
    }
