"""Tests that each board's image is at the address that its chip and boot loader want; nothing need run it."""

import os
import struct
from pathlib import Path

import pytest

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.uf2.uf2 import check_uf2
from tools.pipeline.boot_stage.boot_stage import CHECKSUM, CODE, checksum

_FILES = [Path(name) for name in os.environ["IMAGES"].split()]
BOARDS = {path.parent.name: read_board(path) for path in _FILES if path.name == "board.json"}
IMAGES = {path.stem.removeprefix("echo_"): path for path in _FILES if path.suffix == ".elf"}
UF2 = {path.stem: path for path in map(Path, os.environ["UF2"].split()) if path.suffix == ".uf2"}
# Exceptions that each core has, by their place in the vector table: reset, NMI, HardFault, SVCall, PendSV, SysTick.
_EXCEPTIONS = (1, 2, 3, 11, 14, 15)
# The UF2 specification's list of families has this number.
_FAMILIES = {"rp2040": 0xE48BFF56, "rp2350": 0xE48BFF59}
# Boot loaders of boards have this before an image: docs/registers.md gives the source.
_BEHIND_LOADER = {"nano33_ble": 0x10000}


def _flash(board: Board) -> bytes:
    """Returns what an image has in its board's flash, up to where its initial values end."""
    content = bytearray()
    for address, data in sorted(ElfImage(IMAGES[board.name]).segments):
        assert board.flash.origin <= address <= address + len(data) <= board.flash.end
        content += bytes(address - board.flash.origin - len(content)) + data
    return bytes(content)


def _has_boot_stage(board: Board) -> bool:
    return (board.simulator or {}).get("chip") == "rp2040"


def test_each_board_has_an_image() -> None:
    assert BOARDS.keys() == IMAGES.keys()
    assert {name for name, board in BOARDS.items() if board.uf2_family is not None} == UF2.keys()


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_an_image_begins_with_its_vector_table(name: str) -> None:
    """The core takes its stack pointer and first address from there (DDI 0403E, B1.5.3)."""
    board = BOARDS[name]
    image = ElfImage(IMAGES[name])
    table = CODE + CHECKSUM if _has_boot_stage(board) else 0
    vectors = struct.unpack_from("<16I", _flash(board), table)
    assert vectors[0] % 8 == 0
    assert board.ram.origin < vectors[0] <= board.ram.end
    assert vectors[1] == image.entry
    for exception in _EXCEPTIONS:
        assert vectors[exception] & 1, exception
        assert board.flash.contains(vectors[exception]), exception
    assert vectors[1] == image.symbols["cortex_m_reset"].address
    # Its offset register takes multiples of the table's size, a power of two.
    assert (board.flash.origin + table) % 128 == 0


@pytest.mark.parametrize("name", sorted(BOARDS))
def test_an_image_leaves_memory_of_others_alone(name: str) -> None:
    board, image = BOARDS[name], ElfImage(IMAGES[name])
    assert board.flash.origin >= _BEHIND_LOADER.get(name, 0)
    for address, data in image.segments:
        assert not [
            region.name for region in board.reserved if address < region.end and region.origin < address + len(data)
        ]
    for begin, end in (("__data_start", "__data_end"), ("__bss_start", "__bss_end")):
        assert board.ram.origin <= image.symbols[begin].address <= image.symbols[end].address <= board.ram.end


@pytest.mark.parametrize("name", sorted(name for name, board in BOARDS.items() if _has_boot_stage(board)))
def test_the_boot_rom_finds_a_second_stage(name: str) -> None:
    """Returns the checksum of the RP2040 datasheet, "Flash Second Stage", "Checksum"."""
    flash = _flash(BOARDS[name])
    assert any(flash[:CODE])
    assert int.from_bytes(flash[CODE : CODE + CHECKSUM], "little") == checksum(flash[:CODE])


@pytest.mark.parametrize("name", sorted(UF2))
def test_a_uf2_file_has_the_image_for_the_boards_chip(name: str) -> None:
    board = BOARDS[name]
    data = UF2[name].read_bytes()
    check_uf2(data)
    assert struct.unpack_from("<I", data, 12)[0] == board.flash.origin
    assert struct.unpack_from("<I", data, 28)[0] == _FAMILIES[(board.simulator or {})["chip"]]
    pages = b"".join(data[block + 32 : block + 32 + 256] for block in range(0, len(data), 512))
    image = UF2[name].with_suffix(".bin").read_bytes()
    assert pages.rstrip(b"\0") == image.rstrip(b"\0")
