"""MobileNetV2 of mobilenet_v2.py, whose width is 0.35, for images of 224x224 pixels as in ExecuTorch's tutorial."""

import torch
from mobilenet_v2 import model as model


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return _inputs(8)


def _inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 3, 224, 224, generator=generator) * 2 - 1,) for _ in range(count)]
