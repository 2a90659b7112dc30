"""Tests the second stage of the Pico's boot on the board simulator: the needs of boot ROM and flash."""

import os
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.cpu import Stop
from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.pipeline.boot_stage.boot_stage import CODE, checksum

_FILES = [Path(name) for name in os.environ["IMAGE"].split()]
_FLASH = 0x10000000
# SPI_CTRLR0 as the stage sets it: instruction 0x6b, 8 cycles of waiting.
_XIP = bytes.fromhex("1842006b")


def _machine(**options: str) -> Machine:
    board = read_board(Path(os.environ["BOARD"]))
    (board.simulator or {}).update(options)
    machine = simulated(board)
    (elf,) = [path for path in _FILES if path.suffix == ".elf"]
    machine.load_elf(ElfImage(elf))
    return machine


def _change(machine: Machine, old: bytes, new: bytes) -> None:
    """Replaces bytes of the stage, with the checksum that it then has."""
    stage = machine.debugger.read(_FLASH, CODE)
    assert stage.count(old) == 1
    stage = stage.replace(old, new)
    machine.debugger.write(_FLASH, stage + checksum(stage).to_bytes(4, "little"))


def _passes(machine: Machine) -> bool:
    machine.reset()
    return machine.run(20_000_000) is Stop.IDLE and "\nPASS\n" in machine.console.text


@pytest.mark.parametrize("quad", ["1", "0"])
def test_the_image_runs_whether_the_flash_came_with_four_wires_or_not(quad: str) -> None:
    machine = _machine(flash_quad=quad)
    assert _passes(machine), machine.explain()
    assert machine.notes == [] and machine.chip.ssi.status2 == 2


def test_it_starts_again_after_a_reset_of_the_core_alone() -> None:
    machine = _machine()
    assert _passes(machine)
    machine.reset(core_only=True)
    assert machine.run(20_000_000) is Stop.IDLE
    assert machine.console.text.count("\nPASS\n") == 2 and machine.notes == []


def test_a_stage_with_another_checksum_is_not_started() -> None:
    machine = _machine()
    machine.debugger.write(_FLASH + CODE - 1, b"\x01")
    machine.reset()
    assert machine.run(1000) is Stop.LOCKUP
    assert "the checksum of the first 256 bytes of flash is wrong" in machine.explain()


@pytest.mark.parametrize(
    ("xip", "note"),
    [
        # The cases: no waiting; another form of reading; one that the flash lacks.
        ("1802006b", "needs 4 wires of data and 8 cycles of waiting"),
        ("1842003b", "needs 2 wires of data"),
        ("18420099", "no instruction 0x99"),
        ("1842000b", "needs 1 wires of data"),
    ],
)
def test_flash_that_is_not_read_right_cannot_be_executed_from(xip: str, note: str) -> None:
    machine = _machine()
    _change(machine, _XIP, bytes.fromhex(xip))
    machine.reset()
    assert machine.run(10_000) is Stop.LOCKUP
    assert "flash cannot be executed from" in machine.explain() and note in machine.explain()
