"""Decoder of the weight streams of Ethos-U.

A stream is a sequence of slices, least significant bit first. A slice has a header (3 bits divisor of the zero runs'
Golomb-Rice code, 15 bits number of weights - 1, 3 bits divisor of the weights' code, 1 bit truncated code, 1 bit new
palette), a palette if it is new, and chunks: up to twelve unary parts of weights, as many of zero runs, and the
remainders of the chunk before. The format is that of `mlw_codec` in the source distribution of ethos-u-vela. Streams
come from a device's memory, so every bit pattern ends in weights or in an `NpuFault`.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from npu.fault import NpuFault

_END_OF_STREAM = 7
_NO_ZERO_RUNS = 6
_UNCOMPRESSED = 7
_CHUNK = 12
_POPULATION = [bin(value).count("1") for value in range(1 << _CHUNK)]

# A damaged stream of a few bytes can announce very many weights.
_MOST_WEIGHTS = 1 << 28


class _Bits:
    """Bits of a stream from a moving position; behind its end there are zeros."""

    def __init__(self, data: bytes) -> None:
        self.length = 8 * len(data)
        self.position = 0
        padded = np.frombuffer(data + bytes(16), np.uint8).astype(np.uint64)
        # The 32 bits from each byte on.
        self.words = (padded[:-8] | padded[1:-7] << 8 | padded[2:-6] << 16 | padded[3:-5] << 24) & 0xFFFFFFFF
        self._windows: list[int] = self.words.tolist()

    def get(self, count: int) -> int:
        """Returns the next bits, at most 24 of them."""
        position = self.position
        self.position = position + count
        if self.position > self.length:
            raise NpuFault(f"weight stream: it ends within a slice, at bit {self.length}")
        return (self._windows[position >> 3] >> (position & 7)) & ((1 << count) - 1)

    def fields(self, starts: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.int64]:
        """Returns the fields of `width` bits, at most 24, at the bit positions `starts`."""
        return ((self.words[starts >> 3] >> (starts & 7).astype(np.uint64)) & ((1 << width) - 1)).astype(np.int64)


@dataclass
class _Palette:
    values: list[int] = field(default_factory=list)
    direct_offset: int = 0
    bits: int = 2


@dataclass
class _Symbols:
    """Golomb-Rice symbols of a slice, gathered chunk by chunk."""

    wanted: int
    divisor: int
    found: int = 0
    read: int = 0
    remainders: list[tuple[int, int]] = field(default_factory=list)

    def values(self, bits: _Bits, quotients: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        if self.divisor == 0 or self.wanted == 0:
            return quotients[: self.wanted]
        runs = np.array(self.remainders, np.int64).reshape(-1, 2)
        counts = runs[:, 1]
        within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        starts = np.repeat(runs[:, 0], counts) + within * self.divisor
        return (quotients[: self.wanted] << self.divisor) + bits.fields(starts, self.divisor)


def _weight_quotients(chunks: list[tuple[int, int]], truncated: bool) -> npt.NDArray[np.int64]:
    """Returns the quotients that pairs of first and second unary words of a slice's chunks code, in order."""
    words = np.array(chunks, np.int64).reshape(-1, 2)
    first = (words[:, :1] >> np.arange(_CHUNK)) & 1
    rank = np.cumsum(first, axis=1) - first
    codes = (first * (1 + ((words[:, 1:] >> rank) & 1))).ravel()
    if truncated:
        return codes
    # A code of 2 continues in the next one.
    ends = np.flatnonzero(codes < 2)
    return np.diff(np.concatenate([[0], np.cumsum(codes)[ends]]))


def _run_quotients(chunks: list[int], length: int) -> npt.NDArray[np.int64]:
    """Returns the quotients of zero runs: the number of ones before each zero."""
    ones = ((np.array(chunks, np.int64)[:, None] >> np.arange(length)) & 1).ravel()
    ends = np.flatnonzero(ones == 0)
    return np.diff(np.concatenate([[0], np.cumsum(ones)[ends]]))


def _slice_weights(bits: _Bits, run_divisor: int, palette: _Palette) -> npt.NDArray[np.int64]:
    """Decodes one slice, whose first three bits are read already."""
    runs_coded = run_divisor != _NO_ZERO_RUNS
    if run_divisor > 3 and runs_coded:
        raise NpuFault(f"weight stream: {run_divisor} is a slice's divisor of zero runs; 0 to 3, 6 and 7 are defined")
    count = bits.get(15) + 1
    divisor = bits.get(3)
    truncated = bool(bits.get(1))
    new_palette = bool(bits.get(1))
    if new_palette:
        palette.direct_offset = bits.get(5)
        size = bits.get(5)
        palette.bits = bits.get(3) + 2
        palette.values = [bits.get(palette.bits) for _ in range(size + 1 if size else 0)]
    uncompressed = divisor == _UNCOMPRESSED
    if uncompressed:
        divisor = (len(palette.values) - 1).bit_length() if palette.values else palette.bits
    elif divisor > 5:
        raise NpuFault(f"weight stream: a slice has {divisor} as divisor of its weights; 0 to 5 and 7 are defined")

    weights = _Symbols(count, divisor)
    runs = _Symbols(count + new_palette if runs_coded else 0, run_divisor if runs_coded else 0)
    weight_chunks: list[tuple[int, int]] = []
    run_chunks: list[int] = []
    run_length = 12 if run_divisor < 3 else 8
    symbols = 8 if uncompressed and divisor > 5 else _CHUNK
    pending_weights = pending_runs = 0
    get = bits.get
    while True:
        # Either kind waits when it is ahead of the other.
        ahead = weights.found - runs.found if runs_coded else 0
        take_weights = ahead < 8 and weights.found < count
        take_runs = runs_coded and ahead >= 0 and runs.found < runs.wanted
        first = get(_CHUNK) if take_weights and not uncompressed else 0
        new_weights = new_runs = 0
        if take_runs:
            word = get(run_length)
            run_chunks.append(word)
            new_runs = run_length - _POPULATION[word]
            runs.found += new_runs
        if take_weights:
            second = get(_POPULATION[first]) if first else 0
            new_weights = symbols if truncated or uncompressed else symbols - _POPULATION[second]
            new_weights = min(new_weights, count - weights.found)
            weight_chunks.append((first, second))
            weights.found += new_weights
        if pending_weights and divisor:
            weights.remainders.append((bits.position, pending_weights))
            bits.position += pending_weights * divisor
        if pending_runs and run_divisor and runs_coded:
            taken = min(pending_runs, runs.wanted - runs.read)
            runs.read += taken
            runs.remainders.append((bits.position, taken))
            bits.position += taken * run_divisor
        if bits.position > bits.length:
            raise NpuFault(f"weight stream: it ends within a slice, at bit {bits.length}")
        pending_weights, pending_runs = new_weights, new_runs
        if not take_weights and not take_runs:
            break

    if uncompressed:
        indices = weights.values(bits, np.zeros(count, np.int64))
    else:
        indices = weights.values(bits, _weight_quotients(weight_chunks, truncated)[:count])
    table = np.array(palette.values, np.int64)
    coded = indices - len(table) + palette.direct_offset
    inside = indices < len(table)
    coded[inside] = table[indices[inside]]
    decoded = np.where(coded & 1, -(coded >> 1), coded >> 1)
    if not runs_coded:
        return decoded
    zeros = runs.values(bits, _run_quotients(run_chunks, run_length)[: runs.wanted])
    # With a new palette the first run precedes the first weight.
    leading = int(zeros[0]) if new_palette else 0
    following = zeros[1:] if new_palette else zeros
    total = leading + count + int(following.sum())
    if total > _MOST_WEIGHTS:
        raise NpuFault(f"weight stream: a slice of {total} weights")
    result = np.zeros(total, np.int64)
    result[leading + np.arange(count) + np.cumsum(following) - following] = decoded
    return result


def decode(stream: bytes) -> npt.NDArray[np.int16]:
    """Returns all weights of a stream, the zeros that fill it up included.

    Raises:
      NpuFault: The stream ends within a slice or has a value that the format doesn't define.
    """
    bits = _Bits(stream)
    palette = _Palette()
    parts: list[npt.NDArray[np.int64]] = []
    total = 0
    while bits.length - bits.position >= 3:
        run_divisor = bits.get(3)
        if run_divisor == _END_OF_STREAM:
            bits.position = -(-bits.position // 8) * 8
            continue
        parts.append(_slice_weights(bits, run_divisor, palette))
        total += len(parts[-1])
        if total > _MOST_WEIGHTS:
            raise NpuFault(f"weight stream: more than {_MOST_WEIGHTS} weights")
    return np.concatenate(parts).astype(np.int16) if parts else np.zeros(0, np.int16)
