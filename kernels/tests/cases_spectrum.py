"""Cases of spectra of signals."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import refused
from tools.pipeline.export.rewrite.spectra.spectrum_operators import fft_roots, fft_work

# Powers of two, products of all radices, odd numbers, primes.
_SIZES = (*range(1, 10), 15, 16, 17, 30, 31, 64, 105, 120, 243, 250, 400, 512)


def spectrum_cases() -> Iterator[Case]:
    """Transforms of frames: many sizes, windows, hops, forms of padding and of results."""
    for size in _SIZES:
        for windowed, onesided in ((False, True), (True, False)):
            window = torch.rand(size) if windowed else None
            yield from _cases(torch.randn(2, size + 7), window, size, 5, 0, False, 2, onesided)
    signal = torch.randn(2, 40)
    for pad, reflect in itertools.product((0, 1, 8), (False, True)):
        yield from _cases(signal, torch.hann_window(16), 16, 6, pad, reflect, 1 + (40 + 2 * pad - 16) // 6, True)
    # Frames that reach beyond the signal, none, no signals, empty ones.
    yield from _cases(signal, None, 64, 30, 3, False, 2, True)
    yield from _cases(signal, None, 16, 4, 0, False, 0, True)
    yield from _cases(torch.randn(0, 40), None, 16, 4, 0, False, 3, True)
    yield from _cases(torch.randn(2, 0), None, 16, 4, 2, False, 1, True)
    samples = torch.randint(-(2**15), 2**15, (2, 40), dtype=torch.int16)
    yield from _cases(samples, torch.hann_window(16) / 2**15, 16, 6, 8, True, 7, True)


def _cases(
    signal: torch.Tensor,
    window: torch.Tensor | None,
    size: int,
    hop: int,
    pad: int,
    reflect: bool,
    count: int,
    onesided: bool,
) -> Iterator[Case]:
    roots, bins = fft_roots(size), size // 2 + 1 if onesided else size
    frames = _frames(signal, size, hop, pad, reflect, count) * (1 if window is None else window)
    # Eager transforms no empty tensors.
    spectra = torch.fft.fft(frames.double()) if frames.numel() else frames.to(torch.complex128)
    spectra = spectra[..., :bins].transpose(1, 2)
    work = Out(torch.float32, (fft_work(size),))
    given = [signal, window, roots]
    numbers = [size, hop, pad, reflect, count]

    def case(name: str, arguments: list[Any], result: torch.Tensor) -> Case:
        result = result.float().contiguous()
        out = Out(torch.float32, tuple(result.shape))
        return Case(f"torch_fusion::{name}.out", [*arguments, out, work], [result, None])

    yield case("stft", [*given, *numbers, onesided], torch.view_as_real(spectra.contiguous()))
    for squared, frames_first in itertools.product((False, True), repeat=2):
        power = spectra.abs() ** 2 if squared else spectra.abs()
        flags = [squared, frames_first]
        ordered = power.transpose(1, 2) if frames_first else power
        yield case("spectrogram", [*given, *numbers, onesided, *flags], ordered)
        if not onesided:
            continue
        lengths = torch.tensor([1, 0, bins, min(3, bins - 1)])
        bands = torch.stack([torch.tensor([bins - 1, bins, 0, 1 if bins > 1 else 0]), lengths], 1)
        weights = torch.rand(int(lengths.sum()))
        filters = torch.zeros(len(bands), bins, dtype=torch.float64)
        for row, (first, length), values in zip(filters, bands.tolist(), weights.split(lengths.tolist()), strict=True):
            row[first : first + length] = values
        sums = filters @ power
        arguments = [*given, bands.int(), weights, *numbers, *flags]
        yield case("filtered_spectrogram", arguments, sums.transpose(1, 2) if frames_first else sums)


def _frames(signal: torch.Tensor, size: int, hop: int, pad: int, reflect: bool, count: int) -> torch.Tensor:
    """Returns [signals, count, size]; beyond the signal, samples are mirrored, then zero."""
    numbers = signal.float()
    if pad and reflect:
        numbers = torch.nn.functional.pad(numbers, (pad, pad), mode="reflect")
    elif pad:
        numbers = torch.nn.functional.pad(numbers, (pad, pad))
    missing = max(0, (count - 1) * hop + size - numbers.shape[1])
    return torch.nn.functional.pad(numbers, (0, missing)).unfold(1, size, hop)[:, :count]


def refused_spectrum_cases() -> Iterator[Case]:
    """Calls that no kernel may accept, with the error that says why."""
    size, bins = 16, 9
    work, out = Out(torch.float32, (fft_work(size),)), Out(torch.float32, (2, bins, 3, 2))
    given = [torch.randn(2, 40), torch.rand(size), fft_roots(size), size, 4, 2, True, 3, True, out, work]
    yield from refused(
        "torch_fusion::stft.out",
        given,
        InvalidArgument=[
            {0: torch.randn(80)}, {1: torch.rand(size - 1)}, {1: torch.rand(size).double()},
            {2: fft_roots(size)[1:]}, {3: 0}, {3: -16}, {3: 2**40}, {4: 0}, {5: -1}, {5: 40}, {7: -1}, {7: 12},
            {7: 2**33}, {9: Out(torch.float32, (2, bins, 4, 2))}, {9: Out(torch.int32, (2, bins, 3, 2))},
            {10: Out(torch.float32, (fft_work(size) - 1,))},
        ],
        NotSupported=[{0: torch.ones(2, 40, dtype=torch.int32)}],
    )  # fmt: skip
    for bands in ([[0, 10]], [[-1, 2]], [[9, 1]], [[2**31 - 1, 2]], [[0, -1]], [[0, 4]], [[0, 3, 1]]):
        filters = [torch.tensor(bands, dtype=torch.int32), torch.rand(3)]
        arguments = [*given[:3], *filters, *given[3:8], True, False, Out(torch.float32, (2, 1, 3)), work]
        yield Case("torch_fusion::filtered_spectrogram.out", arguments, error="InvalidArgument")
