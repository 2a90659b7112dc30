"""DS-CNN, the keyword-spotting network of MLPerf Tiny, as the ExecuTorch wheel defines it; random weights, seed 0.

The input is one second of speech, [batch, 1, 49 frames, 10 mel-frequency cepstral coefficients]; the outputs are the
scores of 12 words.
"""

import torch
from executorch.examples.models.mlperf_tiny.ds_cnn import DSCNNKWS


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return DSCNNKWS().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _inputs(1)[0]


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    return _inputs(8)


def _inputs(count: int) -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(0)
    return [(torch.rand(1, 1, 49, 10, generator=generator) * 2 - 1,) for _ in range(count)]
