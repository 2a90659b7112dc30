"""Segmentation: an image to the probability of each pixel, by way of smaller images."""

import torch
from torch import nn
from torch.nn import functional


def layers(channels: int, results: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, results, 3, padding=1), nn.BatchNorm2d(results), nn.ReLU())


class UNet(nn.Module):
    """[batch, 1, 16, 16] to [batch, 1, 16, 16]."""

    def __init__(self) -> None:
        super().__init__()
        self.large = layers(1, 8)
        self.small = layers(8, 16)
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.both = layers(24, 8)
        self.last = nn.Conv2d(8, 1, 1)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        large = self.large(image)
        small = self.small(functional.max_pool2d(large, 2))
        wide = functional.interpolate(small, scale_factor=2, mode="bilinear", align_corners=False)
        x = torch.cat([self.up(small), wide], dim=1)
        return torch.sigmoid(self.last(self.both(x) + large))


def model() -> nn.Module:
    torch.manual_seed(0)
    return UNet().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 1, 16, 16, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
