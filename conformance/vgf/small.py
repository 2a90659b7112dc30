"""A small convolutional network whose integers differ everywhere, so that a wrong one is seen."""

import torch
from torch import nn
from torch.nn import functional


class Small(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=1)
        self.second = nn.Conv2d(8, 8, 3)
        self.last = nn.Linear(8 * 6 * 6, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # A pooling without a stride, which the module would have.
        y = functional.max_pool2d(torch.relu(self.first(x)), 2)
        return self.last(self.second(y).flatten(1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Small().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, 32, 32),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return [(torch.randn(1, 3, 32, 32),) for _ in range(8)]
