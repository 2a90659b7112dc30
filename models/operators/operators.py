"""Programs of one operator each: what an image of it takes, and how fast its inner loop is."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

ELEMENTS = 1024


class Operator(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., torch.Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.function(*inputs)


def numbers(*shape: int, seed: int = 0) -> torch.Tensor:
    """Normally distributed float32 values."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def _twice(*shape: int) -> tuple[torch.Tensor, ...]:
    return numbers(*shape), numbers(*shape, seed=1)


_PLACES = torch.tensor([3, 1, 4, 1, 5, 2, 6, 0])


@dataclass(frozen=True)
class Entry:
    """A module, and its inputs."""

    module: nn.Module
    inputs: tuple[torch.Tensor, ...]

    def model(self) -> nn.Module:
        return self.module.eval()

    def example_inputs(self) -> tuple[torch.Tensor, ...]:
        return self.inputs


_OPERATORS: dict[str, tuple[nn.Module, tuple[torch.Tensor, ...]]] = {
    "add": (Operator(torch.add), _twice(ELEMENTS)),
    "mul": (Operator(torch.mul), _twice(ELEMENTS)),
    "relu": (nn.ReLU(), (numbers(ELEMENTS),)),
    "sigmoid": (nn.Sigmoid(), (numbers(ELEMENTS),)),
    "softmax": (nn.Softmax(dim=-1), (numbers(8, ELEMENTS // 8),)),
    "layer_norm": (nn.LayerNorm(ELEMENTS // 8), (numbers(8, ELEMENTS // 8),)),
    "mean": (Operator(lambda x: x.mean(-1)), (numbers(8, ELEMENTS // 8),)),
    "cat": (Operator(lambda a, b: torch.cat((a, b), 1)), _twice(8, ELEMENTS // 8)),
    "permute": (Operator(lambda x: x.permute(2, 0, 1).contiguous()), (numbers(8, 8, ELEMENTS // 64),)),
    "mm": (Operator(torch.mm), _twice(16, 16)),
    "index": (Operator(lambda x: x[:, _PLACES]), (numbers(8, ELEMENTS // 8),)),
    "scatter_add": (
        Operator(lambda x, y: x.scatter_add(0, _PLACES.unsqueeze(1).expand(-1, ELEMENTS // 8).contiguous(), y)),
        _twice(len(_PLACES), ELEMENTS // 8),
    ),
    "pad": (Operator(lambda x: nn.functional.pad(x, (1, 2), value=0.5)), (numbers(8, ELEMENTS // 8),)),
    "var": (Operator(lambda x: x.var(-1)), (numbers(8, ELEMENTS // 8),)),
    "linear": (nn.Linear(32, 32), (numbers(1, 32),)),
}


def entries() -> dict[str, Entry]:
    return {name: Entry(module, inputs) for name, (module, inputs) in _OPERATORS.items()}
