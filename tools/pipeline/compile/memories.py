"""Distributes buffers over several memories: what an inference accesses most often is in the fastest one."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from tools.pipeline.placement.placement import EFFORT, Buffer, MemoryPlan, Overlap, plan_memory


@dataclass(frozen=True)
class Distribution:
    """The memory of each buffer, and the plans of the memories, in their order.

    Attributes:
      members: the indices of each memory's buffers, in the order of its plan's offsets.
      plans: the plan of each memory.
      excess: the bytes that the last memory lacks.
      heat: the bytes that an inference accesses in each memory.
    """

    members: list[list[int]]
    plans: list[MemoryPlan]
    excess: int
    heat: list[int]


def distribute(
    buffers: Sequence[Buffer],
    overlaps: Sequence[Overlap],
    heat: Sequence[int],
    pinned: Collection[int],
    rooms: Mapping[str, int],
) -> Distribution:
    """Distributes buffers over memories, of which the last one gets what has no room in the others.

    Several orders are tried in which buffers choose. The result is the one that fits with the most accesses in the
    faster memories, or if none fits, the one that lacks the fewest bytes.

    Args:
      heat: the bytes that an inference reads and writes in each buffer.
      pinned: the buffers that must be in the last memory.
      rooms: the bytes of each memory by its name, the fastest one first.
    """
    free = [index for index in range(len(buffers)) if index not in pinned]
    # A plan's size depends on what is live at its peak.
    peak = max((buffer.first for buffer in buffers), key=lambda place: sum(b.live(place) for b in buffers), default=0)
    orders = [
        sorted(free, key=lambda i: (-heat[i] / max(buffers[i].nbytes, 1), -buffers[i].nbytes)),
        sorted(free, key=lambda i: -heat[i]),
        sorted(free, key=lambda i: -buffers[i].nbytes),
        sorted(free, key=lambda i: (-buffers[i].live(peak), -heat[i])),
    ]
    found = [_fill(buffers, overlaps, heat, order, pinned, list(rooms.values())) for order in orders]
    return min(found, key=lambda each: (each.excess, each.heat[-1]))


def _fill(
    buffers: Sequence[Buffer],
    overlaps: Sequence[Overlap],
    heat: Sequence[int],
    order: Sequence[int],
    pinned: Collection[int],
    rooms: Sequence[int],
) -> Distribution:
    """Fills one memory after the other with buffers in an order."""

    def plan(members: Sequence[int], effort: int) -> MemoryPlan:
        numbers = {index: number for number, index in enumerate(members)}
        inside = [
            replace(each, result=numbers[each.result], operand=numbers[each.operand])
            for each in overlaps
            if each.result in numbers and each.operand in numbers
        ]
        return plan_memory([buffers[index] for index in members], inside, effort)

    left = list(order)
    members: list[list[int]] = []
    for room in rooms[:-1]:
        taken: list[int] = []
        for index in left:
            if buffers[index].nbytes <= room and plan([*taken, index], 0).nbytes <= room:
                taken.append(index)
        left = [index for index in left if index not in taken]
        members.append(taken)
    members.append([*left, *pinned])
    # The others fit already.
    plans = [*(plan(each, 0) for each in members[:-1]), plan(members[-1], EFFORT)]
    return Distribution(
        members, plans, max(plans[-1].nbytes - rooms[-1], 0), [sum(heat[i] for i in each) for each in members]
    )
