"""Places buffers that live for a time into one block of memory, as small as possible."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

# Placements that are tried, as a number of comparisons of two buffers: some tenths of a second of Python.
_EFFORT = 200_000


@dataclass(frozen=True)
class Buffer:
    """Bytes that are needed from instruction `first` to instruction `last`, both included."""

    nbytes: int
    alignment: int
    first: int
    last: int


@dataclass(frozen=True)
class Overlap:
    """That a result may lie over an operand of the instruction that writes it.

    An instruction that reads its operand's bytes in about the order in which it writes the result's needs no memory for
    both, if writing stays behind reading.

    Attributes:
      result: index of the buffer that begins its life at the instruction.
      operand: index of the buffer that ends its life there.
      lead: the least number of bytes by which the result has to begin before the operand; negative for one by which it
        may begin behind.
    """

    result: int
    operand: int
    lead: int


@dataclass(frozen=True)
class MemoryPlan:
    """Where each buffer goes.

    Attributes:
      offsets: for each buffer, in bytes.
      nbytes: size of the block.
      lower_bound: the most bytes that live at once; no plan is smaller.
    """

    offsets: list[int]
    nbytes: int
    lower_bound: int


def plan_memory(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> MemoryPlan:
    """Places the buffers so that two that live at once do not overlap, or only as they may.

    Buffers are placed one after another, each at the lowest free offset; what differs is the order. Large ones first is
    good and mostly optimal; where it misses the lower bound, random moves in the order (of a fixed seed, so that the
    same buffers give the same plan) are kept as long as they do not make it worse.
    """
    lower_bound = live_bytes(buffers, overlaps)
    neighbours = _neighbours(buffers, overlaps)
    indices = range(len(buffers))
    orders = [
        sorted(indices, key=lambda i: (-buffers[i].nbytes, buffers[i].first)),
        sorted(
            indices, key=lambda i: (-buffers[i].nbytes * (buffers[i].last - buffers[i].first + 1), buffers[i].first)
        ),
        sorted(indices, key=lambda i: (buffers[i].first, -buffers[i].nbytes)),
        # Results that lie over their operands begin before them, and what is live beside both finds its place last.
        sorted(indices, key=lambda i: (-buffers[i].first, -buffers[i].nbytes)),
        sorted(indices, key=lambda i: (-buffers[i].nbytes, -buffers[i].first)),
    ]
    best: tuple[int, list[int], list[int]] | None = None
    for order in orders:
        size, offsets = _place(buffers, neighbours, order)
        if best is None or size < best[0]:
            best = size, offsets, order
    assert best is not None
    generator = random.Random(0)
    cost = len(buffers) + sum(len(n) for n in neighbours)
    for _ in range(_EFFORT // cost if len(buffers) > 2 else 0):
        if best[0] == lower_bound:
            break
        order = list(best[2])
        i, j = generator.randrange(len(order)), generator.randrange(len(order))
        order.insert(j, order.pop(i))
        size, offsets = _place(buffers, neighbours, order)
        if size <= best[0]:
            best = size, offsets, order
    return MemoryPlan(offsets=best[1], nbytes=best[0], lower_bound=lower_bound)


def live_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> int:
    """The most bytes that live at once, without the gaps that alignment may need."""
    shared: dict[int, int] = {}
    for overlap in overlaps:
        result, operand = buffers[overlap.result], buffers[overlap.operand]
        both = max(result.nbytes, operand.nbytes + max(overlap.lead, 0))
        saved = result.nbytes + operand.nbytes - both
        shared[result.first] = max(shared.get(result.first, 0), saved)
    return max(
        (
            sum(b.nbytes for b in buffers if b.first <= start <= b.last) - shared.get(start, 0)
            for start in {buffer.first for buffer in buffers}
        ),
        default=0,
    )


# (j, low, high): a buffer that begins at x conflicts with buffer j, which begins at y, if y + low < x < y + high.
_Conflicts = list[tuple[int, int, int]]


def _neighbours(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> list[_Conflicts]:
    leads = {(overlap.result, overlap.operand): overlap.lead for overlap in overlaps}
    neighbours: list[_Conflicts] = []
    for i, one in enumerate(buffers):
        found = []
        for j, other in enumerate(buffers):
            if j == i or one.first > other.last or other.first > one.last:
                continue
            low, high = -one.nbytes, other.nbytes
            if (i, j) in leads:
                low = max(low, -leads[i, j])
            if (j, i) in leads:
                high = min(high, leads[j, i])
            if low < high:
                found.append((j, low, high))
        neighbours.append(found)
    return neighbours


def _place(buffers: Sequence[Buffer], neighbours: list[_Conflicts], order: Sequence[int]) -> tuple[int, list[int]]:
    offsets = [-1] * len(buffers)
    size = 0
    for index in order:
        buffer = buffers[index]
        taken = sorted((offsets[n] + low, offsets[n] + high) for n, low, high in neighbours[index] if offsets[n] >= 0)
        offset = 0
        for low, high in taken:
            if offset > low:
                offset = max(offset, -(-high // buffer.alignment) * buffer.alignment)
        offsets[index] = offset
        size = max(size, offset + buffer.nbytes)
    return size, offsets
