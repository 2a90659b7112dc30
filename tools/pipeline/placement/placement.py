"""Places buffers with limited lifetimes into one block of memory of minimal size."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

# The limit for tried placements, in comparisons of two buffers: some tenths of a second of Python.
EFFORT = 200_000


@dataclass(frozen=True)
class Buffer:
    """A buffer that is live from instruction `first` to instruction `last`, both included.

    Attributes:
      kept: the number of bytes at its beginning that are live from `kept_first` to `kept_last`, too.
    """

    nbytes: int
    alignment: int
    first: int
    last: int
    kept: int = 0
    kept_first: int = 0
    kept_last: int = -1

    def spans(self) -> list[tuple[int, int, int]]:
        """Returns the first instruction, the last one and the bytes of each part."""
        found = [(self.first, self.last, self.nbytes)]
        return [*found, (self.kept_first, self.kept_last, self.kept)] if self.kept else found

    def live(self, place: int) -> int:
        """Returns the bytes that are live at an instruction."""
        return max((nbytes for first, last, nbytes in self.spans() if first <= place <= last), default=0)


@dataclass(frozen=True)
class Lead:
    """The distance by which a result must begin before the operand that it overlaps.

    Attributes:
      nbytes: the minimum; negative if the result may begin after the operand.
      step: the distance must be a multiple of this plus `phase`.
      phase: less than `step`.
    """

    nbytes: int
    step: int = 1
    phase: int = 0

    def allows(self, distance: int) -> bool:
        """Whether a result may begin so many bytes before its operand."""
        return distance >= self.nbytes and distance % self.step == self.phase

    def moved(self, offset: int) -> Lead:
        """Returns the lead of buffers in which the result is `offset` bytes further from the start than the operand."""
        return Lead(self.nbytes + offset, self.step, (self.phase + offset) % self.step)


@dataclass(frozen=True)
class Overlap:
    """Permission for a result to overlap an operand of the instruction that writes it.

    An instruction that reads its operand in about the order in which it writes the result doesn't need memory for both,
    if writing stays behind reading.

    Attributes:
      result: the index of the buffer whose life begins at the instruction.
      operand: the index of the buffer whose life ends there.
      lead: the lead of the result over the operand.
    """

    result: int
    operand: int
    lead: Lead


@dataclass(frozen=True)
class MemoryPlan:
    """The placement of buffers.

    Attributes:
      offsets: the offset of each buffer, in bytes.
      nbytes: the size of the block.
      lower_bound: the most bytes that are live at once; no plan is smaller.
    """

    offsets: list[int]
    nbytes: int
    lower_bound: int


def plan_memory(buffers: Sequence[Buffer], overlaps: Sequence[Overlap] = (), effort: int = EFFORT) -> MemoryPlan:
    """Places the buffers so that buffers that are live at once do not overlap, except as permitted.

    Buffers are placed in various orders, each buffer at the lowest free offset. Decreasing size is a good order and
    mostly optimal. Where it misses the lower bound, random changes of the order (with a fixed seed, so that the same
    buffers give the same plan) are kept as long as they do not make it worse. `effort` limits them, in comparisons of
    two buffers.
    """
    return _plan_memory(tuple(buffers), tuple(overlaps), effort)


# A program is planned several times, mostly with the same buffers.
@lru_cache(maxsize=16)
def _plan_memory(buffers: tuple[Buffer, ...], overlaps: tuple[Overlap, ...], effort: int) -> MemoryPlan:
    lower_bound = live_bytes(buffers, overlaps)
    neighbours = _neighbours(buffers, overlaps)
    indices = range(len(buffers))
    orders = [
        sorted(indices, key=lambda i: (-buffers[i].nbytes, buffers[i].first)),
        sorted(
            indices, key=lambda i: (-buffers[i].nbytes * (buffers[i].last - buffers[i].first + 1), buffers[i].first)
        ),
        sorted(indices, key=lambda i: (buffers[i].first, -buffers[i].nbytes)),
        # Results that overlap their operands begin before them, and buffers that are live beside both are placed last.
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
    for _ in range(effort // cost if len(buffers) > 2 else 0):
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
    """Returns the most bytes that are live at once, without the gaps that alignment may need."""
    shared: dict[int, int] = {}
    for overlap in overlaps:
        result, operand = buffers[overlap.result], buffers[overlap.operand]
        both = max(result.nbytes, operand.nbytes + max(overlap.lead.nbytes, 0))
        saved = result.nbytes + operand.nbytes - both
        shared[result.first] = max(shared.get(result.first, 0), saved)
    return max(
        (
            sum(buffer.live(start) for buffer in buffers) - shared.get(start, 0)
            for start in {first for buffer in buffers for first, _, _ in buffer.spans()}
        ),
        default=0,
    )


@dataclass
class _Neighbours:
    """The constraints between a buffer at offset x and each other buffer j at offset y.

    Attributes:
      conflicts: (j, low, high): not low < x - y < high.
      steps: (j, low, high, step, phase): if low < x - y < high, then (x - y) % step == phase.
    """

    conflicts: list[tuple[int, int, int]]
    steps: list[tuple[int, int, int, int, int]]


def _neighbours(buffers: Sequence[Buffer], overlaps: Sequence[Overlap]) -> list[_Neighbours]:
    leads = {(overlap.result, overlap.operand): overlap.lead for overlap in overlaps}
    neighbours: list[_Neighbours] = []
    for i, one in enumerate(buffers):
        found = _Neighbours([], [])
        for j, other in enumerate(buffers):
            together = [
                (mine, theirs)
                for first, last, mine in one.spans()
                for other_first, other_last, theirs in other.spans()
                if first <= other_last and other_first <= last
            ]
            if j == i or not together:
                continue
            low, high = -max(mine for mine, _ in together), max(theirs for _, theirs in together)
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
    """Returns the size of the block and the offsets; gives up as soon as the size exceeds the limit."""
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
