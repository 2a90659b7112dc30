"""Who takes how much of an image's flash and RAM, from the ELF file and the linker's map."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from elftools.common.exceptions import ELFError
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from tools.board.board import Region
from tools.quiet.console import UserError

# Libraries of the toolchain; all that the C and C++ languages and arithmetic need.
_LIBC_ARCHIVES = re.compile(
    r"lib(c|c_nano|g|g_nano|m|gcc|stdc\+\+|stdc\+\+_nano|supc\+\+|supc\+\+_nano|nosys|rdimon)\.a$"
)

# The linker script's section of embedded programs; tools/embed appends to it.
_PROGRAM = ".program."
_EXAMPLE_SUFFIX = ".example"

# Prefix of the linker script's arenas.
_ARENA = ".arena."

_INPUT_SECTION = re.compile(r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S.*)$")
_LONG_NAME = re.compile(r"^ (\S+)$")
_OUTPUT_SECTION = re.compile(r"^([.\w/]\S*)(\s|$)")


@dataclass(frozen=True)
class Piece:
    """One input section: its name, the output section it went to, its size in bytes, and its object file."""

    name: str
    output: str
    size: int
    source: str


def owner(piece: Piece) -> str:
    """The part of the image that a piece of flash counts to."""
    if piece.name.startswith(_PROGRAM):
        return "example" if piece.name.endswith(_EXAMPLE_SUFFIX) else "program"
    archive = piece.source.partition("(")[0]
    path = "/" + archive
    if _LIBC_ARCHIVES.search(PurePosixPath(archive).name) or re.search(
        r"/firmware/libc/|/crt(i|n|0|begin|end)\.o$", path
    ):
        return "libc"
    if "/firmware/boards/" in path or "/firmware/cortex_m/" in path:
        return "board"
    if "/runtime/" in path:
        return "runtime"
    # The registry is generated for each image; its object lies beside the application's.
    if "/kernels/" in path or re.search(r"registry(\.pic)?\.o$", piece.source.rstrip(")")):
        return "kernels"
    return "application"


def read_map(path: Path) -> list[Piece]:
    """Reads the input sections that ended up in the image from a map file of GNU ld.

    Raises:
        UserError: the file is missing or no map.
    """
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise UserError(f"map file {path}: {error.strerror}; link with -Wl,-Map={path.name}") from error
    _, found, body = text.partition("\nLinker script and memory map\n")
    if not found:
        raise UserError(f"map file {path} is no map of GNU ld; link with -Wl,-Map={path.name}")
    return list(_pieces(body))


def _pieces(body: str) -> Iterator[Piece]:
    output = ""
    name_before = ""
    for line in body.splitlines():
        # A name of 16 characters or more stands on a line of its own.
        if long_name := _LONG_NAME.match(line):
            name_before = long_name[1]
            continue
        if name_before and line.startswith("                "):
            line = f" {name_before} {line.lstrip()}"
        name_before = ""
        if found := _OUTPUT_SECTION.match(line):
            output = found[1]
        elif (found := _INPUT_SECTION.match(line)) and not found[1].startswith("*"):
            size = int(found[3], 16)
            if size:
                yield Piece(found[1], output, size, found[4])


@dataclass(frozen=True)
class Usage:
    """Bytes used of a memory, in all and by part, largest first; `alignment` is the rest."""

    used: int
    parts: dict[str, int]


def _usage(used: int, parts: Counter[str]) -> Usage:
    # A string that two objects share counts to the first; what such merging and alignment leave over is nobody's.
    parts["alignment"] = max(0, used - parts.total())
    return Usage(used, {name: size for name, size in parts.most_common() if size})


@dataclass(frozen=True)
class Image:
    """An image's flash and RAM."""

    flash: Usage
    ram: Usage


def measure(elf: Path, map_file: Path, flash: Region, ram: Region, constants: int) -> Image:
    """Measures an image.

    Args:
        elf, map_file: what the linker wrote.
        flash, ram: the board's memories; what starts in one counts to it, however far it reaches.
        constants: bytes of constant tensors in the program.

    Raises:
        UserError: a file is missing or of another kind.
    """
    pieces = read_map(map_file)
    try:
        with elf.open("rb") as file:
            image = ELFFile(file)
            segments = [segment for segment in image.iter_segments() if segment["p_type"] == "PT_LOAD"]
            flash_end = max(
                (s["p_paddr"] + s["p_filesz"] for s in segments if s["p_filesz"] and s["p_paddr"] >= flash.origin),
                default=flash.origin,
            )
            allocated = {
                section.name: section
                for section in image.iter_sections()
                if section["sh_flags"] & SH_FLAGS.SHF_ALLOC and section["sh_size"]
            }
    except OSError as error:
        raise UserError(f"image {elf}: {error.strerror}") from error
    except ELFError as error:
        raise UserError(f"image {elf} is no ELF file ({error})") from error

    in_ram = {
        name
        for name, section in allocated.items()
        if section["sh_addr"] >= ram.origin and (ram.origin > flash.origin or section["sh_addr"] < flash.origin)
    }
    ram_end = max((allocated[name]["sh_addr"] + allocated[name]["sh_size"] for name in in_ram), default=ram.origin)

    flash_parts: Counter[str] = Counter()
    for piece in pieces:
        # .data takes flash too: its initial values.
        if piece.output in allocated and (piece.output not in in_ram or piece.output == ".data"):
            flash_parts[owner(piece)] += piece.size
    program = flash_parts.pop("program", 0)
    flash_parts["weights"] = min(constants, program)
    flash_parts["program metadata"] = program - flash_parts["weights"]

    ram_parts: Counter[str] = Counter()
    for name in in_ram:
        if name.startswith(_ARENA):
            part = f"arena {name.removeprefix(_ARENA)}"
        else:
            part = "stack" if name == ".stack" else "data"
        ram_parts[part] += allocated[name]["sh_size"]
    return Image(_usage(flash_end - flash.origin, flash_parts), _usage(ram_end - ram.origin, ram_parts))
