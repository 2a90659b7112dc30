"""Images that an ordinary emulator lets pass: the board simulator finds what is wrong with each, and says so."""

import os
import struct
from pathlib import Path

import pytest

from boardsim.boardsim import Run, Simulation
from boardsim.cpu import Stop
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage

FILES = [Path(name) for name in os.environ["IMAGES"].split()]
ELFS = {path.stem: path for path in FILES if path.suffix == ".elf"}
BOARDS = {path.parent.name: path for path in map(Path, os.environ["BOARDS"].split())}

_FLASH = {"nucleo_wb55rg": 0x08000000, "pico2_w": 0x10000000}


def _run(simulation: Simulation) -> tuple[Run, str]:
    """Returns a run and all that is wrong with it."""
    run = simulation.run(limit=20_000_000)
    return run, "\n".join(simulation.problems(run))


def _softmax(board: str) -> Simulation:
    return Simulation(ElfImage(ELFS[f"softmax_test_{board}.image"]), read_board(BOARDS[board]))


@pytest.mark.parametrize("board", sorted(_FLASH))
def test_the_unharmed_images_pass(board: str) -> None:
    run, problems = _run(_softmax(board))
    assert run.passed and not problems


@pytest.mark.parametrize("board", sorted(_FLASH))
def test_a_reset_vector_without_its_thumb_bit(board: str) -> None:
    simulation = _softmax(board)
    (entry,) = struct.unpack("<I", simulation.machine.debugger.read(_FLASH[board] + 4, 4))
    simulation.machine.debugger.write(_FLASH[board] + 4, struct.pack("<I", entry & ~1))
    run, problems = _run(simulation)
    assert not run.passed and "the reset vector" in problems and "lacks bit 0" in problems


@pytest.mark.parametrize("board", sorted(_FLASH))
def test_a_vector_table_that_is_not_at_the_start_of_flash(board: str) -> None:
    simulation = _softmax(board)
    table = simulation.machine.debugger.read(_FLASH[board], 64)
    simulation.machine.debugger.write(_FLASH[board], b"\xff" * 4 + table[:60])
    run, problems = _run(simulation)
    assert not run.passed and run.console == "" and "fault at pc" in problems


@pytest.mark.parametrize("board", sorted(_FLASH))
def test_a_fault_without_a_vector_for_it(board: str) -> None:
    simulation = _softmax(board)
    simulation.machine.debugger.write(_FLASH[board] + 8, bytes(56))
    # The first instruction of main() is none.
    main = simulation.image.address("main")
    assert main is not None
    simulation.machine.debugger.write(main & ~1, b"\xde\xde")
    run, problems = _run(simulation)
    assert run.stop is Stop.LOCKUP
    assert "undefined instruction" in problems and "lacks the Thumb bit" in problems


@pytest.mark.parametrize("board", sorted(_FLASH))
def test_a_program_that_is_not_aligned(board: str) -> None:
    simulation = _softmax(board)
    _, address, size, _ = simulation.image.symbols["softmax_pte_data"]
    # The whole program 4 bytes off, in flash that nothing uses, and every reference to it corrected.
    moved = _FLASH[board] + 0x60004
    program = simulation.machine.debugger.read(address, size)
    simulation.machine.debugger.write(moved, program)
    flash = simulation.machine.debugger.read(_FLASH[board], address - _FLASH[board])
    references = [i for i in range(0, len(flash) - 3, 4) if flash[i : i + 4] == struct.pack("<I", address)]
    assert references
    for offset in references:
        simulation.machine.debugger.write(_FLASH[board] + offset, struct.pack("<I", moved))
    run, problems = _run(simulation)
    assert not run.passed and "ended" in problems
    assert "align" in run.console.lower() or "load" in run.console.lower()


_IMAGE_BLOCK = 0x10000040


@pytest.mark.parametrize(
    ("offset", "value", "message"),
    [
        (0, 0, "no image block begins in the first 4 KB"),
        (4, 0x10010142, "is not of a secure image"),
        (4, 0x11210142, "RISC-V"),
        (4, 0x00210142, "of an image for another chip"),
        (4, 0x10220142, "not of an executable image"),
        (8, 0x000002FF, "the last item of the block at 0x40 says 2 words where there are 1"),
        (16, 0, "does not end with its marker"),
    ],
)
def test_the_boot_rom_refuses_a_bad_image_block(offset: int, value: int, message: str) -> None:
    simulation = _softmax("pico2_w")
    assert simulation.machine.debugger.read(_IMAGE_BLOCK, 4) == struct.pack("<I", 0xFFFFDED3)
    simulation.machine.debugger.write(_IMAGE_BLOCK + offset, struct.pack("<I", value))
    run, problems = _run(simulation)
    assert run.stop is Stop.LOCKUP and run.instructions == 0
    assert message in problems and "BOOTSEL" in problems


def test_the_boot_rom_looks_no_further_than_4_kb() -> None:
    simulation = _softmax("pico2_w")
    block = simulation.machine.debugger.read(_IMAGE_BLOCK, 20)
    simulation.machine.debugger.write(_IMAGE_BLOCK, bytes(20))
    simulation.machine.debugger.write(0x10000000 + 4096 + 64, block)
    _, problems = _run(simulation)
    assert "no image block begins in the first 4 KB" in problems
