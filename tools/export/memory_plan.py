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


def plan_memory(buffers: Sequence[Buffer]) -> MemoryPlan:
    """Places the buffers so that two that live at once do not overlap.

    Buffers are placed one after another, each at the lowest free offset; what differs is the order. Large ones first is
    good and mostly optimal; where it misses the lower bound, random moves in the order (of a fixed seed, so that the
    same buffers give the same plan) are kept as long as they do not make it worse.
    """
    lower_bound = live_bytes(buffers)
    neighbours = [
        [j for j, other in enumerate(buffers) if j != i and one.first <= other.last and other.first <= one.last]
        for i, one in enumerate(buffers)
    ]
    indices = range(len(buffers))
    orders = [
        sorted(indices, key=lambda i: (-buffers[i].nbytes, buffers[i].first)),
        sorted(
            indices, key=lambda i: (-buffers[i].nbytes * (buffers[i].last - buffers[i].first + 1), buffers[i].first)
        ),
        sorted(indices, key=lambda i: (buffers[i].first, -buffers[i].nbytes)),
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


def live_bytes(buffers: Sequence[Buffer]) -> int:
    """The most bytes that live at once, without the gaps that alignment may need."""
    starts = {buffer.first for buffer in buffers}
    return max((sum(b.nbytes for b in buffers if b.first <= start <= b.last) for start in starts), default=0)


def _place(buffers: Sequence[Buffer], neighbours: list[list[int]], order: Sequence[int]) -> tuple[int, list[int]]:
    offsets = [-1] * len(buffers)
    size = 0
    for index in order:
        buffer = buffers[index]
        taken = sorted((offsets[n], offsets[n] + buffers[n].nbytes) for n in neighbours[index] if offsets[n] >= 0)
        offset = 0
        for start, end in taken:
            if offset + buffer.nbytes <= start:
                break
            offset = max(offset, -(-end // buffer.alignment) * buffer.alignment)
        offsets[index] = offset
        size = max(size, offset + buffer.nbytes)
    return size, offsets
