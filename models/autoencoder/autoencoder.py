"""The anomaly detection autoencoder of MLPerf Tiny, as the ExecuTorch wheel defines it; random weights, seed 0.

Inputs and outputs are 5 frames of 128 log-mel energies each, [batch, 640].
"""

import torch
from executorch.examples.models.mlperf_tiny.deep_autoencoder import DeepAutoEncoder


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return DeepAutoEncoder().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return _inputs(8)


def _inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 640, generator=generator) * 2 - 1,) for _ in range(count)]
