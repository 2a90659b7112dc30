"""Tests the simulated RP2350 by itself, as a debugger sees it; //firmware/tests has tests of images that run on it."""

import struct
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.cpu import Stop
from boardsim.machine import Machine
from boardsim.memory import BusError
from boardsim.rp2350_bootrom import LOOKUP
from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board

_CLOCKS, _RESETS, _XOSC, _PLL, _UART = 0x40010000, 0x40020000, 0x40048000, 0x40050000, 0x40070000
_IO, _PADS, _WATCHDOG, _TICKS, _PSM = 0x40028000, 0x40038000, 0x400D8000, 0x40108000, 0x40018000
_SET, _CLEAR = 0x2000, 0x3000
_IO_BANK0, _PADS_BANK0, _PLL_SYS, _UART0 = 6, 9, 14, 26
# The boot ROM starts this: a secure Arm executable, with its vector table at the start of flash.
_IMAGE_BLOCK = struct.pack("<5I", 0xFFFFDED3, 0x10210142, 0x000001FF, 0, 0xAB123579)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    path = write_board(
        tmp_path,
        name="pico",
        core="cortex-m33",
        flash={"name": "flash", "origin": 0x10000000, "length": 0x1000, "use": ""},
        console={"uart": "UART0", "baud": "115200"},
        simulator={"chip": "rp2350"},
    )
    return simulated(read_board(path))


def _read(machine: Machine, address: int) -> int:
    return machine.debugger.read_register(address)


def _write(machine: Machine, address: int, value: int) -> None:
    machine.debugger.write_register(address, 4, value)


def _release(machine: Machine, *bits: int) -> None:
    _write(machine, _RESETS + _CLEAR, sum(1 << bit for bit in bits))


def _start_crystal(machine: Machine) -> None:
    _write(machine, _XOSC, 0xFAB << 12 | 0xAA0)
    while not _read(machine, _XOSC + 4) >> 31:
        pass


def _start_pll(machine: Machine) -> bool:
    """Locks the PLL at 12 MHz * 125 / 5 / 2; returns whether it locks."""
    _release(machine, _PLL_SYS)
    _write(machine, _PLL, 1)
    _write(machine, _PLL + 8, 125)
    _write(machine, _PLL + _CLEAR + 4, 0x21)
    locked = any(_read(machine, _PLL) >> 31 for _ in range(100))
    _write(machine, _PLL + 0xC, 5 << 16 | 2 << 12)
    _write(machine, _PLL + _CLEAR + 4, 0x8)
    return locked


def _run_code(machine: Machine, *halfwords: int) -> Stop:
    """Runs Thumb code from RAM, started by the boot ROM."""
    machine.debugger.write(0x20000400, struct.pack(f"<{len(halfwords)}H", *halfwords))
    machine.debugger.write(0x10000000, struct.pack("<II", 0x20000400, 0x20000401))
    machine.debugger.write(0x1000000C, struct.pack("<I", 0x20000441))
    machine.debugger.write(0x10000100, _IMAGE_BLOCK)
    # The handler of HardFault: wfi and a loop.
    machine.debugger.write(0x20000440, struct.pack("<HH", 0xBF30, 0xE7FE))
    machine.reset()
    return machine.run(1000)


def test_registers_of_what_is_held_in_reset_read_zero(machine: Machine) -> None:
    _write(machine, _PADS + 4, 0x40)
    assert _read(machine, _PADS + 4) == 0
    assert any("clock of PADS_BANK0 is off" in note for note in machine.notes)
    _release(machine, _PADS_BANK0)
    assert _read(machine, _RESETS + 8) >> _PADS_BANK0 & 1
    # Isolated, 4 mA, pull-down, Schmitt trigger; the write before did nothing.
    assert _read(machine, _PADS + 4) == 0x116


def test_bits_are_toggled_set_and_cleared_through_aliases(machine: Machine) -> None:
    _release(machine, _PADS_BANK0)
    _write(machine, _PADS + 4 + _SET, 0x40)
    assert _read(machine, _PADS + 4) == 0x156
    _write(machine, _PADS + 4 + _CLEAR, 0x100)
    assert _read(machine, _PADS + 4) == 0x56
    _write(machine, _PADS + 4 + 0x1000, 0x41)
    assert _read(machine, _PADS + 4) == 0x17


@pytest.mark.parametrize(
    ("address", "missing"),
    [
        (0x400A8020, "that is PWM + 0x20, which the simulator does not have: RP2350 datasheet, reg"),
        (0x40200000, 'what is there the simulator does not know: RP2350 datasheet, "Address Map"'),
    ],
)
def test_what_the_simulator_lacks_is_named(machine: Machine, address: int, missing: str) -> None:
    _run_code(machine, 0x4901, 0x6808, 0xBF00, 0xBF00, address & 0xFFFF, address >> 16)
    assert missing in machine.explain()


def test_an_alarm_of_the_timer_raises_its_interrupt(machine: Machine) -> None:
    timer, tick = 0x400B0000, _TICKS + 12 * 2
    _start_crystal(machine)
    _write(machine, _CLOCKS + 0x30, 2)
    _write(machine, tick + 4, 12)
    _write(machine, tick, 1)
    _release(machine, 23)
    _write(machine, timer + 0x40, 1 << 1)
    begun = _read(machine, timer + 0x28)
    _write(machine, timer + 0x14, begun + 1000)
    assert _read(machine, timer + 0x20) == 1 << 1
    machine.clock.pass_time(900_000)
    assert not _read(machine, timer + 0x48)
    machine.clock.pass_time(100_000)
    assert 1000 <= _read(machine, timer + 0x28) - begun <= 1100
    assert (_read(machine, timer + 0x20), _read(machine, timer + 0x48)) == (0, 1 << 1)
    # NVIC_ISPR0.
    assert machine.debugger.read_register(0xE000E200) >> 1 & 1
    _write(machine, timer + 0x3C, 1 << 1)
    assert not _read(machine, timer + 0x48)


def test_a_boot_lock_is_claimed_once(machine: Machine) -> None:
    lock, status = 0x400E080C + 4 * 3, 0x400E0808
    assert [_read(machine, lock) for _ in range(2)] == [1 << 3, 0] and _read(machine, status) == 0xFF & ~(1 << 3)
    _write(machine, lock, 1)
    assert _read(machine, lock) == 1 << 3


def test_functions_of_the_boot_rom_that_the_simulator_lacks_are_named(machine: Machine) -> None:
    # r0, r1 and r4 from the end; blx r4; wfi.
    code = (0x4802, 0x4903, 0x4C03, 0x47A0, 0xBF30, 0xBF00, *b"GS", 0, 4, 0, LOOKUP | 1, 0)
    halfwords = (*code[:6], code[6] | code[7] << 8, *code[8:])
    assert _run_code(machine, *halfwords) is Stop.SLEEP
    assert machine.cpu.get("r0") == 0
    assert "function 'GS' of the boot ROM was looked up, which the simulator does not have" in machine.explain()
    assert 'RP2350 datasheet, "API Functions"' in machine.explain()


def test_an_instruction_of_another_coprocessor_is_not_the_fpu(machine: Machine) -> None:
    # mcr p4, #0, r0, c0, c0, #0: the double-precision coprocessor of the RP2350.
    assert _run_code(machine, 0xEE00, 0x0410) is Stop.SLEEP
    assert "instruction of coprocessor 4, which is off (CPACR)" in machine.explain()
    assert "FPU" not in machine.explain()


@pytest.mark.parametrize("address", [0x00008000, 0x10400000, 0x20082000, 0x40200000, 0x60000000])
def test_nothing_answers_where_nothing_is(machine: Machine, address: int) -> None:
    with pytest.raises(BusError):
        machine.debugger.read(address, 4)
    # ldr r1, [pc, #4]; ldr r0, [r1]; nop; nop; the address.
    assert _run_code(machine, 0x4901, 0x6808, 0xBF00, 0xBF00, address & 0xFFFF, address >> 16) is Stop.SLEEP
    assert _read(machine, 0xE000ED28) == 0x8200  # PRECISERR, BFARVALID
    assert _read(machine, 0xE000ED38) == address
    assert machine.cpu.get("xpsr") & 0x1FF == 3


def test_a_pll_whose_source_is_not_ready_never_locks(machine: Machine) -> None:
    assert not _start_pll(machine)
    assert any("crystal oscillator was not stable: it never locks" in note for note in machine.notes)
    machine.reset()
    machine.notes.clear()
    _start_crystal(machine)
    assert _start_pll(machine)
    assert machine.notes == [] or all("boot ROM" in note for note in machine.notes)
    _write(machine, _CLOCKS + 0x3C, 1)
    assert machine.clock.hz == 150_000_000 and _read(machine, _CLOCKS + 0x44) == 2


def test_a_core_that_is_too_fast_stops(machine: Machine) -> None:
    _start_crystal(machine)
    assert _start_pll(machine)
    _write(machine, _PLL + 0xC, 4 << 16 | 2 << 12)
    _write(machine, _CLOCKS + 0x3C, 1)
    assert machine.cpu.locked_up and "the core runs at 187.5 MHz; at most 150" in machine.explain()


def test_a_core_whose_clock_stands_still_stops(machine: Machine) -> None:
    # The auxiliary source is the PLL, which is off.
    _write(machine, _CLOCKS + 0x3C, 1)
    assert machine.cpu.locked_up and "switched to a source that does not run" in machine.explain()


def _start_uart(machine: Machine, divisor: int) -> None:
    """Starts UART0 on the crystal's 12 MHz with a divisor in 64ths."""
    _start_crystal(machine)
    _write(machine, _CLOCKS + 0x48, 1 << 11 | 4 << 5)
    _release(machine, _UART0, _IO_BANK0, _PADS_BANK0)
    _write(machine, _UART + 0x24, divisor // 64)
    _write(machine, _UART + 0x28, divisor % 64)
    _write(machine, _UART + 0x2C, 3 << 5 | 1 << 4)
    _write(machine, _UART + 0x30, 0x301)
    for pin in (0, 1):
        _write(machine, _IO + 8 * pin + 4, 2)
        _write(machine, _PADS + 4 * pin + 4, 0x52)


def _send(machine: Machine, text: bytes) -> None:
    for byte in text:
        _write(machine, _UART, byte)
    while _read(machine, _UART + 0x18) & 1 << 3:
        pass


# 12 MHz * 4 / 115200 = 416.7.
@pytest.mark.parametrize(
    ("divisor", "readable"), [(417, True), (409, True), (424, True), (407, False), (426, False), (208, False)]
)
def test_a_baud_rate_off_by_more_than_two_percent_prints_garbage(machine, divisor, readable) -> None:
    machine.notes.clear()
    _start_uart(machine, divisor)
    _send(machine, b"hello")
    assert (machine.console.text == "hello") == readable
    assert readable == (not machine.notes), machine.notes


def test_a_pin_whose_pad_is_isolated_sends_nothing(machine: Machine) -> None:
    _start_uart(machine, 417)
    _write(machine, _PADS + 4, 1 << 8)
    _send(machine, b"hello")
    assert machine.console.text == "" and "no pin is switched to its TX" in machine.explain()


def test_a_byte_too_many_for_the_fifo_is_lost(machine: Machine) -> None:
    _start_uart(machine, 417)
    # One on its way, 32 in the FIFO; a debugger's access takes 10 us, a byte 87.
    _send(machine, bytes(range(48, 48 + 60)))
    assert len(machine.console.text) < 60 and "was full (TXFF)" in machine.explain()


def test_a_reset_of_the_uart_ends_what_it_was_sending(machine: Machine) -> None:
    machine.notes.clear()
    _start_uart(machine, 417)
    for byte in b"hello":
        _write(machine, _UART, byte)
    _write(machine, _RESETS + _SET, 1 << _UART0)
    _wait(machine, 2)
    assert machine.console.text == ""
    _start_uart(machine, 417)
    _send(machine, b"again")
    assert machine.console.text == "again" and machine.notes == []


def test_a_reset_by_the_debugger_is_the_cores_alone(machine: Machine) -> None:
    _start_crystal(machine)
    assert _start_pll(machine)
    _write(machine, _CLOCKS + 0x3C, 1)
    _write(machine, 0xE000ED0C, 0x05FA0004)
    assert machine.clock.hz == 150_000_000 and _read(machine, _PLL) >> 31
    machine.reset()
    assert machine.clock.hz == 11_000_000


def test_the_receiver_asks_for_an_interrupt_by_its_level_or_after_a_while(machine: Machine) -> None:
    _start_uart(machine, 417)
    # RXIM and RTIM; the level is half of the FIFO.
    _write(machine, _UART + 0x38, 0x50)
    machine.console.feed(b"a")
    while _read(machine, _UART + 0x18) & 1 << 4:
        pass
    assert _read(machine, _UART + 0x40) == 0
    while not _read(machine, _UART + 0x40):
        pass
    assert _read(machine, _UART + 0x40) == 1 << 6
    # UART0 is interrupt 33.
    assert _read(machine, 0xE000E204) == 1 << 1
    assert _read(machine, _UART) == ord("a") and _read(machine, _UART + 0x40) == 0
    machine.console.feed(b"b" * 16)
    while not _read(machine, _UART + 0x40) & 1 << 4:
        pass


def _start_watchdog(machine: Machine, milliseconds: int) -> None:
    _start_crystal(machine)
    _write(machine, _CLOCKS + 0x30, 2)
    _write(machine, _TICKS + 0x34, 12)
    _write(machine, _TICKS + 0x30, 1)
    _write(machine, _PSM + 8, 0x01FFFFF3)
    _write(machine, _WATCHDOG + 4, 1000 * milliseconds)
    _write(machine, _WATCHDOG + _SET, 1 << 30)


def _wait(machine: Machine, milliseconds: float) -> None:
    end = machine.clock.nanoseconds + 1e6 * milliseconds
    while machine.clock.nanoseconds < end:
        _read(machine, _WATCHDOG)


def test_the_watchdog_resets_the_chip_unless_it_is_fed(machine: Machine) -> None:
    _start_watchdog(machine, 10)
    for _ in range(3):
        _wait(machine, 8)
        _write(machine, _WATCHDOG + 4, 10_000)
    assert "watchdog" not in machine.explain()
    _wait(machine, 12)
    assert "was not fed in time: it resets the chip" in machine.explain()
    assert machine.system.reset_requested


def test_a_watchdog_that_does_nothing(machine: Machine) -> None:
    _write(machine, _WATCHDOG + 4, 1000)
    _write(machine, _WATCHDOG + _SET, 1 << 30)
    assert "without ticks" in machine.explain()
    machine.reset()
    _start_watchdog(machine, 1)
    _write(machine, _PSM + 8, 0)
    _wait(machine, 2)
    assert "resets nothing (PSM_WDSEL)" in machine.explain() and not machine.system.reset_requested
