"""Layers that can have int4 weights: odd counts, few channels, with and without bias and activation; rows, images."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 37, 3, stride=2)
        self.point = nn.Conv2d(37, 70, 1)
        self.few = nn.Conv2d(70, 3, 1, bias=False)
        self.back = nn.Conv2d(3, 33, 1)
        self.strided = nn.Conv2d(33, 8, 1, stride=2)
        self.rows = nn.Linear(33, 65, bias=False)
        self.single = nn.Linear(65, 1)
        self.head = nn.Linear(66, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = functional.relu(self.stem(x))
        x = functional.relu6(self.point(x))
        x = functional.relu(self.back(self.few(x)))
        strided = self.strided(x)
        # Rows of several dims.
        rows = functional.relu(self.rows(x.flatten(2).transpose(1, 2)))
        single = self.single(rows)
        return self.head(torch.cat([rows, single], 2)), strided


def model() -> nn.Module:
    torch.manual_seed(0)
    return Model().eval()


def example_inputs() -> tuple[Tensor, ...]:
    return calibration_inputs()[0]


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 9, 7, generator=generator),) for _ in range(16)]
