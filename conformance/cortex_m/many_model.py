"""Linear layers in a program with one of many inputs, which has loops of its own: turns of 32, or vectors in eights."""

import torch
from torch import Tensor, nn


def model() -> nn.Module:
    torch.manual_seed(0)
    # Behind whole turns are 8 inputs and a word, 8 and two words, none, 16, 24, and less than 8.
    sizes = (172, 13, 256, 128, 81, 80, 24, 7, 11)
    layers = [nn.Linear(size, next_size) for size, next_size in zip(sizes, sizes[1:], strict=False)]
    return nn.Sequential(*layers).eval()


def example_inputs() -> tuple[Tensor, ...]:
    return calibration_inputs()[0]


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 172, generator=generator),) for _ in range(16)]
