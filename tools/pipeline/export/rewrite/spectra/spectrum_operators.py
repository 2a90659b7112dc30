"""Defines operators of our own, `torch_fusion::*`, for spectra of signals in real numbers.

A program can't hold complex numbers, and PyTorch's transforms need much memory: all frames of a signal side by side,
and twice as many numbers for their transforms. These operators cut one frame at a time from the signal, transform it
and store only the requested values.

All take [signals, samples] in float32 or int16 and cut `count` frames of `size` samples, `hop` samples apart. The first
frame begins `pad` samples before the signal. `pad` samples before and after it are mirrored (`reflect`) or zero, and
all further ones are zero. `roots` is the result of fft_roots(), and the last result is scratch memory.
"""

import math

import torch
from torch import Tensor

from tools.pipeline.export.rewrite.own_operators import define_out_variant

_library = torch.library.Library("torch_fusion", "FRAGMENT")

_SIGNAL = "Tensor self, Tensor? window, Tensor roots, "
_FILTERS = "Tensor bands, Tensor weights, "
_FRAMES = "int size, int hop, int pad, bool reflect, int count, "
_SCHEMAS = {
    # [signals, frequencies, count, 2]: real and imaginary parts.
    "stft": f"{_SIGNAL}{_FRAMES}bool onesided",
    # [signals, frequencies, count], or with `frames_first` [signals, count, frequencies]: absolute values or squares.
    "spectrogram": f"{_SIGNAL}{_FRAMES}bool onesided, bool squared, bool frames_first",
    # [signals, filters, count]: weighted sums over `bands[:, 1]` of a spectrogram's frequencies, from `bands[:, 0]` on.
    # The weights of all bands are concatenated.
    "filtered_spectrogram": f"{_SIGNAL}{_FILTERS}{_FRAMES}bool squared, bool frames_first",
}
for _name, _arguments in _SCHEMAS.items():
    _library.define(f"{_name}({_arguments}) -> (Tensor out, Tensor work)")
    define_out_variant(getattr(torch.ops.torch_fusion, _name).default)


def fft_radices(size: int) -> list[int]:
    """Returns the radices by which the kernel transforms `size` numbers (fft_radix() in kernels/portable/fft.h)."""
    points = size if size % 2 else size // 2
    radices = []
    while points > 1:
        odd = (radix for radix in range(3, math.isqrt(points) + 1, 2) if points % radix == 0)
        radices.append(4 if points % 4 == 0 else 2 if points % 2 == 0 else next(odd, points))
        points //= radices[-1]
    return radices


def fft_roots(size: int) -> Tensor:
    """Returns the roots of unity for transforms of `size` numbers, in the order of kernels/portable/fft.h."""
    points = size if size % 2 else size // 2
    turns = []
    for radix in fft_radices(size):
        if radix % 2:
            turns.append(torch.arange(radix, dtype=torch.float64) / radix)
        products = torch.outer(torch.arange(1, points // radix), torch.arange(1, radix)).flatten()
        turns.append(products.double() / points)
        points //= radix
    lengths = [torch.ones(len(part), dtype=torch.float64) for part in turns]
    if size % 2 == 0:
        turns.append(torch.arange(1, (size // 2 + 1) // 2, dtype=torch.float64) / size)
        lengths.append(torch.full((len(turns[-1]),), 0.5, dtype=torch.float64))
    if not turns:
        return torch.empty(0)
    return torch.view_as_real(torch.polar(torch.cat(lengths), -2 * math.pi * torch.cat(turns))).flatten().float()


def fft_work(size: int) -> int:
    """Returns the size of the kernel's scratch memory for transforms of `size` numbers: see kernels/portable/fft.h."""
    stages = len(fft_radices(size))
    if size % 2:
        return 4 * size if stages else 2
    return 2 * size + 2 * (stages % 2)


def _work(signal: Tensor, size: int) -> Tensor:
    return signal.new_empty(fft_work(size), dtype=torch.float32)


def _spectra(
    signal: Tensor, window: Tensor | None, size: int, hop: int, pad: int, reflect: int, count: int, onesided: int = 1
) -> Tensor:
    """Returns complex numbers, [signals, frequencies, count]."""
    padded = torch.nn.functional.pad(signal.float(), (pad, pad), mode="reflect" if reflect else "constant")
    missing = max(0, (count - 1) * hop + size - padded.shape[1])
    frames = torch.nn.functional.pad(padded, (0, missing)).unfold(1, size, hop)[:, :count]
    frames = frames if window is None else frames * window
    transform = torch.fft.rfft if onesided else torch.fft.fft
    return transform(frames, dim=2).transpose(1, 2)


def _absolute(spectra: Tensor, squared: int) -> Tensor:
    return spectra.real.square() + spectra.imag.square() if squared else spectra.abs()


def _in_order(x: Tensor, frames_first: int) -> Tensor:
    """Returns a result [signals, values, frames] in the requested order."""
    return (x.transpose(1, 2) if frames_first else x).contiguous()


# The dispatcher passes the numbers by the order of the schemas.
@torch.library.impl(_library, "stft", "CompositeExplicitAutograd")
def _stft(self: Tensor, window: Tensor | None, roots: Tensor, *numbers: int) -> tuple[Tensor, Tensor]:
    return torch.view_as_real(_spectra(self, window, *numbers).contiguous()), _work(self, numbers[0])


@torch.library.impl(_library, "spectrogram", "CompositeExplicitAutograd")
def _spectrogram(self: Tensor, window: Tensor | None, roots: Tensor, *numbers: int) -> tuple[Tensor, Tensor]:
    *transform, squared, frames_first = numbers
    return _in_order(_absolute(_spectra(self, window, *transform), squared), frames_first), _work(self, numbers[0])


@torch.library.impl(_library, "filtered_spectrogram", "CompositeExplicitAutograd")
def _filtered_spectrogram(
    self: Tensor, window: Tensor | None, roots: Tensor, bands: Tensor, weights: Tensor, *numbers: int
) -> tuple[Tensor, Tensor]:
    *transform, squared, frames_first = numbers
    spectra = _spectra(self, window, *transform)
    filters = torch.zeros(len(bands), spectra.shape[1])
    for row, (first, length), values in zip(filters, bands.tolist(), weights.split(bands[:, 1].tolist()), strict=True):
        row[first : first + length] = values
    return _in_order(filters @ _absolute(spectra, squared), frames_first), _work(self, numbers[0])


@torch.library.register_fake("torch_fusion::filtered_spectrogram", lib=_library)
def _fake_filtered_spectrogram(
    self: Tensor, window: Tensor | None, roots: Tensor, bands: Tensor, weights: Tensor, *numbers: int
) -> tuple[Tensor, Tensor]:
    *_, count, _, frames_first = numbers
    values = bands.shape[0]
    shape = (self.shape[0], count, values) if frames_first else (self.shape[0], values, count)
    return self.new_empty(shape, dtype=torch.float32), _work(self, numbers[0])
