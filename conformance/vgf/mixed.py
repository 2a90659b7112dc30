"""A model of VGF's layers and of others that it lacks, with images and numbers as the other kernels take them."""

import torch
from torch import nn
from torch.nn import functional


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
        self.second = nn.Conv2d(8, 4, 3)
        self.kernel = nn.Linear(8, 8 * 8)

    def forward(self, image: torch.Tensor) -> tuple[torch.Tensor, ...]:
        found = self.first(image)
        # Weights that are computed, of a channels-last image.
        kernel = self.kernel(found.mean((2, 3))).reshape(8, 8, 1, 1)
        computed = functional.conv2d(found, kernel)
        # A view of it, and places of numbers, in 64 bits.
        rows = found.flatten(2).topk(5, 2).values
        result = self.second(computed)
        return result, rows, result.argmax(1), found.mean()


def model() -> nn.Module:
    torch.manual_seed(0)
    return Mixed().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    torch.manual_seed(1)
    return (torch.randn(1, 3, 12, 12),)


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    torch.manual_seed(2)
    return [(torch.randn(1, 3, 12, 12),) for _ in range(4)]
