"""Layers on an image and on vectors without a batch, products with vectors, and parts of a tensor that are written."""

import torch
from torch import nn
from torch.nn import functional


class Unbatched(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3)
        self.matrix = nn.Parameter(torch.randn(10, 8 * 5 * 5) / 8)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        image = functional.max_pool2d(image, 2).clone()
        image[:, 0] = 0
        image[:2, 1:] *= 0.5
        return self.matrix @ functional.max_pool2d(torch.relu(self.conv(image)), 2).flatten()


def model() -> nn.Module:
    torch.manual_seed(0)
    return Unbatched().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(3, 24, 24),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(2)
    return [(torch.randn(3, 24, 24),) for _ in range(4)]
