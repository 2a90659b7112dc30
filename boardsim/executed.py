"""Records what a simulated core executes, from which tools/verify/cycles estimates cycles."""

from collections import Counter
from collections.abc import Iterator, Mapping

import unicorn

from boardsim.machine import Machine
from tools.verify.cycles.cycles import Block, Part, sum_blocks
from tools.verify.cycles.disassembly import Instruction
from tools.verify.cycles.timing import Timing

# DDI 0403E C1.8.8 and B3.3: the counters behind board_ticks(), DWT_CYCCNT and SYST_CVR.
_COUNTERS = frozenset({0xE0001004, 0xE000E018})


class Recorder:
    """Records the blocks of instructions that a core executes from now on, apart between reads of its cycle counter.

    Args:
        machine: the board; its bus records accesses to peripherals for it.
    """

    def __init__(self, machine: Machine) -> None:
        self._cpu, self._bus = machine.cpu, machine.bus
        self._bus.trace = True
        self._start, self._since = 0, self._cpu.instructions
        # A key is a stretch of a block: the block's start, the instructions before the stretch and in it, and the
        # address that was executed next, which is 0 for the rest of the same block.
        self._part: Counter[tuple[int, int, int, int]] = Counter()
        self._parts = [self._part]
        self._cpu.engine.hook_add(unicorn.UC_HOOK_BLOCK, self._begin)

    def _begin(self, _engine: unicorn.Uc, address: int, _size: int, _data: object) -> None:
        # The engine may leave a block before its end, so only the counter of instructions says what was executed of it.
        now, before = self._cpu.instructions, 0
        for access in self._bus.accesses:
            if access.address in _COUNTERS and not access.write:
                count = access.instructions - self._since
                self._part[self._start, before, count - before, 0] += 1
                self._part, before = Counter(), count
                self._parts.append(self._part)
        self._bus.accesses.clear()
        self._part[self._start, before, now - self._since - before, address] += 1
        self._start, self._since = address, now

    def parts(self, image: Mapping[int, Instruction], timing: Timing) -> list[Part]:
        """Returns what the core executed between reads of its counter.

        Args:
            image: the instructions of the image.
            timing: of the core.
        """
        return [sum_blocks(_blocks(part, image), image, timing) for part in self._parts]


def _blocks(part: Counter[tuple[int, int, int, int]], image: Mapping[int, Instruction]) -> Iterator[Block]:
    for (start, before, count, following), times in part.items():
        addresses = [start]
        for _ in range(before + count):
            known = image.get(addresses[-1])
            addresses.append(known.end if known else addresses[-1] + 2)
        if count > 0:
            yield tuple(addresses[before:-1]), following or addresses[-1], times
