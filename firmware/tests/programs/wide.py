"""A module whose tensors take more than one memory of a small chip: all images are used once more at the end."""

import torch
from torch import nn


class Wide(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(1, 1, 3, padding=1) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        images = [x]
        for convolution in self.convolutions:
            images.append(torch.relu(convolution(images[-1])) - 0.25 * images[-1])
        total = images[-1]
        for image in images[-2::-1]:
            total = image - 0.5 * total
        return nn.functional.avg_pool2d(total, 15)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Wide().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 1, 60, 60, generator=torch.Generator().manual_seed(0)),)
