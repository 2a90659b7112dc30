"""A few layers that every Ethos-U computes: quick to build for a board of each kind."""

import torch
from torch import nn


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.last = nn.Linear(8, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.first(image).relu()
        x = x + self.second(x)
        return self.last(x.mean((2, 3)))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(2)
    return [(torch.randn(1, 3, 16, 16, generator=generator),) for _ in range(16)]
