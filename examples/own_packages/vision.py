"""A small vision transformer of Hugging Face's transformers, by its configuration, behind a head with einops."""

import torch
from einops import reduce
from transformers import ViTConfig, ViTModel


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        config = ViTConfig(
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=8,
            patch_size=4,
            num_channels=1,
            attn_implementation="eager",
        )
        self.encoder = ViTModel(config, add_pooling_layer=False)
        self.head = torch.nn.Linear(16, 3)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        tokens = self.encoder(image).last_hidden_state
        return self.head(reduce(tokens, "batch token channel -> batch channel", "mean"))


def model() -> torch.nn.Module:
    torch.manual_seed(0)
    return Classifier().eval()


def example_inputs() -> tuple[torch.Tensor, ...]:
    return (torch.rand(1, 1, 8, 8),)
