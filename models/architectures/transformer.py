"""A vision transformer: attention over the patches of an image."""

import torch
from torch import nn


class Transformer(nn.Module):
    """[batch, 3, 16, 16] to the scores of ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 32, 4, stride=4)
        self.positions = nn.Parameter(torch.randn(1, 16, 32) * 0.02)
        layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(32)
        self.classes = nn.Linear(32, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = self.patches(image).flatten(2).transpose(1, 2) + self.positions
        return self.classes(self.norm(self.encoder(x)).mean(1))


def model() -> nn.Module:
    torch.manual_seed(0)
    return Transformer().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, 3, 16, 16, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
