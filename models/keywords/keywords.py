"""Spots keywords in raw sound: a second of 16-bit samples goes in, log-mel features and the network are one program.

The words are made up in code: two vowels, each two resonances over a pitch that glides, of speakers who differ in all
of that, at any place in the second and in noise.
"""

import math

import torch
from torch import Tensor, nn

RATE = 8000
WORDS = ("yes", "no", "stop", "go", "(none)")
# The first two resonances of the two vowels of each word, in Hz.
_VOWELS = {
    "yes": ((300, 2200), (550, 1800)),
    "no": ((450, 900), (350, 700)),
    "stop": ((600, 950), (700, 1200)),
    "go": ((500, 1500), (400, 800)),
}


class LogMel(nn.Module):
    """Logarithms of the power in mel bands, [batch, bands, frames], of 16-bit samples [batch, samples]."""

    def __init__(self, size: int = 256, hop: int = 128, bands: int = 32) -> None:
        super().__init__()
        self.size, self.hop = size, hop
        self.register_buffer("window", torch.hann_window(size))
        self.register_buffer("filters", mel_filters(bands, size))

    def forward(self, samples: Tensor) -> Tensor:
        sound = samples.float() / 32768
        spectrum = torch.stft(sound, self.size, self.hop, window=self.window, return_complex=True)
        power = spectrum.abs() ** 2
        return (torch.log10(self.filters @ power + 1e-6) + 3) / 3


def mel_filters(bands: int, size: int) -> Tensor:
    """Triangles [bands, frequencies] that are even in mel (S. S. Stevens et al., 1937): 2595 log10(1 + f / 700)."""
    top = 2595 * math.log10(1 + RATE / 2 / 700)
    edges = 700 * (10 ** (torch.linspace(0, top, bands + 2) / 2595) - 1)
    frequencies = torch.linspace(0, RATE / 2, size // 2 + 1)
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    rising = (frequencies - low) / (middle - low)
    falling = (high - frequencies) / (high - middle)
    return torch.minimum(rising, falling).clamp(min=0)


def _block(channels: int, out_channels: int, stride: int) -> nn.Sequential:
    """A convolution over time, in which bands are channels (S. Choi et al., TC-ResNet, 2019)."""
    return nn.Sequential(nn.Conv1d(channels, out_channels, 5, stride, 2), nn.BatchNorm1d(out_channels), nn.ReLU())


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        LogMel(), _block(32, 24, 2), _block(24, 32, 2), _block(32, 32, 2),
        nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(32, len(WORDS)),
    ).eval()  # fmt: skip


def example_inputs() -> tuple[Tensor, ...]:
    return (sounds(1, seed=0)[0],)


def train() -> nn.Module:
    net = model()
    front_end, network = net[0], net[1:]
    x, labels = sounds(600, seed=1)
    # Features do not change while the network learns.
    with torch.no_grad():
        features = torch.cat([front_end(part) for part in x.split(100)])
    network.train()
    optimizer = torch.optim.Adam(network.parameters(), 0.01)
    for _ in range(15):
        for batch in torch.randperm(len(features)).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(features[batch]), labels[batch]).backward()
            optimizer.step()
    return net.eval()


def calibration_inputs() -> list[tuple[Tensor, ...]]:
    return [(sound,) for sound in sounds(50, seed=2)[0].split(1)]


def evaluation_set() -> tuple[list[tuple[Tensor, ...]], Tensor]:
    x, labels = sounds(40, seed=3)
    return [(sound,) for sound in x.split(1)], labels


def sounds(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sounds [count, RATE] of 16-bit samples, and which of the words each is."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % len(WORDS)
    x = torch.stack([_sound(WORDS[label], generator) for label in labels.tolist()])
    return (x * 32767).round().clamp(-32768, 32767).to(torch.int16), labels


def _sound(word: str, generator: torch.Generator) -> Tensor:
    def between(low: float, high: float) -> float:
        return low + (high - low) * float(torch.rand((), generator=generator))

    sound = between(0.002, 0.02) * torch.randn(RATE, generator=generator)
    # A sound without a word is noise alone, or one vowel that no word has.
    vowels = _VOWELS.get(word, ((250, 1200),) if between(0, 1) < 0.5 else ())
    pitch, throat, loudness = between(90, 220), between(0.92, 1.08), between(0.1, 0.5)
    at = int(between(0.05, 0.3) * RATE)
    for resonances in vowels:
        length = int(between(0.18, 0.28) * RATE)
        time = torch.arange(length) / RATE
        phase = 2 * math.pi * pitch * (time + between(-0.3, 0.3) * time**2)
        harmonics = torch.arange(1, int(RATE / 2 / pitch / 1.4))
        strength = sum(1 / (1 + ((harmonics * pitch - throat * resonance) / 90) ** 2) for resonance in resonances)
        tone = (strength[:, None] * torch.sin(harmonics[:, None] * phase)).sum(0)
        sound[at : at + length] += loudness * torch.sin(math.pi * torch.arange(length) / length) * tone / 2
        at += length
    return sound
