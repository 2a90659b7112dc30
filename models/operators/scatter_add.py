"""One operator: scatter_add."""

import torch
from operators import OPERATORS
from torch import nn

_MODULE, _INPUTS = OPERATORS["scatter_add"]


def model() -> nn.Module:
    return _MODULE.eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return _INPUTS
