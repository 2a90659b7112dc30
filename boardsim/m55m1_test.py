"""Tests the simulated M55M1 as a debugger sees it: mistakes have the consequences that they have on a board."""

import struct
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.machine import Machine
from npu.device import engine_of
from npu.memory import Segments
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board

_SYS, _CLK, _PMC, _NPU, _FMC, _GPIO, _UART = (
    0x40000000,
    0x40001000,
    0x40002000,
    0x40003000,
    0x40044000,
    0x40229000,
    0x4024D000,
)
_SRAM = 0x20100000


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    console = {"uart": "UART0", "baud": "115200"}
    board = write_board(tmp_path, core="cortex-m33", console=console, simulator={"chip": "m55m1"})
    return simulated(read_board(board))


def _write(machine: Machine, address: int, value: int) -> None:
    machine.debugger.write_register(address, 4, value)


def _wait(machine: Machine, register: int, mask: int, value: int) -> None:
    assert any(machine.debugger.read_register(register) & mask == value for _ in range(20_000))


def _unlock(machine: Machine) -> None:
    for key in (0x59, 0x16, 0x88):
        _write(machine, _SYS + 0x100, key)
    assert machine.debugger.read_register(_SYS + 0x100) == 1


def _start_pll(machine: Machine, control: int = 1 << 28 | 1 << 14 | 2 << 9 | 53, oscillators: int = 0x28) -> None:
    _unlock(machine)
    for address, value in ((_CLK, oscillators), (_CLK + 0x1C, 2), (_CLK + 0x18, control), (_CLK, oscillators | 0x40)):
        _write(machine, address, value)


def _send(machine: Machine, *, function: int = 6, divider: int = 102) -> None:
    _unlock(machine)
    for address, value in (
        (_CLK + 0x460, 1),
        (_CLK + 0x2E0, 1),
        (_SYS + 0x31C, function << 8 | function),
        (_UART + 0x0C, 3),
        (_UART + 0x24, 3 << 28 | divider),
        (_UART, ord("A")),
    ):
        _write(machine, address, value)
    _wait(machine, _UART + 0x18, 1 << 28, 1 << 28)


def test_a_byte_arrives(machine: Machine) -> None:
    _send(machine)
    assert machine.console.text == "A" and machine.notes == []


def test_a_wrong_divider_gives_garbage(machine: Machine) -> None:
    _send(machine, divider=96)
    assert machine.console.text != "A" and "garbage arrives" in machine.explain()


def test_without_the_pins_function_nothing_arrives(machine: Machine) -> None:
    _send(machine, function=0)
    assert machine.console.text == "" and "PB13 is not its TXD" in machine.explain()


def test_what_is_typed_is_received(machine: Machine) -> None:
    _send(machine)
    machine.console.feed(b"x")
    _wait(machine, _UART + 0x18, 1 << 14, 0)
    assert machine.debugger.read_register(_UART) == ord("x")


def test_protected_registers_need_the_keys(machine: Machine) -> None:
    _write(machine, _FMC + 0x4C, 8)
    assert machine.debugger.read_register(_FMC + 0x4C) == 1 and "it is protected" in machine.explain()
    _unlock(machine)
    _write(machine, _FMC + 0x4C, 8)
    assert machine.debugger.read_register(_FMC + 0x4C) == 8


def test_the_core_runs_at_220_mhz(machine: Machine) -> None:
    _start_pll(machine)
    _wait(machine, _CLK + 0x04, 1 << 6, 1 << 6)
    _write(machine, _PMC + 0x10, 0)
    _wait(machine, _PMC + 0x14, 1 << 31, 0)
    _write(machine, _FMC + 0x4C, 8)
    _write(machine, _CLK + 0x400, 4)
    assert machine.clock.hz == 220_000_000 and machine.notes == []


@pytest.mark.parametrize(("level", "cycles", "reason"), [(1, 8, "its voltage"), (0, 7, "its cycles of flash")])
def test_a_clock_that_is_too_fast_stops_the_core(machine: Machine, level: int, cycles: int, reason: str) -> None:
    _start_pll(machine)
    _wait(machine, _CLK + 0x04, 1 << 6, 1 << 6)
    _write(machine, _PMC + 0x10, level)
    _wait(machine, _PMC + 0x14, 1 << 31, 0)
    _write(machine, _FMC + 0x4C, cycles)
    _write(machine, _CLK + 0x400, 4)
    assert reason in machine.explain()


@pytest.mark.parametrize(
    ("control", "oscillators", "reason"),
    [(1 << 14 | 53, 0x28, "a reference of 12 MHz"), (1 << 14 | 2 << 9 | 53, 0x08, "not both that its source")],
)
def test_a_pll_that_never_locks(machine: Machine, control: int, oscillators: int, reason: str) -> None:
    _start_pll(machine, control, oscillators)
    assert not any(machine.debugger.read_register(_CLK + 0x04) & 1 << 6 for _ in range(5000))
    assert reason in machine.explain()
    _write(machine, _CLK + 0x400, 4)
    assert "stands still" in machine.explain()


def test_pins(machine: Machine) -> None:
    _unlock(machine)
    _write(machine, _CLK + 0x244, 1 << 3 | 1 << 8)
    _write(machine, _GPIO + 0xC0, 1 << 10)
    _write(machine, _GPIO + 0xC8, 1 << 5)
    assert machine.debugger.read_register(_GPIO + 0xD0) == 1 << 5
    _write(machine, _GPIO + 0x230, 1 << 22)
    assert machine.debugger.read_register(_GPIO + 0x210) == 1 << 11


def test_the_npu_is_there_once_its_clock_is_on(machine: Machine) -> None:
    assert machine.debugger.read_register(_NPU + 0x28) == 0 and "the clock of NPU is off" in machine.explain()
    _write(machine, _CLK + 0x28C, 1)
    assert machine.debugger.read_register(_NPU + 0x28) == engine_of("ethos-u55-256", Segments())[0]


def test_the_npu_reaches_two_banks_of_sram(machine: Machine) -> None:
    _write(machine, _CLK + 0x28C, 1)
    stop = struct.pack("<I", 0xFFFF0000)
    for base, good in ((_SRAM, True), (_SRAM + 0x100000, False)):
        machine.debugger.write(base, stop)
        _write(machine, _NPU + 0x0C, 0)
        for offset, value in ((0x10, base), (0x14, 0), (0x20, 4), (0x08, 1)):
            _write(machine, _NPU + offset, value)
        assert bool(machine.debugger.read_register(_NPU + 0x04) & 1 << 2) is not good
    assert "0x20200000" in machine.explain()
