"""Scaling is exact, by Python's integers."""

import numpy as np
import pytest

from npu.arithmetic import Rounding, count_leading_zeros, scale, wrap


def _exact(value: int, multiplier: int, shift: int, rounding: Rounding) -> int:
    if rounding in (Rounding.SYMMETRIC, Rounding.TRUNCATE_TO_ZERO):
        half = 1 << shift >> 1 if rounding is Rounding.SYMMETRIC else 0
        magnitude = (abs(value) * multiplier + half) >> shift
        return magnitude if value >= 0 else -magnitude
    rounder = 1 << shift >> 1
    if rounding is Rounding.TRUNCATE:
        rounder = 0
    elif rounding is Rounding.DOUBLE and shift > 31:
        rounder += (1 << 30) if value >= 0 else -(1 << 30)
    return (value * multiplier + rounder) >> shift


@pytest.mark.parametrize("rounding", Rounding)
@pytest.mark.parametrize("bits", [8, 20, 31, 40, 48])
def test_scale(rounding: Rounding, bits: int) -> None:
    generator = np.random.default_rng(bits)
    values = generator.integers(-(1 << (bits - 1)), 1 << (bits - 1), 200)
    multipliers = generator.integers(1, 1 << 31, 200)
    shifts = generator.integers(16, 63, 200)
    got = scale(values, multipliers, shifts, rounding)
    expected = [_exact(*map(int, case), rounding) for case in zip(values, multipliers, shifts, strict=True)]
    assert got.tolist() == expected


def test_small_shifts_of_large_products() -> None:
    values = np.array([1 << 40, -(1 << 40), 5, -5])
    got = scale(values, (1 << 31) - 1, 3, Rounding.NATURAL)
    # Far beyond 32 bits: only the sign is of interest, the activation clips.
    assert (got[:2] > 1 << 40).tolist() == [True, False]
    assert got[2:].tolist() == [_exact(value, (1 << 31) - 1, 3, Rounding.NATURAL) for value in (5, -5)]


def test_wrap_and_leading_zeros() -> None:
    assert wrap(np.array([127, 128, -129, 256]), 8).tolist() == [127, -128, 127, 0]
    # Sums of 16-bit activations are stored so.
    assert wrap(np.array([1 << 47, -(1 << 62)]), 64).tolist() == [1 << 47, -(1 << 62)]
    values = np.array([0, 1, 2, 0x7FFFFFFF, -1, 0x40000000, 0x3FFFFFFF])
    assert count_leading_zeros(values).tolist() == [32, 31, 30, 1, 0, 1, 2]
