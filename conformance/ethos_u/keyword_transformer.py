"""Defines a small keyword transformer: 49 frames of ten MFCCs and a class token, two layers; random weights, seed 0.

Berg et al., "Keyword Transformer: A Self-Attention Model for Keyword Spotting", 2021, with fewer and narrower layers.
"""

import torch
from torch import nn

_FRAMES, _FEATURES, _WIDTH, _HEADS, _LAYERS, _WORDS = 49, 10, 64, 1, 2, 12


class KeywordTransformer(nn.Module):
    """[batch, frames, features] to the scores of twelve words."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(_FEATURES, _WIDTH)
        self.token = nn.Parameter(torch.randn(1, 1, _WIDTH))
        self.positions = nn.Parameter(torch.randn(1, _FRAMES + 1, _WIDTH))
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.words = nn.Linear(_WIDTH, _WORDS)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        tokens = torch.cat([self.token.expand(features.shape[0], -1, -1), self.embed(features)], 1)
        return self.words(self.encoder(tokens + self.positions)[:, 0])


def model() -> nn.Module:
    torch.manual_seed(0)
    return KeywordTransformer().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randn(1, _FRAMES, _FEATURES, generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
