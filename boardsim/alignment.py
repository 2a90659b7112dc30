"""Checks alignment, which the engine does not check.

Armv7-M Architecture Reference Manual (DDI 0403E), A3.2.1, "Alignment behavior", and for Armv8-M DDI 0553B: LDM, STM,
LDRD, STRD, LDREX, STREX, VLDR, VSTR, VLDM and VSTM fault unless their address is aligned, whatever CCR.UNALIGN_TRP
says; a plain LDR or STR does not. Looking at an instruction takes a hundred times as long as executing it, so all are
looked at in the beginning, and then some of every so many. (The engine's hooks on accesses to memory are of no use:
with them, 2.1.4 takes other branches than without.)
"""

import unicorn

from boardsim.cpu import Cpu
from boardsim.memory import Memories

# The first instructions of a machine's life are looked at, and from then on so many of every so many.
_FIRST = 200_000
_SOME, _EVERY = 5_000, 500_000
# The engine raises this exception for an aborted access.
_DATA_ABORT = 4


def base_register(first: int, second: int) -> tuple[int, int] | None:
    """Returns the register with the address that an instruction needs aligned, and the bits of it that must be zero.

    Encodings: DDI 0403E A5.2.6, A5.3.5 to A5.3.6 and A6.5. Pushes and pops are not among them: the stack
    pointer is always aligned.

    Args:
        first, second: the instruction's half-words; the second does not matter for instructions of one.
    """
    if first & 0xF000 == 0xC000:
        # LDM and STM of 16 bits.
        return first >> 8 & 7, 3
    if first & 0xFFE0 == 0xE8C0:
        # TBB, TBH; exclusive, and of Armv8-M also ordered, accesses, with their size in bits 5:4 and 3 in bits 7:6.
        size = second >> 4 & 3 if second >> 6 & 3 else 0
        return (first & 0xF, (1 << size) - 1) if size else None
    if first & 0xFE00 == 0xE800 or first & 0xFE00 == 0xEC00 and second & 0x0E00 == 0x0A00 and first & 0xFFE0 != 0xEC40:
        # These are multiple, dual and exclusive accesses, and the FPU's, but not its moves of two core registers.
        return first & 0xF, 3
    return None


def follows_it(halfwords: list[int]) -> bool:
    """Returns whether one of the four half-words before an instruction may be the IT that decides if it is executed."""
    return any(halfword & 0xFF00 == 0xBF00 and halfword & 0xF for halfword in halfwords)


class AlignmentCheck:
    """Makes instructions in flash or ROM fault if they need an aligned address and have an unaligned one.

    Args:
        cpu: the core.
        memories: the memories that it executes from; all must be there.
    """

    def __init__(self, cpu: Cpu, memories: Memories) -> None:
        self._cpu = cpu
        self._memories = memories
        self._hooks: list[int] = []
        # Maps an address to what base_register() returns; None also where nothing is to be checked.
        self._known: dict[int, tuple[int, int] | None] = {}

    def forget(self) -> None:
        """Forgets what it knows of the code, which has changed."""
        self._known.clear()

    def update(self) -> int:
        """Begins or ends looking; returns the number of instructions until this is to be called again."""
        count = self._cpu.instructions
        if count < _FIRST:
            on, ahead = True, _FIRST - count
        else:
            phase = count % _EVERY
            on = phase < _SOME
            ahead = (_SOME if on else _EVERY) - phase
        if on and not self._hooks:
            self._hooks = [
                self._cpu.engine.hook_add(unicorn.UC_HOOK_CODE, self._look, begin=base, end=base + memory.size - 1)
                for memory in self._memories
                if not memory.writable
                for base in (memory.base, *memory.aliases)
            ]
            self._cpu.retranslate()
        elif not on and self._hooks:
            for hook in self._hooks:
                self._cpu.engine.hook_del(hook)
            self._hooks.clear()
            self._cpu.retranslate()
        return ahead

    def _look(self, _engine: object, address: int, size: int, _data: object) -> None:
        try:
            needed = self._known[address]
        except KeyError:
            needed = self._known[address] = self._decode(address, size)
        if needed is None:
            return
        register, mask = needed
        if register != 15 and self._cpu.get(f"r{register}" if register < 13 else "sp") & mask:
            self._cpu.raise_exception(_DATA_ABORT)

    def _decode(self, address: int, size: int) -> tuple[int, int] | None:
        place = self._memories.at(address, size)
        if place is None:
            return None
        memory, offset = place
        start = max(0, offset - 8)
        raw = bytes(memory.data[start : offset + size]) + bytes(2)
        halfwords = [int.from_bytes(raw[i : i + 2], "little") for i in range(0, len(raw), 2)]
        before = (offset - start) // 2
        # An instruction in an IT block may not be executed, which is known only then.
        if follows_it(halfwords[:before]):
            return None
        return base_register(halfwords[before], halfwords[before + 1])
