"""Defines a model of a chip. Each is a module of boardsim/chips, found by its name."""

from typing import ClassVar

from boardsim.address_map import AddressMap
from boardsim.memory import Memory
from boardsim.peripheral import Host


class Chip:
    """A model of a chip: it adds its memories and peripherals to the machine that it is made for.

    A subclass adds them after this has been made, flash with add_flash().

    Args:
        machine: the machine to build it into.
        options: those of `simulator` in the board's definition.

    Attributes:
        ADDRESS_MAP: the peripherals at its addresses, beside the model's.
        RESET_CLOCK_HZ: the core's frequency after a reset.
        SYSRESETREQ_IS_CORE_ONLY: whether AIRCR.SYSRESETREQ leaves the peripherals as they are.
        VECTOR_TABLE: VTOR after a reset.
        VECTOR_TABLE_ALIGNMENT: bytes; VTOR has to be a multiple of them.
        EMPTY: a note on flash without an image at `address`.
        flash_memory: the contents of its flash.
        image: the offset in flash of the image's vector table.
    """

    ADDRESS_MAP: ClassVar[AddressMap]
    RESET_CLOCK_HZ: ClassVar[int]
    SYSRESETREQ_IS_CORE_ONLY = False
    VECTOR_TABLE = 0
    VECTOR_TABLE_ALIGNMENT: ClassVar[int]
    EMPTY = "flash is empty at {address:#010x}: there is nothing to start"

    flash_memory: Memory
    image = 0

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        self._machine = machine

    def add_flash(self, base: int, size: int, aliases: tuple[int, ...] = ()) -> None:
        """Adds flash that is erased."""
        self.flash_memory = self._machine.add_memory("flash", base, size, aliases=aliases, writable=False)
        self.flash_memory.data[:] = b"\xff" * size

    def boot(self) -> tuple[int, int] | None:
        """Starts the chip after a reset; returns the initial stack pointer and the entry, or None, with a note, if
        there is no image that the chip starts.
        """
        start = self.flash_memory.vectors(self.image)
        if start is None:
            self._machine.note(self.EMPTY.format(address=self.flash_memory.base + self.image))
        return start

    def flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Handles a store to a memory that was added as not writable; its contents are as before the store."""
        self._machine.note(f"{memory.name} was written at offset {offset:#x} as if it were RAM: nothing happened")

    def power_lost(self) -> None:
        """Handles the loss of power: a piece that was being erased or programmed is left neither old nor new."""

    def coprocessor(self, first: int, second: int) -> bool:
        """Executes an instruction of a coprocessor of the chip's own, given by its half-words; False if it is none."""
        return False
