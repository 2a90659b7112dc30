"""One operator: pad."""

import torch
from operators import OPERATORS
from torch import nn

_MODULE, _INPUTS = OPERATORS["pad"]


def model() -> nn.Module:
    return _MODULE.eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _INPUTS
