"""Defines a model of a chip. Each is a module of boardsim/chips, found by its name."""

from typing import ClassVar, Protocol

from boardsim.address_map import AddressMap
from boardsim.memory import Memory
from boardsim.peripheral import Host


class Chip(Protocol):
    """A model of a chip: it adds its memories and peripherals to the machine that it is made for.

    Attributes:
        ADDRESS_MAP: the peripherals at its addresses, beside the model's.
        RESET_CLOCK_HZ: the core's frequency after a reset.
        SYSRESETREQ_IS_CORE_ONLY: whether AIRCR.SYSRESETREQ leaves the peripherals as they are.
        VECTOR_TABLE: VTOR after a reset.
        VECTOR_TABLE_ALIGNMENT: bytes; VTOR has to be a multiple of them.
    """

    ADDRESS_MAP: ClassVar[AddressMap]
    RESET_CLOCK_HZ: ClassVar[int]
    SYSRESETREQ_IS_CORE_ONLY: ClassVar[bool]
    VECTOR_TABLE: ClassVar[int]
    VECTOR_TABLE_ALIGNMENT: ClassVar[int]

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        """Builds the chip into a machine; `options` are those of `simulator` in the board's definition."""

    def boot(self) -> tuple[int, int] | None:
        """Starts the chip after a reset; returns the initial stack pointer and the entry, or None, with a note, if
        there is no image that the chip starts.
        """

    def flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Handles a store to a memory that was added as not writable; its contents are as before the store."""

    def power_lost(self) -> None:
        """Handles the loss of power: a piece that was being erased or programmed is left neither old nor new."""

    def coprocessor(self, first: int, second: int) -> bool:
        """Executes an instruction of a coprocessor of the chip's own, given by its half-words; False if it is none."""
