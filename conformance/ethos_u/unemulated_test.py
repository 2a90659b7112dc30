"""An image for a board that no emulator here has: what can be seen of it without running it."""

import os
import re
import struct
from pathlib import Path

from elftools.elf.elffile import ELFFile

from npu.device import engine_of
from npu.memory import Segments
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage

_PATH = next(path for name in os.environ["IMAGE"].split() if (path := Path(name)).suffix == ".elf")
_IMAGE = ElfImage(_PATH)
_BOARD = read_board(Path(os.environ["BOARD"]))
_NPU_BASE = int(os.environ["NPU_BASE"], 16)
# Bytes of a line of the core's data cache.
_CACHE_LINE = 32
# EABI, Tag_CPU_arch: Armv8.1-M with the main extension.
_ARMV8_1_M_MAIN = 21


def _ram(address: int) -> bool:
    return _BOARD.ram.origin <= address <= _BOARD.ram.origin + _BOARD.ram.length


def test_the_core_finds_its_stack_and_its_first_instruction() -> None:
    start, data = min(_IMAGE.segments)
    assert start == _BOARD.flash.origin
    stack, reset = struct.unpack_from("<II", data)
    assert stack == _IMAGE.symbols["__stack_end"].address
    assert _ram(stack)
    assert stack % 8 == 0
    assert reset == _IMAGE.entry == _IMAGE.symbols["cortex_m_reset"].address | 1


def test_all_of_it_lies_in_the_boards_memory() -> None:
    end = _BOARD.flash.origin + _BOARD.flash.length
    assert all(_BOARD.flash.origin <= start and start + len(data) <= end for start, data in _IMAGE.segments)
    assert _ram(_IMAGE.symbols["__bss_end"].address)


def test_it_is_for_the_core() -> None:
    with _PATH.open("rb") as file:
        attributes = ELFFile(file).get_section_by_name(".ARM.attributes")
        tags = {tag.tag: tag.value for tag in attributes.subsections[0].subsubsections[0].attributes}
    assert tags["TAG_CPU_ARCH"] == _ARMV8_1_M_MAIN
    # The compiler knows a Cortex-M85 as its architecture only.
    assert tags["TAG_CPU_NAME"] in ("8.1-M.MAIN", _BOARD.core)


def test_the_data_cache_is_maintained_of_whole_lines() -> None:
    # DCCIMVAC and DCIMVAC; which lines they get is for //firmware/ethos_u:driver_test.
    content = b"".join(data for _, data in _IMAGE.segments)
    assert all(struct.pack("<I", register) in content for register in (0xE000EF70, 0xE000EF5C))
    memory = _IMAGE.symbols["_ZN12_GLOBAL__N_117compiled_instanceE"]
    assert (memory.address % _CACHE_LINE, memory.size % _CACHE_LINE) == (0, 0)


def test_program_and_driver_are_for_the_npu() -> None:
    content = b"".join(data for _, data in sorted(_IMAGE.segments))
    assert _BOARD.npu
    config, _ = engine_of(_BOARD.npu, Segments())
    # The program's data for the driver begins with the configuration: words whose lowest byte, 1, says so.
    heads = (found.end() for found in re.finditer(b"COP1", content))
    assert any(
        (word & 0xFF, given) == (1, config) for word, given in (struct.unpack_from("<II", content, at) for at in heads)
    )
    assert struct.pack("<I", _NPU_BASE) in content
