"""BERT of the smallest published size, two layers of width 128, for 32 of 1,000 words; random weights, seed 0.

Turc et al., "Well-Read Students Learn Better", 2019: BERT-Tiny, with a smaller vocabulary.
"""

import torch
from torch import nn

_VOCABULARY, _LENGTH, _WIDTH, _HEADS, _LAYERS, _CLASSES = 1000, 32, 128, 2, 2, 2


class TinyBert(nn.Module):
    """[batch, length] of words to the scores of two classes."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(_VOCABULARY, _WIDTH)
        self.positions = nn.Parameter(torch.randn(1, _LENGTH, _WIDTH))
        self.norm = nn.LayerNorm(_WIDTH)
        layer = nn.TransformerEncoderLayer(_WIDTH, _HEADS, 4 * _WIDTH, 0.0, "gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, _LAYERS, enable_nested_tensor=False)
        self.pooler = nn.Linear(_WIDTH, _WIDTH)
        self.classes = nn.Linear(_WIDTH, _CLASSES)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        tokens = self.encoder(self.norm(self.words(words) + self.positions))
        return self.classes(torch.tanh(self.pooler(tokens[:, 0])))


def model() -> nn.Module:
    torch.manual_seed(0)
    return TinyBert().eval()


def calibration_inputs() -> list[tuple[torch.Tensor, ...]]:
    generator = torch.Generator().manual_seed(1)
    return [(torch.randint(0, _VOCABULARY, (1, _LENGTH), generator=generator),) for _ in range(8)]


def example_inputs() -> tuple[torch.Tensor, ...]:
    return calibration_inputs()[0]
