"""Places buffers that live for a time into one block of memory, as small as possible."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
class Lead:
    """By how many bytes a result has to begin before the operand that it lies over.

    Attributes:
      nbytes: the least number; negative for one by which the result may begin behind.
      step: what the number, but for `phase`, has to be a multiple of.
      phase: less than `step`.
    """

    nbytes: int
    step: int = 1
    phase: int = 0

    def allows(self, distance: int) -> bool:
        """Whether a result may begin so many bytes before its operand."""
        return distance >= self.nbytes and distance % self.step == self.phase

    def moved(self, offset: int) -> Lead:
        """The lead of buffers in which the result begins `offset` bytes further than the operand does."""
        return Lead(self.nbytes + offset, self.step, (self.phase + offset) % self.step)


@dataclass(frozen=True)
class Overlap:
    """That a result may lie over an operand of the instruction that writes it.

    An instruction that reads its operand's bytes in about the order in which it writes the result's needs no memory for
    both, if writing stays behind reading.

    Attributes:
      result: index of the buffer that begins its life at the instruction.
      operand: index of the buffer that ends its life there.
      lead: of the result over the operand.
    """

    result: int
    operand: int
    lead: Lead


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
    return _plan_memory(tuple(buffers), tuple(overlaps))


# A program is planned several times, mostly for the same buffers.
@lru_cache(maxsize=16)
def _plan_memory(buffers: tuple[Buffer, ...], overlaps: tuple[Overlap, ...]) -> MemoryPlan:
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
    cost = len(buffers) + sum(len(n.conflicts) for n in neighbours)
    for _ in range(_EFFORT // cost if len(buffers) > 2 else 0):
        if best[0] == lower_bound:
            break
        order = list(best[2])
        i, j = generator.randrange(len(order)), generator.randrange(len(order))
        order.insert(j, order.pop(i))
        size, offsets = _place(buffers, neighbours, order, best[0])
        if size <= best[0]:
            best = size, offsets, order
    return MemoryPlan(offsets=best[1], nbytes=best[0], lower_bound=lower_bound)


def live_bytes(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = ()) -> int:
    """The most bytes that live at once, without the gaps that alignment may need."""
    shared: dict[int, int] = {}
    for overlap in overlaps:
        result, operand = buffers[overlap.result], buffers[overlap.operand]
        both = max(result.nbytes, operand.nbytes + max(overlap.lead.nbytes, 0))
        saved = result.nbytes + operand.nbytes - both
        shared[result.first] = max(shared.get(result.first, 0), saved)
    return max(
        (
            sum(b.nbytes for b in buffers if b.first <= start <= b.last) - shared.get(start, 0)
            for start in {buffer.first for buffer in buffers}
        ),
        default=0,
    )


@dataclass
class _Neighbours:
    """What a buffer that begins at x, and each buffer j, which begins at y, ask of each other.

    Attributes:
      conflicts: (j, low, high): not low < x - y < high.
      steps: (j, low, high, step, phase): if low < x - y < high, then that has the remainder `phase` divided by `step`.
    """

    conflicts: list[tuple[int, int, int]]
    steps: list[tuple[int, int, int, int, int]]


def _neighbours(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> list[_Neighbours]:
    leads = {(overlap.result, overlap.operand): overlap.lead for overlap in overlaps}
    neighbours: list[_Neighbours] = []
    for i, one in enumerate(buffers):
        found = _Neighbours([], [])
        for j, other in enumerate(buffers):
            if j == i or one.first > other.last or other.first > one.last:
                continue
            low, high = -one.nbytes, other.nbytes
            for lead, sign in ((leads.get((i, j)), -1), (leads.get((j, i)), 1)):
                if lead and lead.step > 1:
                    found.steps.append((j, -one.nbytes, other.nbytes, lead.step, sign * lead.phase % lead.step))
            if (i, j) in leads:
                low = max(low, -leads[i, j].nbytes)
            if (j, i) in leads:
                high = min(high, leads[j, i].nbytes)
            if low < high:
                found.conflicts.append((j, low, high))
        neighbours.append(found)
    return neighbours


def _place(
    buffers: Sequence[Buffer], neighbours: list[_Neighbours], order: Sequence[int], limit: float = math.inf
) -> tuple[int, list[int]]:
    """The size of the block and the offsets; gives up as soon as the size is above the limit."""
    offsets = [-1] * len(buffers)
    size = 0
    for index in order:
        buffer = buffers[index]
        conflicts = neighbours[index].conflicts
        taken = sorted((offsets[n] + low, offsets[n] + high) for n, low, high in conflicts if offsets[n] >= 0)
        offset, moved = -1, 0
        while moved != offset:
            offset = moved
            for low, high in taken:
                if offset > low:
                    offset = max(offset, -(-high // buffer.alignment) * buffer.alignment)
            moved = offset
            for n, low, high, step, phase in neighbours[index].steps:
                while offsets[n] >= 0 and low < moved - offsets[n] < high and (moved - offsets[n]) % step != phase:
                    moved += buffer.alignment
        offsets[index] = offset
        size = max(size, offset + buffer.nbytes)
        if size > limit:
            break
    return size, offsets
