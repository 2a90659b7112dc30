"""Convolutions that the NPU computes, and between them layers that an Ethos-U55 doesn't take."""

import torch
from torch import Tensor, nn
from torch.nn import functional


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(4, 8, 3, padding=1)
        # A stride above the NPU's, and a larger window than it takes of what is padded.
        self.up = nn.ConvTranspose2d(8, 8, 3, stride=3)
        self.pool = nn.AvgPool2d(9, 3, 4, count_include_pad=False)
        self.second = nn.Conv2d(8, 4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y = functional.hardshrink(torch.relu(self.up(self.first(x))), 0.1)
        return self.second(torch.flip(self.pool(y), (2,)))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Mixed().eval()


def example_inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 4, 12, 12),)


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    torch.manual_seed(2)
    return [(torch.randn(1, 4, 12, 12),) for _ in range(4)]
