"""A module for signals of up to 16 steps: sizes that are known at run time only."""

from typing import Any

import torch
from torch import nn


class Dynamic(nn.Module):
    """Layers over any number of steps, views among them, and results whose sizes depend on it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(3, 4, 3, padding=1)
        self.linear = nn.Linear(4, 5)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = torch.relu(self.conv(x))
        y = self.linear(y.transpose(1, 2))
        return torch.softmax(y, -1), y.mean(1), torch.cat([x, x * 2], 2), y.reshape(-1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Dynamic().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 3, 16, generator=torch.Generator().manual_seed(0)),)


def dynamic_shapes() -> dict[str, Any]:
    return {"x": {2: torch.export.Dim("steps", min=2, max=16)}}
