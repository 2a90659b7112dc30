"""The operators on spectra, small: transforms of even and odd length, mirrored ends, 16-bit samples, a filter bank."""

import torch
from torch import Tensor, nn


class Spectra(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hann_window(12))
        # Two triangles over the seven frequencies.
        self.register_buffer(
            "filters", torch.tensor([[0, 0.5, 1, 0.5, 0, 0, 0], [0, 0, 0, 0.25, 0.5, 0.75, 0]], dtype=torch.float32)
        )

    def forward(self, sound: Tensor, samples: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        transform = torch.stft(sound, 15, 7, center=False, onesided=False, return_complex=True)
        spectrum = torch.stft(samples.float(), 12, 5, window=self.window, return_complex=True)
        magnitude = torch.stft(sound, 8, 4, pad_mode="constant", return_complex=True).abs()
        return torch.view_as_real(transform), self.filters @ spectrum.abs() ** 2, magnitude


def model() -> nn.Module:
    return Spectra().eval()


def example_inputs() -> tuple[Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(1, 40), torch.randint(-1000, 1000, (2, 30), dtype=torch.int16)
