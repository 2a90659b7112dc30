"""A layer of LSTM from 16 to 32 features, over 32 steps."""

import torch


class Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.LSTM(16, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x)[0]


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Layer().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(32, 1, 16, generator=torch.Generator().manual_seed(0)),)
