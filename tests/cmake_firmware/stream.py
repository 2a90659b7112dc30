"""A streaming GRU: it takes one vector of features at a time and keeps its hidden state."""

import torch
from torch import nn


class Stream(nn.Module):
    """Three scores from 8 features, after all the vectors before."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.GRUCell(8, 16)
        self.scores = nn.Linear(16, 3)
        self.register_buffer("hidden", torch.zeros(1, 16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.hidden.copy_(self.cell(x, self.hidden))
        return self.scores(self.hidden)


def model() -> nn.Module:
    torch.manual_seed(0)
    return Stream().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.randn(1, 8, generator=torch.Generator().manual_seed(1)),)


def evaluation_set() -> tuple[list[tuple[torch.Tensor, ...]], torch.Tensor]:
    # Vectors that follow one another, which self-tests are of; what they are labelled with is of no consequence.
    vectors = torch.randn(6, 1, 8, generator=torch.Generator().manual_seed(2))
    return [(vector,) for vector in vectors], torch.zeros(6, dtype=torch.int64)
