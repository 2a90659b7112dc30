"""MobileNetV1 0.25, the visual wake words network of MLPerf Tiny, as the ExecuTorch wheel defines it; random weights.

The input is an image [batch, 3, 96, 96]; the outputs are the scores of "a person" and "no person". Seed 0.
"""

import torch
from executorch.examples.models.mlperf_tiny.mobilenet_v1_025 import MobileNetV1025


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return MobileNetV1025().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return _inputs(8)


def _inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 3, 96, 96, generator=generator) * 2 - 1,) for _ in range(count)]
