"""Attributes an image's flash and RAM to its parts, from the ELF file and the linker's map."""

from __future__ import annotations

import bisect
import dataclasses
import itertools
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from elftools.dwarf.lineprogram import LineProgram
from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import Section

from tools.artifacts.board.board import Board, Region
from tools.artifacts.elf_image.elf_image import opened_elf
from tools.artifacts.size_report.size_report import Memory
from tools.pipeline.report.npu import NpuBytes
from tools.quiet.console import UserError

# Libraries of the toolchain: everything that the C and C++ languages and arithmetic need.
_LIBC_ARCHIVES = re.compile(
    r"lib(c|c_nano|g|g_nano|m|gcc|stdc\+\+|stdc\+\+_nano|supc\+\+|supc\+\+_nano|nosys|rdimon)\.a$"
)

# The linker script's section of embedded programs; tools/pipeline/link appends to it.
_PROGRAM = ".program."
_EXAMPLE_SUFFIX = ".example"

# Data of a model that was compiled to C++, in the namespace of its source (tools/pipeline/compile).
_MODEL_DATA = re.compile(r"\._ZN\d+\w+_modelL\d+")

# Prefix of the linker script's arenas.
_ARENA = ".arena."

# Replaces a folder: strings, which the optimiser merges, belong to no source.
_STRINGS = "strings"

# The objects that the link-time optimiser makes of all sources.
_LTO_OBJECT = re.compile(r"\.ltrans\d*(\.ltrans)?\.o$|\.lto\.o$")

_INPUT_SECTION = re.compile(r"^ (\S+)\s+0x([0-9a-f]+)\s+0x([0-9a-f]+)\s+(\S.*)$")
_LONG_NAME = re.compile(r"^ (\S+)$")
_OUTPUT_SECTION = re.compile(r"^([.\w/]\S*)(\s|$)")


@dataclass(frozen=True)
class Piece:
    """One input section: its name, its output section, its size in bytes, object file and address."""

    name: str
    output: str
    size: int
    source: str
    address: int = 0


def owner(piece: Piece, parts: Collection[str] = ()) -> str:
    """Returns the part of the image that a piece of flash belongs to.

    Args:
        piece: the piece.
        parts: names of further parts: folders that have their sources, or libraries.
    """
    if _MODEL_DATA.search(piece.name):
        return "program"
    if piece.name.startswith(_PROGRAM):
        return "example" if piece.name.endswith(_EXAMPLE_SUFFIX) else "program"
    archive = piece.source.partition("(")[0]
    path = "/" + archive
    if _LIBC_ARCHIVES.search(PurePosixPath(archive).name) or re.search(
        r"/firmware/libc/|/crt(i|n|0|begin|end)\.o$", path
    ):
        return "libc"
    library = PurePosixPath(archive).name.removeprefix("lib").removesuffix(".a")
    for part in parts:
        if part == library or f"/{part}/" in path:
            return part
    if path.startswith(f"/{_STRINGS}/"):
        return "strings"
    if "/firmware/ethos_u/" in path:
        return "NPU driver"
    if "/firmware/boards/" in path or "/firmware/cortex_m/" in path:
        return "board"
    if "/runtime/" in path or "/executorch/" in path:
        return "runtime"
    # The registry is generated for each image; its object is in the application's folder.
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
        # A name of 16 characters or more has its own line.
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
                yield Piece(found[1], output, size, found[4], int(found[2], 16))


def _data_folder(section: str) -> str:
    """Returns the folder of a data section by the namespace in its mangled name; "" if there is none."""
    if re.search(r"\.str\d+\.\d+$", section):
        return _STRINGS
    if "5torch8executor6native" in section:
        return "kernels"
    return "runtime" if "10executorch" in section or "11flatbuffers" in section else ""


class SourceFiles:
    """The source files of an image's code, from its debug information.

    Link-time optimisation makes one object of all sources, so that the map no longer tells where its sections come
    from.
    """

    def __init__(self, places: dict[int, str]) -> None:
        """`places` maps start addresses of code to its file."""
        self._addresses = sorted(places)
        self._files = [places[address] for address in self._addresses]

    @property
    def files(self) -> set[str]:
        """The files that the image has code of."""
        return set(self._files)

    @classmethod
    def of(cls, elf: Path) -> SourceFiles:
        """Reads those of an image's file.

        Raises:
            UserError: the file is missing or of another kind.
        """
        with opened_elf(elf) as image:
            return cls.read(image)

    @classmethod
    def read(cls, image: ELFFile) -> SourceFiles:
        """Reads the source files of an image; empty without debug information."""
        places: dict[int, str] = {}
        if image.has_dwarf_info():
            dwarf = image.get_dwarf_info()
            for unit in dwarf.iter_CUs():
                program = dwarf.line_program_for_CU(unit)
                if program is not None:
                    places.update(_line_places(program))
        return cls(places)

    def split(self, piece: Piece) -> Iterator[Piece]:
        """Splits a piece by the source files of its code, including those of inlined functions; other pieces stay
        whole.
        """
        if not _LTO_OBJECT.search(piece.source):
            yield piece
            return
        ranges = list(self.ranges(piece.address, piece.address + piece.size))
        if not piece.name.startswith(".text") or not ranges:
            yield dataclasses.replace(piece, source=f"{_data_folder(piece.name)}/{piece.source}")
            return
        for file, start, stop in ranges:
            yield dataclasses.replace(piece, source=file, address=start, size=stop - start)

    def ranges(self, start: int, end: int) -> Iterator[tuple[str, int, int]]:
        """Yields the files of the code in [start, end), each with the bounds of its code; none without line
        information.
        """
        first = bisect.bisect_left(self._addresses, start)
        last = bisect.bisect_left(self._addresses, end)
        if first < last:
            # Code before the first line belongs to it.
            starts = [start, *self._addresses[first + 1 : last], end]
            for file, (begin, stop) in zip(self._files[first:last], itertools.pairwise(starts), strict=True):
                yield file, begin, stop


def _line_places(program: LineProgram) -> Iterator[tuple[int, str]]:
    """Yields addresses of a line table with the path of their file."""
    version = program.header["version"]
    files, folders = program.header["file_entry"], program.header["include_directory"]
    paths = []
    for entry in files:
        # Version 5 counts from 0; before, folder 0 is the compiler's own and files count from 1.
        index = entry.dir_index if version >= 5 else entry.dir_index - 1
        folder = folders[index] if 0 <= index < len(folders) else b""
        paths.append(f"{_text(folder)}/{_text(entry.name)}")
    for entry in program.get_entries():
        state = entry.state
        index = (state.file if version >= 5 else state.file - 1) if state else -1
        if state and not state.end_sequence and 0 <= index < len(paths):
            yield state.address, paths[index]


def _text(value: bytes | str) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _without_overlap(pieces: Iterable[Piece]) -> Iterator[Piece]:
    """Yields the pieces, each truncated at the start of the next one in its output section.

    The map has the sizes of strings before the linker merges them.
    """
    ordered = sorted(pieces, key=lambda piece: (piece.output, piece.address))
    for piece, following in itertools.zip_longest(ordered, ordered[1:]):
        end = piece.address + piece.size
        if following is not None and following.output == piece.output:
            end = min(end, following.address)
        if end > piece.address:
            yield dataclasses.replace(piece, size=end - piece.address)


def _memory(used: int, limit: int, parts: Counter[str]) -> Memory:
    # Padding belongs to no part.
    parts["alignment"] = max(0, used - parts.total())
    return Memory(used, limit, {name: size for name, size in parts.most_common() if size})


def _memory_of(address: int, regions: Iterable[Region]) -> Region | None:
    """Returns the memory region that an address belongs to: the last one that begins before it, whatever its length."""
    before = [region for region in regions if region.origin <= address]
    return max(before, key=lambda region: region.origin, default=None)


def program_parts(size: int, constants: int | None, npu: NpuBytes) -> dict[str, int]:
    """Splits the data of programs.

    Args:
        size: its bytes.
        constants: bytes of constant tensors; None: of models in packages, whose data is little else.
        npu: bytes of delegates for an NPU.
    """
    if constants is None:
        return {"weights": size}
    parts = {}
    for label, most in (("weights", constants), ("NPU weights", npu.weights), ("NPU commands", npu.commands)):
        parts[label] = min(most, size)
        size -= parts[label]
    return {**parts, "program metadata": size}


def measure(
    elf: Path,
    pieces: Iterable[Piece],
    sources: SourceFiles,
    board: Board,
    constants: int | None,
    npu: NpuBytes,
    parts: Collection[str] = (),
) -> tuple[Memory, Memory, dict[str, Memory]]:
    """Measures an image: returns its flash, its RAM, and other memories with tensors by their names.

    Args:
        elf: the linked image.
        pieces: read_map() of it.
        sources: its source files.
        board: the board of the memories; a section belongs to the memory that it starts in, whatever its length.
        constants: bytes of constant tensors in the program; None if no program is known.
        npu: bytes of its delegates for an NPU.
        parts: names of further parts, see owner().

    Raises:
        UserError: a file is missing or of another kind.
    """
    flash, ram = board.flash, board.ram
    arenas = map(board.memory, (board.arena_memory, *board.arena_memories))
    regions = list({region.name: region for region in (flash, ram, *arenas)}.values())
    with opened_elf(elf) as image:
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

    memories = {name: _memory_of(section["sh_addr"], regions) for name, section in allocated.items()}
    flash_parts: Counter[str] = Counter()
    for piece in _without_overlap(pieces):
        # .data also takes flash, for its initial values.
        if piece.output in allocated and (memories[piece.output] in (flash, None) or piece.output == ".data"):
            for part in sources.split(piece):
                flash_parts[owner(part, parts)] += part.size
    flash_parts.update(program_parts(flash_parts.pop("program", 0), constants, npu))

    found = {"flash": _memory(flash_end - flash.origin, flash.length, flash_parts)}
    for region in regions[1:]:
        used, in_region = _written(region, [each for name, each in allocated.items() if memories[name] == region])
        if region == board.arena:
            # A program that the NPU computes as a whole works in its planned memory,
            # tools/pipeline/compile/in_place.py.
            holder = "arena temp" if in_region["arena temp"] >= npu.scratch else "arena planned"
            in_region["NPU scratch"] = min(npu.scratch, in_region[holder])
            in_region[holder] -= in_region["NPU scratch"]
        if used or region in (ram, board.arena):
            found[region.name] = _memory(used, region.length, in_region)
    return found.pop("flash"), found.pop("ram"), found


def _written(region: Region, sections: Iterable[Section]) -> tuple[int, Counter[str]]:
    """Returns the bytes of a memory up to the end of the sections of variables, and the parts of these."""
    parts: Counter[str] = Counter()
    end = region.origin
    for section in sections:
        if section.name.startswith(_ARENA):
            label = f"arena {section.name.removeprefix(_ARENA)}"
        else:
            label = "stack" if section.name == ".stack" else "data"
        parts[label] += section["sh_size"]
        end = max(end, section["sh_addr"] + section["sh_size"])
    return end - region.origin, parts
