"""Models memory of a board, and accesses that nothing answers."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


class BusError(Exception):
    """A debugger's access to an address where nothing answers."""


@dataclass
class Memory:
    """RAM or flash. `aliases` are further addresses of the same bytes."""

    name: str
    base: int
    #: An array of bytes of ctypes, whose slices take bytes, too, which its type does not say.
    data: Any
    writable: bool
    aliases: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.data)

    def offset(self, address: int) -> int | None:
        """Returns the offset in `data` of an address, by the base or an alias; None if it is elsewhere."""
        for base in (self.base, *self.aliases):
            if base <= address < base + self.size:
                return address - base
        return None

    def vectors(self, offset: int = 0) -> tuple[int, int] | None:
        """Returns the initial stack pointer and the entry of a vector table as a core does; None in erased flash."""
        stack, entry = (int.from_bytes(bytes(self.data[at : at + 4]), "little") for at in (offset, offset + 4))
        return None if stack == entry == 0xFFFFFFFF else (stack, entry)


class Memories(list[Memory]):
    """All memories of a board."""

    def at(self, address: int, size: int = 1) -> tuple[Memory, int] | None:
        """Returns the memory that holds `size` bytes at an address, and the offset there; None if it is not memory."""
        for memory in self:
            offset = memory.offset(address)
            if offset is not None and offset + size <= memory.size:
                return memory, offset
        return None

    def bytes_at(self, address: int, size: int) -> bytes | None:
        """Returns the bytes at an address; None if they are not all in one memory."""
        place = self.at(address, size)
        if place is None:
            return None
        memory, offset = place
        return bytes(memory.data[offset : offset + size])


def split(address: int, size: int) -> Iterable[tuple[int, int]]:
    """Yields aligned accesses of 4 bytes, and of 1 byte at the ends, that cover a range."""
    end = address + size
    while address < end:
        width = 4 if address % 4 == 0 and end - address >= 4 else 1
        yield address, width
        address += width
