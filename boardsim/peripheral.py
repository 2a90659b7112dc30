"""Defines a simulated peripheral: named 32-bit registers on a bus, which may lack its clock; and the part of the
machine that peripherals and a chip see.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from boardsim.clock import Alarm, Clock
from boardsim.cpu import Cpu
from boardsim.memory import Memories, Memory
from boardsim.serial import Terminal
from tools.artifacts.board.board import Board


class Interrupts(Protocol):
    """Wires to the interrupt controller and to the reset."""

    def set_line(self, interrupt: int, level: bool) -> None:
        """Raises or lowers a peripheral's interrupt line."""

    def request_reset(self, *, core_only: bool = False) -> None:
        """Resets the chip, or its core alone, after the current instruction."""


class Host(Protocol):
    """The part of the machine that a chip and its peripherals see.

    Attributes:
        board: the board, for what its definition says.
        cpu: the core.
        clock: simulated time.
        console: the terminal at the other end of the console's wires.
        memories: all memories that were added.
        interrupts: the interrupt controller.
    """

    board: Board
    cpu: Cpu
    clock: Clock
    console: Terminal
    memories: Memories

    @property
    def interrupts(self) -> Interrupts: ...

    def add_memory(
        self, name: str, base: int, size: int, *, aliases: Iterable[int] = (), writable: bool = True
    ) -> Memory:
        """Maps RAM (writable) or flash (written through Chip.flash_written()) at `base` and every alias; returns it."""

    def add_peripheral(self, peripheral: Peripheral) -> None:
        """Maps a peripheral's registers."""

    def note(self, text: str) -> None:
        """Keeps a sentence about a mistake of the firmware; once."""

    def lock_up(self, why: str) -> None:
        """Locks up the core, which cannot go on: DDI 0403E B1.5.15, "Unrecoverable exception cases"."""

    def bus_error(self, address: int) -> None:
        """Ends the write that a peripheral was given in an error. It reaches the core, for which the write is over by
        then, as an imprecise BusFault (DDI 0403E B1.5.14).

        Raises:
            BusError: the write was a debugger's.
        """

    def code_changed(self) -> None:
        """Forgets translated instructions; for whoever changes memory from outside the core."""


def torn(offset: int, data: bytes) -> bytes:
    """Returns a piece of flash that was being erased or programmed when power went: only some bits have changed."""
    return bytes(byte & (0x5A ^ (i * 37 & 0xFF)) for i, byte in enumerate(data, offset))


class FlashOperation:
    """The piece of flash that is being erased or programmed, if there is one.

    Args:
        machine: the machine that it is part of.
    """

    def __init__(self, machine: Host) -> None:
        self._machine = machine
        self._alarm = Alarm(machine.clock)
        # The memory, the offset and the new contents.
        self._piece: tuple[Memory, int, bytes] | None = None

    @property
    def busy(self) -> bool:
        """Returns whether there is one."""
        return self._piece is not None

    def begin(self, memory: Memory, offset: int, data: bytes, nanoseconds: float) -> None:
        """Finishes the piece before, and has a new one finished after some time."""
        self.finish()
        self._piece = (memory, offset, data)
        self._alarm.start(nanoseconds, self.finish)

    def finish(self) -> None:
        """Gives the piece its new contents."""
        if self._piece is not None:
            memory, offset, data = self._piece
            memory.data[offset : offset + len(data)] = data
            self._piece = None
            self._machine.code_changed()

    def power_lost(self) -> None:
        """Leaves the piece neither old nor new."""
        if self._piece is not None:
            memory, offset, data = self._piece
            memory.data[offset : offset + len(data)] = torn(offset, bytes(memory.data[offset : offset + len(data)]))
            self.drop()

    def drop(self) -> None:
        """Leaves the piece as it was."""
        self._piece = None
        self._alarm.cancel()


class Peripheral:
    """A block of registers.

    A subclass names its registers and overrides read() and write() for those that are more than memory. Offsets that
    have no name read as zero and ignore writes.

    Attributes:
        values: the registers' values, by offset.
        alarm: an action that the peripheral started; a reset drops it.

    Args:
        machine: the machine that it is part of.
        name: its name in the reference manual, such as `USART1`.
        base: address of its first register.
        size: bytes of address space it decodes.
    """

    #: Offset of each register -> its name in the reference manual.
    NAMES: Mapping[int, str] = {}
    #: Reset values that are not zero, by offset.
    RESET: Mapping[int, int] = {}
    #: Whether a write of a byte or half-word reaches the other bytes of the register, too, as on Arm's APB of the
    #: RP2350.
    NARROW_WRITES_REPLICATE = False

    def __init__(self, machine: Host, name: str, base: int, size: int = 0x400) -> None:
        self.machine = machine
        self.name = name
        self.base = base
        self.size = size
        self.values: dict[int, int] = {}
        self.alarm = Alarm(machine.clock)
        self.reset()

    def reset(self) -> None:
        """Takes every register to its value after a reset."""
        self.values = dict(self.RESET)
        self.alarm.cancel()

    def watchdog_expired(self) -> None:
        """Handles a watchdog that was not fed."""
        self.machine.note("the watchdog was not fed in time: it resets the chip")
        self.machine.interrupts.request_reset()

    def clocked(self) -> bool:
        """Returns whether the peripheral's clock is on; without it registers read as zero and ignore writes."""
        return True

    def read(self, offset: int) -> int:
        """Returns the word at an offset, as the core reads it, side effects included."""
        return self.values.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Writes the word at an offset."""
        if offset in self.NAMES:
            self.values[offset] = value

    def peek(self, offset: int) -> int:
        """Returns the word at an offset without the side effects of reading; for merging narrow writes."""
        return self.values.get(offset, 0)

    def register_name(self, offset: int) -> str:
        """Returns a register's name, such as `USART1_BRR`, or `USART1+0x44` for one without."""
        name = self.NAMES.get(offset & ~3)
        return f"{self.name}_{name}" if name else f"{self.name}+{offset & ~3:#x}"

    def bus_read(self, offset: int, size: int) -> int:
        """Reads `size` bytes (1, 2 or 4) for the core or a debugger."""
        if not self.clocked():
            self.machine.note(
                f"{self.register_name(offset)} was read while the clock of {self.name} is off: it reads as 0"
            )
            return 0
        word = self.read(offset & ~3)
        return word >> 8 * (offset & 3) & ((1 << 8 * size) - 1)

    def bus_write(self, offset: int, size: int, value: int) -> None:
        """Writes `size` bytes (1, 2 or 4) for the core or a debugger."""
        if not self.clocked():
            self.machine.note(
                f"{self.register_name(offset)} was written while the clock of {self.name} is off: nothing happened"
            )
            return
        if size < 4:
            mask = (1 << 8 * size) - 1
            if self.NARROW_WRITES_REPLICATE:
                value = (value & mask) * (0x01010101 if size == 1 else 0x00010001)
            else:
                shift = 8 * (offset & 3)
                value = self.peek(offset & ~3) & ~(mask << shift) | (value & mask) << shift
        self.write(offset & ~3, value & 0xFFFFFFFF)
