"""NAME.elf of a torch_firmware: what is loaded where, and its symbols."""

import contextlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from elftools.common.exceptions import DWARFError, ELFError
from elftools.elf.elffile import ELFFile

from tools.quiet.console import UserError

# pyelftools has no one class for what is wrong with a file.
_NO_ELF = (ELFError, DWARFError, ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)


@contextlib.contextmanager
def opened_elf(path: Path) -> Iterator[ELFFile]:
    """Opens an image for a body that takes it apart.

    Raises:
        UserError: the file is missing, or the body met what no ELF has.
    """
    try:
        with path.open("rb") as file:
            yield ELFFile(file)
    except OSError as error:
        raise UserError(f"image {path}: {error.strerror}; build it first") from error
    except _NO_ELF as error:
        raise UserError(
            f"image {path} is no ELF file ({type(error).__name__}: {error}); pass the .elf of a torch_firmware target"
        ) from error


class Symbol(NamedTuple):
    """A symbol's name, address and size in bytes."""

    name: str
    address: int
    size: int
    is_function: bool


class ElfImage:
    """An image as the linker wrote it.

    Args:
        path: the .elf of a torch_firmware.

    Attributes:
        path: where it is.
        entry: address of its first instruction, with the Thumb bit.
        segments: what it puts into memory: addresses (physical, where initial values lie) and bytes.
        symbols: all of them, by name; of several of one name the last.

    Raises:
        UserError: the file is missing or no ELF.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with opened_elf(path) as elf:
            self.entry: int = elf["e_entry"]
            self.segments: list[tuple[int, bytes]] = [
                (segment["p_paddr"], segment.data())
                for segment in elf.iter_segments()
                if segment["p_type"] == "PT_LOAD" and segment["p_filesz"]
            ]
            table = elf.get_section_by_name(".symtab")
            self._all = [
                Symbol(symbol.name, symbol["st_value"], symbol["st_size"], symbol["st_info"]["type"] == "STT_FUNC")
                for symbol in (table.iter_symbols() if table else ())
            ]

    @cached_property
    def symbols(self) -> dict[str, Symbol]:
        """The symbols by their names."""
        return {symbol.name: symbol for symbol in self._all}

    def address(self, name: str) -> int | None:
        """The address of a symbol, by its whole name or the end of a mangled one."""
        if name in self.symbols:
            return self.symbols[name].address
        end = f"{len(name)}{name}E"
        return next((symbol.address for symbol in self._all if symbol.name.endswith(end)), None)

    def function_at(self, address: int) -> str | None:
        """The function that holds an address, as `name + 0x12`; None if there is none."""
        for symbol in self._all:
            # Bit 0 of a function's address marks Thumb code.
            start = symbol.address & ~1
            if symbol.is_function and start <= address < start + symbol.size:
                return f"{symbol.name} + {address - start:#x}"
        return None
