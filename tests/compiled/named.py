"""A model whose inputs and results have names, not in the alphabet's order, and sizes that tell them apart."""

import torch
from torch import nn


class Named(nn.Module):
    def forward(self, sound: torch.Tensor, features: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {"scaled": sound * features["gain"], "centre": features["mean"].sum() + sound.sum().reshape(1)}


def model() -> nn.Module:
    return Named().eval()


def example_inputs() -> dict[str, object]:
    return {"sound": torch.arange(5.0), "features": {"mean": torch.arange(3.0), "gain": torch.tensor([2.0])}}
