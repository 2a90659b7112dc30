"""ResNet8, the image classification network of MLPerf Tiny, as the ExecuTorch wheel defines it; random weights, seed 0.

The input is an image [batch, 3, 32, 32]; the outputs are the scores of 10 classes.
"""

import torch
from executorch.examples.models.mlperf_tiny.resnet8 import ResNet8


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return ResNet8().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return _inputs(8)


def _inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 3, 32, 32, generator=generator) * 2 - 1,) for _ in range(count)]
