"""MobileNetV2 of mobilenet_v2.py, whose width is 0.35, for images of 224x224 pixels as in ExecuTorch's tutorial."""

import torch
from mobilenet_v2 import inputs
from mobilenet_v2 import model as model

_SIZE = 224


def example_inputs() -> tuple[torch.Tensor, ...]:
    return inputs(1, _SIZE)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return inputs(8, _SIZE)
