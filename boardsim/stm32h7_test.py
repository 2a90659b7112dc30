"""Tests the simulated STM32H743 as a debugger sees it: clocks, voltage and flash that do not fit have consequences."""

import struct
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board

_RCC, _PWR, _SYSCFG, _FLASH = 0x58024400, 0x58024800, 0x58000400, 0x52002000
_KEYR, _CR, _SR = _FLASH + 0x04, _FLASH + 0x0C, _FLASH + 0x10


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    simulator = {"chip": "stm32h743zi", "hse_hz": "8000000"}
    return simulated(read_board(write_board(tmp_path, core="cortex-m7", simulator=simulator)))


def _write(machine: Machine, address: int, value: int) -> None:
    machine.debugger.write_register(address, 4, value)


def _wait(machine: Machine, register: int, bit: int, level: int = 1) -> None:
    assert any(machine.debugger.read_register(register) >> bit & 1 == level for _ in range(20_000))


def _raise_voltage(machine: Machine) -> None:
    _write(machine, _PWR + 0x0C, 2)
    _write(machine, _PWR + 0x18, 3 << 14)
    _wait(machine, _PWR + 0x18, 13)


def _overdrive(machine: Machine) -> None:
    _write(machine, _RCC + 0xF4, 2)
    _write(machine, _SYSCFG + 0x2C, 1)
    _wait(machine, _PWR + 0x18, 13)


def _start_pll(machine: Machine, factor: int = 240) -> None:
    """Sets the PLL to 8 MHz / 2 * factor / 2, with the buses at half of it."""
    _write(machine, _RCC, machine.debugger.read_register(_RCC) | 1 << 16 | 1 << 18)
    _wait(machine, _RCC, 17)
    values = ((0x28, 2 << 4 | 2), (0x2C, 2 << 2 | 1 << 16), (0x30, 1 << 9 | factor - 1))
    dividers = ((0x18, 4 << 4 | 8), (0x1C, 4 << 8 | 4 << 4), (0x20, 4 << 4))
    for offset, value in values + dividers:
        _write(machine, _RCC + offset, value)
    _write(machine, _RCC, machine.debugger.read_register(_RCC) | 1 << 24)


def _switch(machine: Machine) -> None:
    _wait(machine, _RCC, 25)
    _write(machine, _RCC + 0x10, 3)


def test_480_mhz_need_the_highest_voltage_and_wait_states(machine: Machine) -> None:
    _raise_voltage(machine)
    _overdrive(machine)
    _write(machine, _FLASH, 0x24)
    _start_pll(machine)
    _switch(machine)
    assert machine.clock.hz == 480_000_000 and machine.notes == []


def test_480_mhz_without_overdrive(machine: Machine) -> None:
    _raise_voltage(machine)
    _write(machine, _FLASH, 0x24)
    _start_pll(machine)
    _switch(machine)
    assert "in voltage scale 1, which allows 400 and 200 MHz" in machine.explain()


def test_too_few_wait_states(machine: Machine) -> None:
    _raise_voltage(machine)
    _overdrive(machine)
    _write(machine, _FLASH, 0x22)
    _start_pll(machine)
    _switch(machine)
    assert "flash is read at 240 MHz with 2 wait states, which allow 185 MHz" in machine.explain()


def test_the_voltage_stays_until_the_supply_is_chosen(machine: Machine) -> None:
    _write(machine, _PWR + 0x18, 3 << 14)
    assert "before PWR_CR3 chose the supply" in machine.explain()
    assert machine.debugger.read_register(_PWR + 0x18) >> 14 & 3 == 1


def test_overdrive_before_scale_1(machine: Machine) -> None:
    _write(machine, _RCC + 0xF4, 2)
    _write(machine, _SYSCFG + 0x2C, 1)
    assert "before scale 1 was reached" in machine.explain()


def test_a_pll_outside_its_limits_never_locks(machine: Machine) -> None:
    _start_pll(machine, factor=300)
    assert "its oscillator at 1200 MHz is outside 192 to 960 MHz" in machine.explain()
    assert not machine.debugger.read_register(_RCC) >> 25 & 1


@pytest.mark.parametrize(("name", "bit"), [("PLL1", 24), ("HSE", 16)])
def test_what_the_system_clock_is_made_of_stays_on(machine: Machine, name: str, bit: int) -> None:
    _raise_voltage(machine)
    _write(machine, _FLASH, 0x24)
    _start_pll(machine, factor=200)
    _switch(machine)
    _write(machine, _RCC, machine.debugger.read_register(_RCC) & ~(1 << bit))
    assert machine.notes == [f"{name} was turned off while the system clock needs it: it stays on"]
    assert machine.clock.hz == 400_000_000 and machine.debugger.read_register(_RCC) >> bit & 1


def test_flash_takes_256_bits_at_once(machine: Machine) -> None:
    _write(machine, 0x08000000, 0)
    assert "without PG" in machine.explain()
    _write(machine, _KEYR, 0x45670123)
    _write(machine, _KEYR, 0xCDEF89AB)
    _write(machine, _CR, 2)
    for i in range(7):
        _write(machine, 0x08000000 + 4 * i, i)
    assert machine.debugger.read(0x08000000, 32) == b"\xff" * 32
    _write(machine, 0x0800001C, 7)
    _wait(machine, _SR, 0, 0)
    assert machine.debugger.read(0x08000000, 32) == b"".join(i.to_bytes(4, "little") for i in range(8))


def test_a_sector_that_loses_power_is_neither_old_nor_new(machine: Machine) -> None:
    old = bytes(range(256)) * 512
    machine.debugger.write(0x08020000, old)
    _write(machine, _KEYR, 0x45670123)
    _write(machine, _KEYR, 0xCDEF89AB)
    _write(machine, _CR, 1 << 8 | 1 << 7 | 1 << 2)
    machine.power_cycle()
    assert machine.debugger.read(0x08020000, len(old)) not in (old, b"\xff" * len(old))


def _store(machine: Machine, address: int, value: int) -> None:
    """Writes a register as the core, not as a debugger."""
    # ldr r0, [pc, #4]; ldr r1, [pc, #4]; str r1, [r0]; b . and both words.
    machine.debugger.write(0x20000000, struct.pack("<4H2I", 0x4801, 0x4902, 0x6001, 0xE7FE, address, value))
    machine.cpu.set("pc", 0x20000001)
    machine.run(10)


def test_software_has_to_unlock_the_counter_of_cycles(machine: Machine) -> None:
    _write(machine, 0xE000EDFC, 1 << 24)
    _store(machine, 0xE0001000, 1)
    assert not machine.debugger.read_register(0xE0001000) & 1
    _store(machine, 0xE0001FB0, 0xC5ACCE55)
    _store(machine, 0xE0001000, 1)
    assert machine.debugger.read_register(0xE0001000) & 1
