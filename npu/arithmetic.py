"""Integer arithmetic of the NPU's output stage, on arrays of 64-bit integers."""

import enum
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from npu.fault import NpuFault

Integers: TypeAlias = npt.NDArray[np.int64]


class Rounding(enum.IntEnum):
    """Rounds the bits that a shift to the right loses; the encoding of OFM_PRECISION and IFM_PRECISION."""

    DOUBLE = 0  # To nearest, in two steps if the shift is above 31: TOSA's RESCALE with double_round.
    TRUNCATE = 1  # Towards minus infinity.
    NATURAL = 2  # To nearest, halves up: TOSA's RESCALE with single_round.
    SYMMETRIC = 3  # To nearest, halves away from zero. Ethos-U85, as the next.
    TRUNCATE_TO_ZERO = 4


def wrap(values: Integers, width: int) -> Integers:
    """Returns values modulo 2**width as signed integers."""
    if width == 64:
        return values
    half = 1 << (width - 1)
    return ((values + half) & ((1 << width) - 1)) - half


def scale(values: Integers, multiplier: int | Integers, shift: int | Integers, rounding: Rounding) -> Integers:
    """Returns values * multiplier / 2**shift, rounded; exact for values up to 48 bits and multipliers up to 32.

    Multiplier and shift are numbers, or arrays that broadcast with the values.
    """
    multiplier, shift = np.asarray(multiplier, np.int64), np.asarray(shift, np.int64)
    if rounding in (Rounding.SYMMETRIC, Rounding.TRUNCATE_TO_ZERO):
        nearest = Rounding.NATURAL if rounding is Rounding.SYMMETRIC else Rounding.TRUNCATE
        return np.sign(values) * scale(np.abs(values), multiplier, shift, nearest)
    below = np.maximum(shift - 1, 0)
    half = np.where(shift > 0, np.left_shift(np.int64(1), below), 0)
    if rounding is Rounding.TRUNCATE:
        rounder: Integers = np.zeros_like(half)
    elif rounding is Rounding.DOUBLE:
        second = np.where(shift > 31, np.int64(1) << 30, 0)
        rounder = half + np.where(values >= 0, second, -second)
    else:
        rounder = half
    largest = int(np.abs(values).max(initial=0)) * int(np.abs(multiplier).max(initial=0))
    if largest + int(np.abs(rounder).max(initial=0)) < 1 << 62:
        return (values * multiplier + rounder) >> shift
    # The product has up to 80 bits: 16 low bits of the values apart.
    high, low = values >> 16, values & 0xFFFF
    if int(shift.min()) < 16:
        wide = values.astype(object) * multiplier.astype(object) + rounder.astype(object)
        return np.asarray(np.clip(wide >> shift.astype(object), -(2**62), 2**62), np.int64)
    return (high * multiplier + ((low * multiplier + rounder) >> 16)) >> (shift - 16)


def count_leading_zeros(values: Integers) -> Integers:
    """Returns the leading zeros of values as words of 32 bits."""
    words = (values & 0xFFFFFFFF).astype(np.float64)
    return 32 - np.frexp(words)[1].astype(np.int64)


def looked_up(table: npt.NDArray, indices: Integers) -> npt.NDArray:
    """Returns a table's entries; raises NpuFault if an index has none."""
    if indices.min(initial=0) < 0 or indices.max(initial=0) >= len(table):
        raise NpuFault(f"ACTIVATION_MIN and ACTIVATION_MAX let through what the table of {len(table)} has no entry for")
    return table[indices]


def interpolate(values: Integers, table: npt.NDArray[np.uint32]) -> Integers:
    """Returns a table of 512 words (base in the lower half, slope in the upper) at 16-bit values, with linear steps."""
    entries = looked_up(table, (values + 0x8000) >> 7)
    base = wrap((entries & 0xFFFF).astype(np.int64), 16)
    slope = wrap((entries >> 16).astype(np.int64), 16)
    return base + ((slope * (values & 0x7F) + 64) >> 7)
