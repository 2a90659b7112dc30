"""Packed int8 layers: the head of their constant, and what their kernels rely on in it.

The layout is that of kernels/cortex_m/packed.h, to which tools/abi/layouts is held.
tools/pipeline/export/backends/cortex_m/pack.py writes it.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, ClassVar

from tools.abi.layouts.layouts import (
    INT4_BLOCK,
    MAX_DEPTHWISE_KERNEL,
    PACKED_ARRANGEMENTS,
    PACKED_KINDS,
    PACKED_LAYER,
    PACKED_LIMITS,
    PACKED_SHORT_SUM,
    PACKED_VERSION,
    SHIFTS,
)

SCALAR, MVE, DSP = (PACKED_ARRANGEMENTS[name] for name in ("Scalar", "Mve", "Dsp"))
CONVOLUTION, DEPTHWISE, LINEAR = (PACKED_KINDS[kind] for kind in ("Convolution", "Depthwise", "Linear"))
LINEAR_INT4, POINTWISE_INT4 = PACKED_KINDS["LinearInt4"], PACKED_KINDS["PointwiseInt4"]
GROUPED = PACKED_KINDS["Grouped"]
# Factors of a linear layer.
LINEAR_FACTORS = 4
# Channels that the depthwise kernel for MVE computes at a time.
_GROUP = 16
_MIN_SHIFT, _MAX_SHIFT = SHIFTS
# The largest stride of depthwise layers that are computed by columns.
_MAX_COLUMN_STRIDE = 7
# How the fields of PACKED_LAYER are encoded: bytes, words and pairs without a sign but for channels and numbers.
_ENCODING = "<4B2Hi8H4h"
assert struct.calcsize(_ENCODING) == sum(size for _, size in PACKED_LAYER.fields)


# How LinearFloats are encoded, in the place of kernel, stride, padding and dilation.
_FLOATS, _WINDOWS = "<2fh6x", "<8H"


def _flat(values: Sequence[Any]) -> list[int]:
    return [item for value in values for item in (value if isinstance(value, tuple) else (value,))]


def round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


@dataclass(frozen=True)
class Floats:
    """How a linear layer quantizes inputs and dequantizes outputs: LinearFloats of kernels/cortex_m/packed.h.

    Attributes:
      inverse_scale: the inputs'; 0 if these are integers.
      scale, zero_point: the outputs'; 0 if these are integers.
    """

    inverse_scale: float = 0
    scale: float = 0
    zero_point: int = 0

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Kernel, stride, padding and dilation of the head of such a layer."""
        words = struct.unpack(_WINDOWS, struct.pack(_FLOATS, self.inverse_scale, self.scale, self.zero_point))
        return tuple(zip(words[::2], words[1::2], strict=True))


@dataclass(frozen=True)
class Head:
    """The head of a packed constant: PackedLayer of kernels/cortex_m/packed.h, member by member."""

    arrangement: int
    kind: int
    is_wide: int
    in_channels: int
    group_size: int
    channels: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    input_zero_point: int
    output_offset: int
    min: int
    max: int

    SIZE: ClassVar[int] = struct.calcsize(_ENCODING)

    def pack(self) -> bytes:
        """The head's bytes."""
        return struct.pack(_ENCODING, PACKED_VERSION, *_flat(astuple(self)))

    @classmethod
    def unpack(cls, data: bytes) -> Head:
        """The head at the beginning of a packed constant."""
        version, *values = struct.unpack_from(_ENCODING, data)
        assert version == PACKED_VERSION
        pairs = [tuple(values[index : index + 2]) for index in range(6, 14, 2)]
        return cls(*values[:6], *pairs, *values[14:])

    @property
    def floats(self) -> Floats:
        """The numbers of a linear layer."""
        words = _flat((self.kernel, self.stride, self.padding, self.dilation))
        return Floats(*struct.unpack(_FLOATS, struct.pack(_WINDOWS, *words)))

    @property
    def taps(self) -> int:
        """Elements of the kernel."""
        return 1 if self.kind in (LINEAR, LINEAR_INT4) else self.kernel[0] * self.kernel[1]

    @property
    def is_depthwise(self) -> bool:
        return self.kind == DEPTHWISE

    @property
    def is_int4(self) -> bool:
        """Whether the weights have four bits."""
        return self.kind in (LINEAR_INT4, POINTWISE_INT4)

    @property
    def can_be_depthwise(self) -> bool:
        """Whether DEPTHWISE layers can be so: takes_depthwise() of packed_depthwise.h."""
        if self.kernel[0] > MAX_DEPTHWISE_KERNEL or self.channels % self.in_channels:
            return False
        is_plain = self.channels == self.in_channels and self.dilation == (1, 1)
        fits = self.in_channels % 4 == 0 if self.arrangement == MVE else self.in_channels >= 4
        return fits and (is_plain or self.arrangement == DSP)

    @property
    def can_be_grouped(self) -> bool:
        """Whether GROUPED layers can be so: takes_grouped() of packed_layers.h."""
        if self.arrangement == MVE or not self.group_size or self.group_size % 4 or self.in_channels % self.group_size:
            return False
        is_even = self.channels % (2 * (self.in_channels // self.group_size)) == 0
        return is_even and self.kernel[0] * self.kernel[1] * self.group_size <= PACKED_SHORT_SUM

    @property
    def is_channelwise(self) -> bool:
        """Whether each output of a depthwise layer is of one input: as is_channelwise() of channelwise.h."""
        is_one = self.kernel == self.stride == (1, 1) and self.padding == (0, 0) and self.channels == self.in_channels
        return self.is_depthwise and self.arrangement != MVE and not self.is_wide and is_one

    @property
    def is_by_columns(self) -> bool:
        """Whether the kernel for DSP computes a depthwise layer by columns, four channels after four."""
        return self.is_depthwise and self.arrangement == DSP and not self.is_channelwise

    @property
    def is_three_by_three(self) -> bool:
        """Whether a layer by columns is computed by ThreeByThree: is_three_by_three() of packed_depthwise.cpp."""
        is_usual = self.kernel == (3, 3) and self.stride[1] <= _MAX_COLUMN_STRIDE and self.channels < 1 << 16
        is_plain = self.dilation == (1, 1) and self.channels == self.in_channels and not self.is_wide
        return self.is_by_columns and is_usual and is_plain

    @property
    def has_short_sums(self) -> bool:
        """Whether kernels add up the products of any layer at once, as has_short_sums() of packed_layers.cpp says."""
        return self.arrangement != DSP or self.group_size != 0 or round_up(self.inner, 4) <= PACKED_SHORT_SUM

    @property
    def inner(self) -> int:
        """Products per output."""
        inputs = 1 if self.is_depthwise else self.group_size if self.kind == GROUPED else self.in_channels
        return self.taps * inputs

    @property
    def group(self) -> int:
        """Channels that the depthwise kernel computes at a time."""
        return _GROUP if self.arrangement == MVE else 4

    @property
    def table_channels(self) -> int:
        """Channels that tables have room for."""
        if self.is_int4:
            return round_up(self.channels, 4)
        return round_up(self.channels, self.group if self.is_depthwise and self.arrangement == MVE else 2)

    @property
    def factors(self) -> int:
        """Multipliers: one per channel, or copies of the one of a linear layer."""
        return LINEAR_FACTORS if self.kind == LINEAR else self.table_channels

    @property
    def tables(self) -> tuple[int, int, int]:
        """Returns the offsets of multipliers, shifts and weights."""
        multipliers = self.SIZE + 4 * self.table_channels
        shifts = multipliers + 4 * self.factors
        return multipliers, shifts, shifts + round_up(self.factors, 4)

    @property
    def weight_bytes(self) -> int:
        """Bytes of weights, and with those of four bits of their factors."""
        if self.is_int4:
            inner = self.inner if self.arrangement == MVE else round_up(self.inner, 8)
            factors = -(-self.inner // INT4_BLOCK) if self.group_size else 0
            return self.table_channels * ((inner + 1) // 2 + factors)
        if self.is_depthwise:
            return round_up(self.in_channels, 4) * (self.channels // self.in_channels) * self.inner
        if self.arrangement == MVE:
            return self.channels * self.inner + -self.inner % 16
        return self.table_channels * round_up(self.inner, 4)


def describe(head: Head) -> str:
    """Describes a packed layer in one line for a person."""
    channels = f"{head.in_channels} to {head.channels}"
    if head.kind in (LINEAR, LINEAR_INT4):
        layer = f"linear layer, {channels} features"
    else:
        layer = f"{'depthwise ' if head.is_depthwise else ''}convolution, {channels} channels"
        if head.kind == GROUPED:
            layer += f", {head.in_channels // max(head.group_size, 1)} groups"
        for name, pair, usual in (
            ("kernel", head.kernel, None),
            ("stride", head.stride, (1, 1)),
            ("padding", head.padding, (0, 0)),
            ("dilation", head.dilation, (1, 1)),
        ):
            if pair != usual:
                layer += f", {name} {pair[0]}x{pair[1]}"
    return f"{'int4' if head.is_int4 else 'int8'} {layer}"


def problem_of(data: bytes) -> str | None:
    """Returns what is wrong in a packed constant that is linked, where nothing checks it again; None if nothing is.

    It is what open_packed() and check_contents() of kernels/cortex_m/packed.cpp refuse when a program is loaded, and
    what a layer's kernel does not compute. A padding that gives scratch memory no size and an empty range of outputs
    harm nothing there. What else there is to check the kernel checks at each call.
    """
    if len(data) < Head.SIZE or data[0] != PACKED_VERSION:
        return "it is no packed layer of this version"
    head = Head.unpack(data)
    if head.arrangement not in PACKED_ARRANGEMENTS.values() or head.kind not in PACKED_KINDS.values():
        return "it is no packed layer of this version"
    problem = problem_of_head(head)
    if problem is not None:
        return problem
    _, shifts_at, weights_at = head.tables
    count = weights_at - shifts_at
    shifts = struct.unpack(f"<{count}b", data[shifts_at:weights_at].ljust(count, b"\0"))
    least = 0 if head.arrangement != MVE and not head.is_wide else _MIN_SHIFT
    if any(not least <= shift <= _MAX_SHIFT for shift in shifts):
        return "a shift is out of range"
    if len(data) < weights_at + head.weight_bytes:
        return "it is too short for its weights"
    return None


def problem_of_head(head: Head) -> str | None:
    """Returns what is wrong in the head of a packed constant: a limit that a device checks, or no kernel."""
    if not _are_within((head.channels, head.in_channels), "Size"):
        return "its sizes are out of range"
    if head.is_int4 and (head.is_wide or head.group_size not in (0, INT4_BLOCK)):
        return "its groups of int4 weights have no size that there is"
    if not head.is_int4 and head.kind != LINEAR:
        windows = (*head.kernel, *head.stride, *head.dilation, *(padding or 1 for padding in head.padding))
        if not _are_within(windows, "Window") or not _are_within((math.prod(head.kernel),), "Size"):
            return "its kernel, stride, padding or dilation is out of range"
        if head.kind == GROUPED and not head.can_be_grouped:
            return "its groups are none that its kernel computes"
        if head.is_depthwise and not head.can_be_depthwise:
            return "its channels, kernel or dilation are none that its kernel computes"
        if any(padding * head.in_channels >= 1 << 25 for padding in head.padding):
            return "its padding is out of range"
    if not _are_within((head.inner,), "Inner"):
        return "its products are too many"
    if not -128 <= head.min <= head.max <= 127:
        return "the range of its outputs is empty, or not within int8"
    return None


def _are_within(values: Sequence[int], limit: str) -> bool:
    return all(0 < value <= PACKED_LIMITS[limit] for value in values)
