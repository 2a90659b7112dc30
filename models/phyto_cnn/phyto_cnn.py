"""A classifier of electrical signals of plants: 100 samples of one channel in, the probabilities of four states out.

The weights are random with a fixed seed: the model stands for the structure of the network.
"""

import torch
from torch import nn


class PhytoCnn(nn.Module):
    """Convolution over time, then the two halves of the time axis side by side through a small classifier."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv1d(1, 8, kernel_size=5)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool1d(3)
        self.hidden = nn.Linear(16, 12)
        self.classes = nn.Linear(16 * 12, 4)

    def forward(self, signal: torch.Tensor) -> torch.Tensor:
        x = self.pool(self.relu(self.conv(signal)))  # [batch, 8, 32]
        x = x.transpose(1, 2)  # [batch, 32, 8]
        x = torch.cat([x[:, :16], x[:, 16:]], dim=2)  # [batch, 16, 16]
        x = self.relu(self.hidden(x))  # [batch, 16, 12]
        return torch.softmax(self.classes(x.flatten(1)), dim=1)


def model() -> nn.Module:
    torch.manual_seed(0)
    return PhytoCnn().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    generator = torch.Generator().manual_seed(0)
    time = torch.linspace(0, 1, 100)
    noise = 0.1 * torch.randn(100, generator=generator)
    return ((torch.sin(12 * time) + noise).reshape(1, 1, 100),)
