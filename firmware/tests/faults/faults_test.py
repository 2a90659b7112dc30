"""Mistakes that an ordinary emulator lets pass: the board simulator finds each, and says what it is."""

import os
import struct
from pathlib import Path

import pytest

from boardsim.boardsim import Run, Simulation
from boardsim.cpu import Stop
from tools.artifacts.board.board import Board, read_board
from tools.artifacts.elf_image.elf_image import ElfImage

FILES = [Path(name) for name in os.environ["IMAGES"].split()]
ELFS = {path.stem: path for path in FILES if path.suffix == ".elf"}
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}

_FLASH = {"nucleo_wb55rg": 0x08000000, "pico2_w": 0x10000000}


def _board(name: str) -> Board:
    return next(board for prefix, board in BOARDS.items() if prefix in name)


def _simulation(name: str) -> Simulation:
    return Simulation(ElfImage(ELFS[name]), _board(name))


def _run(simulation: Simulation) -> tuple[Run, str]:
    """Returns a run and all that is wrong with it."""
    run = simulation.run(limit=20_000_000)
    return run, "\n".join(simulation.problems(run))


@pytest.mark.parametrize("name", ["nucleo_wb55rg_right", "pico2_w_right"])
def test_the_right_start_up_code_passes(name: str) -> None:
    run, problems = _run(_simulation(name))
    assert run.passed and not problems


@pytest.mark.parametrize(
    ("name", "messages"),
    [
        (
            "nucleo_wb55rg_pll_order",
            ["the PLL was turned on, but its source HSE was not ready: it never locks", "RCC_CR"],
        ),
        ("nucleo_wb55rg_wait_states", ["flash is read at 32 MHz with 0 wait states, which allow 18 MHz"]),
        ("nucleo_wb55rg_voltage", ["the core runs at 32 MHz in voltage range 2, which allows 16 MHz"]),
        ("nucleo_wb55rg_baud", ["sends at 118,7", "+3.1 % off the terminal's 115,200: garbage arrives"]),
        ("nucleo_wb55rg_console_clock", ["written while the clock of USART1 is off"]),
        ("nucleo_wb55rg_console_pin", ["none of its TX pins is switched to it"]),
        ("nucleo_wb55rg_unmapped", ["access to 0x60000000, where nothing answers"]),
        ("pico2_w_unmapped", ["access to 0x60000000, where nothing answers"]),
        ("pico2_w_console_clock", ["written while the clock of UART0 is off"]),
        ("pico2_w_pll_order", ["PLL_SYS was turned on, but the crystal oscillator was not stable: it never locks"]),
        ("pico2_w_crystal_order", ["clk_sys was switched to a source that does not run"]),
        ("pico2_w_pll_reset", ["written while the clock of PLL_SYS is off"]),
        ("pico2_w_clock_switch", ["clk_sys was switched to a source that does not run"]),
        ("pico2_w_too_fast", ["the core runs at 187.5 MHz; at most 150"]),
        ("pico2_w_baud", ["+3.1 % off the terminal's 115,200: garbage arrives"]),
        ("pico2_w_console_pad", ["no pin is switched to its TX"]),
    ],
)
def test_a_mistake_in_start_up_code_is_named(name: str, messages: list[str]) -> None:
    _, problems = _run(_simulation(name))
    for message in messages:
        assert message in problems


def _softmax(board: str) -> Simulation:
    return _simulation(f"softmax_test_{board}.image")


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
