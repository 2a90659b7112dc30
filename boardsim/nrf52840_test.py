"""Tests the simulated nRF52840 as a debugger sees it: mistakes have the consequences that they have on a board."""

from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board

_CLOCK, _UART, _WDT, _NVMC, _P0 = 0x40000000, 0x40002000, 0x40010000, 0x4001E000, 0x50000000
_TX = 6


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    console = {"uart": "UART0", "baud": "115200"}
    return simulated(read_board(write_board(tmp_path, console=console, simulator={"chip": "nrf52840"})))


def _write(machine: Machine, address: int, value: int) -> None:
    machine.debugger.write_register(address, 4, value)


def _wait(machine: Machine, register: int) -> None:
    """Waits for an event, or for the flash controller."""
    assert any(machine.debugger.read_register(register) for _ in range(20_000))


def _start_crystal(machine: Machine) -> None:
    _write(machine, _CLOCK, 1)
    _wait(machine, _CLOCK + 0x100)


def _send(machine: Machine, *, output: bool = True) -> None:
    _write(machine, _P0 + 0x700 + 4 * _TX, 3 if output else 2)
    for offset, value in ((0x50C, _TX), (0x524, 0x01D7E000), (0x500, 4), (0x008, 1), (0x51C, ord("A"))):
        _write(machine, _UART + offset, value)
    _wait(machine, _UART + 0x11C)


def test_a_byte_arrives_once_the_crystal_runs(machine: Machine) -> None:
    _start_crystal(machine)
    _send(machine)
    assert machine.console.text == "A" and machine.notes == []


def test_without_the_crystal_garbage_arrives(machine: Machine) -> None:
    _send(machine)
    assert machine.console.text != "A" and "garbage arrives" in machine.explain()


def test_without_a_pin_nothing_arrives(machine: Machine) -> None:
    _start_crystal(machine)
    _send(machine, output=False)
    assert machine.console.text == "" and "that pin is no output" in machine.explain()


def test_flash_takes_words_while_it_may_be_written_and_clears_bits(machine: Machine) -> None:
    _write(machine, 0x1000, 0x12345678)
    assert "does not enable it" in machine.explain() and machine.debugger.read(0x1000, 4) == b"\xff" * 4
    _write(machine, _NVMC + 0x504, 1)
    for value in (0x12345678, 0xFFFF0000):
        _write(machine, 0x1000, value)
        _wait(machine, _NVMC + 0x400)
    assert machine.debugger.read_register(0x1000) == 0x12340000
    _write(machine, _NVMC + 0x508, 0x1000)
    assert "does not enable erasing" in machine.explain()
    _write(machine, _NVMC + 0x504, 2)
    _write(machine, _NVMC + 0x508, 0x1000)
    _wait(machine, _NVMC + 0x400)
    assert machine.debugger.read(0x1000, 4) == b"\xff" * 4


def test_a_page_that_loses_power_is_neither_old_nor_new(machine: Machine) -> None:
    machine.debugger.write(0x1000, bytes(range(256)) * 16)
    _write(machine, _NVMC + 0x504, 2)
    _write(machine, _NVMC + 0x508, 0x1000)
    machine.power_cycle()
    assert machine.debugger.read(0x1000, 4096) not in (bytes(range(256)) * 16, b"\xff" * 4096)


def test_the_time_of_a_watchdog_that_runs_cannot_be_changed(machine: Machine) -> None:
    _write(machine, _WDT + 0x504, 32767)
    _write(machine, _WDT, 1)
    _write(machine, _WDT + 0x504, 1)
    assert machine.debugger.read_register(_WDT + 0x504) == 32767
    assert "while the watchdog runs" in machine.explain()
