"""Weight streams are decoded as the format says; whatever the bytes are, the end is weights or a fault."""

import numpy as np
import pytest

from npu.assembler import BitWriter, encode_uncompressed
from npu.fault import NpuFault
from npu.weight_stream import decode


def test_uncompressed() -> None:
    weights = np.random.default_rng(1).integers(-255, 256, 1000)
    assert decode(encode_uncompressed(weights)).tolist() == weights.tolist()


def test_two_slices() -> None:
    stream = encode_uncompressed([1, -2, 3]) + encode_uncompressed([-4, 5])
    assert decode(stream).tolist() == [1, -2, 3, -4, 5]


def test_zero_runs_and_golomb_codes() -> None:
    """Weights 3, -1, 2 with runs of 2, 0, 1 and 1 zeros around them, by hand."""
    bits = BitWriter()
    bits.put(0, 3)  # runs by their unary part alone
    bits.put(2, 15)  # three weights
    bits.put(1, 3)  # one bit of remainder
    bits.put(0, 1)
    bits.put(1, 1)
    bits.put(0, 5)  # direct values from 0
    bits.put(0, 5)  # no palette
    bits.put(0, 3)
    # Magnitude and sign are 6, 3 and 4: quotients 3, 1 and 2, remainders 0, 1 and 0. A quotient of 2 or 3 is 2, which
    # goes on, and the rest: codes 2 1 | 1 | 2 0.
    bits.put(0b01111, 12)
    # The zero runs, ones up to a zero: 110 0 10 10.
    bits.put(0b01010011, 12)
    # Tells for each code above 0 whether it is 2.
    bits.put(0b1001, 4)
    # The zero runs' part has more zeros behind, which are no runs of this slice.
    for remainder in (0, 1, 0):
        bits.put(remainder, 1)
    bits.put(7, 3)
    bits.align()
    assert decode(bits.bytes()).tolist() == [0, 0, 3, -1, 0, 2, 0]


def test_palette() -> None:
    bits = BitWriter()
    for value, count in ((6, 3), (3, 15), (7, 3), (0, 1), (1, 1), (0, 5), (3, 5), (4, 3)):
        bits.put(value, count)
    for entry in (20, 41, 6, 0):
        bits.put(entry, 6)
    for index in (0, 1, 2, 3):
        bits.put(index, 2)
    bits.put(7, 3)
    assert decode(bits.bytes()).tolist() == [10, -20, 3, 0]


def test_an_empty_stream() -> None:
    assert decode(b"\xff" * 16).tolist() == []


def test_a_stream_that_is_cut_off() -> None:
    with pytest.raises(NpuFault, match="weight stream: it ends within a slice"):
        decode(encode_uncompressed(range(200))[:64])


def test_any_bytes() -> None:
    generator = np.random.default_rng(2)
    faults = 0
    for _ in range(300):
        try:
            decode(generator.integers(0, 256, 80).astype(np.uint8).tobytes())
        except NpuFault:
            faults += 1
    assert faults > 0
