"""A layer of each kind that networks for microcontrollers are made of, on one small image; each result is an output."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Kinds(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.depthwise = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.pointwise = nn.Conv2d(16, 24, 1)
        self.grouped = nn.Conv2d(24, 24, 3, padding=1, groups=4)
        self.dilated = nn.Conv2d(24, 16, 3, padding=2, dilation=2)
        self.transposed = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.rows = nn.Linear(24, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        stem = functional.relu(self.stem(x))
        depthwise = functional.relu6(self.depthwise(stem))
        pointwise = functional.hardswish(self.pointwise(depthwise))
        grouped = self.grouped(pointwise)
        added = functional.relu(grouped + pointwise)
        dilated = self.dilated(added)
        transposed = torch.tanh(self.transposed(dilated))
        pooled = functional.max_pool2d(added, 2)
        joined = torch.cat([pooled, functional.avg_pool2d(added, 2)], 1)
        gated = added * torch.sigmoid(grouped)
        rows = functional.relu(self.rows(gated.mean((2, 3))))
        head = self.head(rows)
        return stem, depthwise, pointwise, grouped, dilated, transposed, joined, gated, rows, torch.softmax(head, 1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Kinds().eval()


def example_inputs() -> tuple[Tensor, ...]:
    return calibration_inputs()[0]


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.randn(1, 3, 8, 8, generator=generator),) for _ in range(8)]
