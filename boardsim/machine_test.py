"""Tests the simulated chip by itself, as a debugger sees it; //firmware/tests has tests of images that run on it."""

import signal
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.cpu import Stop
from boardsim.machine import Machine
from boardsim.memory import BusError
from tools.artifacts.board.board import Board, read_board
from tools.artifacts.board.testing import write_board
from tools.quiet.console import UserError

_RCC, _FLASH, _USART1, _GPIOB = 0x58000000, 0x58004000, 0x40013800, 0x48000400
_KEYR, _SR, _CR, _ECCR = _FLASH + 0x08, _FLASH + 0x10, _FLASH + 0x14, _FLASH + 0x18
_PG, _PER, _MER, _STRT, _LOCK, _BSY = 1 << 0, 1 << 1, 1 << 2, 1 << 16, 1 << 31, 1 << 16
_OPTVERR = 1 << 15
_PROGERR, _WRPERR, _PGAERR, _SIZERR, _PGSERR = 1 << 3, 1 << 4, 1 << 5, 1 << 6, 1 << 7
_PAGE = 0x08010000


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return read_board(
        write_board(
            tmp_path, name="nucleo", console={"uart": "USART1", "baud": "115200"}, simulator={"chip": "stm32wb55rg"}
        )
    )


@pytest.fixture
def machine(board: Board) -> Machine:
    return simulated(board)


def _unlock(machine: Machine) -> None:
    machine.debugger.write_register(_SR, 4, _OPTVERR)
    machine.debugger.write_register(_KEYR, 4, 0x45670123)
    machine.debugger.write_register(_KEYR, 4, 0xCDEF89AB)


def _wait(machine: Machine) -> int:
    """Waits for the end of a flash operation; returns FLASH_SR."""
    for _ in range(10_000):
        status = machine.debugger.read_register(_SR)
        if not status & _BSY:
            return status
    raise AssertionError("BSY stays set")


def _program(machine: Machine, address: int, low: int, high: int) -> int:
    machine.debugger.write_register(_CR, 4, _PG)
    machine.debugger.write_register(address, 4, low)
    machine.debugger.write_register(address + 4, 4, high)
    status = _wait(machine)
    machine.debugger.write_register(_CR, 4, 0)
    return status


def _erase(machine: Machine, page: int) -> None:
    machine.debugger.write_register(_CR, 4, _PER | page << 3)
    machine.debugger.write_register(_CR, 4, _PER | page << 3 | _STRT)


def _run_code(machine: Machine, *halfwords: int) -> Stop:
    """Runs Thumb code from RAM."""
    machine.debugger.write(0x20000400, struct.pack(f"<{len(halfwords)}H", *halfwords))
    machine.debugger.write(0x08000000, struct.pack("<II", 0x20000400, 0x20000401))
    machine.reset()
    return machine.run(1000)


def test_a_chip_without_a_model(board: Board, tmp_path: Path) -> None:
    unknown = read_board(write_board(tmp_path, simulator={"chip": "z80"}))
    with pytest.raises(UserError, match="names chip 'z80', which there is no simulator of; .*stm32wb55rg"):
        simulated(unknown)


def test_flash_is_programmed_after_unlocking_only(machine: Machine) -> None:
    machine.debugger.write_register(_PAGE, 4, 0x12345678)
    assert machine.debugger.read(_PAGE, 4) == b"\xff" * 4
    assert machine.debugger.read_register(_SR) & _PGSERR
    machine.debugger.write_register(_SR, 4, _PGSERR)
    machine.debugger.write_register(_CR, 4, _PG)
    assert machine.debugger.read_register(_CR) & _LOCK
    _unlock(machine)
    assert not machine.debugger.read_register(_CR) & _LOCK
    assert _program(machine, _PAGE, 0x12345678, 0x9ABCDEF0) == 0
    assert machine.debugger.read(_PAGE, 8) == struct.pack("<II", 0x12345678, 0x9ABCDEF0)
    # The alias at 0 is the same memory.
    assert machine.debugger.read(_PAGE - 0x08000000, 4) == struct.pack("<I", 0x12345678)


def test_a_programmed_double_word_has_to_be_erased_first(machine: Machine) -> None:
    _unlock(machine)
    assert _program(machine, _PAGE, 1, 2) == 0
    assert _program(machine, _PAGE, 3, 4) & _PROGERR
    assert machine.debugger.read(_PAGE, 8) == struct.pack("<II", 1, 2)
    machine.debugger.write_register(_SR, 4, _PROGERR)
    _erase(machine, 16)
    assert machine.debugger.read_register(_SR) & _BSY
    _wait(machine)
    assert machine.debugger.read(_PAGE, 4096) == b"\xff" * 4096
    assert _program(machine, _PAGE, 3, 4) == 0


def test_reading_a_double_word_that_a_power_cut_left_half_written_raises_nmi(machine: Machine) -> None:
    machine.debugger.write(0x08000000, struct.pack("<III", 0x20000400, 0x20000401, 0x20000411))
    _unlock(machine)
    machine.debugger.write_register(_CR, 4, _PG)
    machine.debugger.write_register(_PAGE, 4, 1)
    machine.debugger.write_register(_PAGE + 4, 4, 2)

    def count() -> int:
        """Reads the double word before, this one's second word and the next; returns how often the handler ran."""
        # LDR r0, [r1]; LDR r0, [r1, #12]; LDR r0, [r1, #16]; B . The handler: ADDS r5, #1; STR r3, [r4]; BX LR.
        machine.debugger.write(0x20000400, struct.pack("<4H", 0x6808, 0x68C8, 0x6908, 0xE7FE))
        machine.debugger.write(0x20000410, struct.pack("<3H", 0x3501, 0x6023, 0x4770))
        for register, value in {"r1": _PAGE - 8, "r3": 1 << 31, "r4": _ECCR, "r5": 0}.items():
            machine.cpu.set(register, value)
        machine.run(100)
        return machine.cpu.get("r5")

    machine.power_cycle()
    assert count() == 1
    assert machine.debugger.read_register(_ECCR) == (_PAGE & 0xFFFFF) >> 3
    machine.reset()
    assert count() == 1
    # Zeros make it whole.
    _unlock(machine)
    assert _program(machine, _PAGE, 0, 0) == 0
    machine.reset()
    assert count() == 0


@pytest.mark.parametrize(
    ("address", "size", "error"), [(_PAGE + 4, 4, _PGAERR), (_PAGE, 2, _SIZERR), (_PAGE, 1, _SIZERR)]
)
def test_flash_takes_aligned_double_words_only(machine: Machine, address: int, size: int, error: int) -> None:
    _unlock(machine)
    machine.debugger.write_register(_CR, 4, _PG)
    machine.debugger.write_register(address, size, 0)
    assert machine.debugger.read_register(_SR) & error
    assert machine.debugger.read(_PAGE, 8) == b"\xff" * 8


def test_a_wrong_key_locks_until_the_next_reset(machine: Machine) -> None:
    machine.debugger.write_register(_KEYR, 4, 0xDEADBEEF)
    _unlock(machine)
    assert machine.debugger.read_register(_CR) & _LOCK
    machine.reset()
    _unlock(machine)
    assert not machine.debugger.read_register(_CR) & _LOCK


def test_the_radio_cores_flash_is_protected(machine: Machine) -> None:
    machine.debugger.write(0x080D4000, b"radio")
    _unlock(machine)
    _erase(machine, 0xD4)
    assert machine.debugger.read_register(_SR) & _WRPERR
    assert machine.debugger.read(0x080D4000, 5) == b"radio"


def test_power_lost_while_erasing_leaves_neither_old_nor_new(machine: Machine) -> None:
    old = bytes(range(256)) * 16
    machine.debugger.write(_PAGE, old)
    _unlock(machine)
    _erase(machine, 16)
    machine.power_cycle()
    torn = machine.debugger.read(_PAGE, 4096)
    assert torn not in (old, b"\xff" * 4096)
    assert machine.debugger.read_register(_CR) & _LOCK
    _unlock(machine)
    _erase(machine, 16)
    _wait(machine)
    assert machine.debugger.read(_PAGE, 4096) == b"\xff" * 4096


def test_the_application_core_can_neither_mass_erase_nor_program_fast(machine: Machine) -> None:
    # RM0434, FLASH, "Flash main memory erase sequences"; errata ES0394 for OPTVERR.
    assert machine.debugger.read_register(_SR) == _OPTVERR
    machine.debugger.write(_PAGE, b"old")
    _unlock(machine)
    machine.debugger.write_register(_CR, 4, _MER)
    with pytest.raises(BusError):
        machine.debugger.write_register(_CR, 4, _MER | _STRT)
    assert _wait(machine) == 0 and machine.debugger.read(_PAGE, 3) == b"old"
    machine.debugger.write_register(_CR, 4, 1 << 18)
    machine.debugger.write_register(_PAGE + 8, 4, 0)
    assert machine.debugger.read_register(_SR) == _PGSERR
    assert "mass erase" in machine.explain()


def test_a_mass_erase_by_the_core_is_a_bus_fault(machine: Machine) -> None:
    # ldr r0, =FLASH_KEYR; ldr r1, r2, keys; str, str; movs r3, #4; str r3, [r0, #0xc]; movt r3, #1; str; b .
    code = (0x4806, 0x4907, 0x4A07, 0x6001, 0x6002, 0x2304, 0x60C3, 0xF2C0, 0x0301, 0x60C3, 0xBF00, 0xBF00, 0xE7FE)
    words = (_KEYR, 0x45670123, 0xCDEF89AB)
    _run_code(machine, *code, 0xBF00, *(half for word in words for half in (word & 0xFFFF, word >> 16)))
    assert machine.debugger.read_register(0xE000ED28) >> 10 & 1, machine.explain()  # CFSR.IMPRECISERR
    assert "a write before it ended in an error of the bus" in machine.explain()


def test_fast_programming_of_an_stm32l4_takes_whole_rows(board: Board) -> None:
    machine = simulated(replace(board, simulator={"chip": "stm32l475vg"}))
    base, row = 0x40022000, bytes(i * 7 & 0xFF for i in range(256))
    machine.debugger.write_register(base + 0x08, 4, 0x45670123)
    machine.debugger.write_register(base + 0x08, 4, 0xCDEF89AB)
    machine.debugger.write_register(base + 0x14, 4, 1 << 18)
    for offset in range(0, 256, 4):
        machine.debugger.write_register(_PAGE + offset, 4, int.from_bytes(row[offset : offset + 4], "little"))
    while machine.debugger.read_register(base + 0x10) & _BSY:
        pass
    assert machine.debugger.read_register(base + 0x10) == 0
    assert machine.debugger.read(_PAGE, 256) == row
    machine.debugger.write_register(_PAGE + 256, 4, 0)
    machine.debugger.write_register(_PAGE + 260, 4, 0)
    machine.debugger.write_register(base + 0x14, 4, 0)
    assert machine.debugger.read_register(base + 0x10) & 1 << 9  # FASTERR
    assert machine.debugger.read(_PAGE + 256, 8) == b"\xff" * 8


_MISALIGNED = {
    "ldrd r0, r1, [r2]": (0xE9D2, 0x0100),
    "strd r0, r1, [r2]": (0xE9C2, 0x0100),
    "ldm r2!, {r0, r1}": (0xCA03,),
    "stm r2!, {r0, r1}": (0xC203,),
    "ldm.w r2, {r0, r1}": (0xE892, 0x0003),
    "ldrex r0, [r2]": (0xE852, 0x0F00),
    "vldr s0, [r2]": (0xED92, 0x0A00),
    "vstm r2!, {s0}": (0xECA2, 0x0A01),
}
_ALIGNED = {
    "ldr r0, [r2]": (0x6810,),
    "str r0, [r2]": (0x6010,),
    "ldrh r0, [r2]": (0x8810,),
    "ldrexh r0, [r2]": (0xE8D2, 0x0F5F),
    "ldrexb r0, [r2]": (0xE8D2, 0x0F4F),
    "vmov r0, r2, s0, s1": (0xEC52, 0x0A10),
    # The flags of a reset say that it is not executed.
    "it eq; ldmeq r2!, {r0, r1}": (0xBF08, 0xCA03),
}


def _run_in_flash(machine: Machine, halfwords: tuple[int, ...], r2: int) -> bool:
    """Runs an instruction in flash; returns whether it was a UsageFault for its alignment."""
    code = (*halfwords, 0xE7FE)
    machine.debugger.write(0x08000000, struct.pack(f"<II{len(code)}H", 0x20000400, 0x08000009, *code))
    machine.reset()
    machine.debugger.write_register(0xE000ED88, 4, 0xF << 20)
    machine.cpu.set("r2", r2)
    machine.run(2)
    return bool(machine.debugger.read_register(0xE000ED28) >> 24 & 1)


@pytest.mark.parametrize("name", sorted(_MISALIGNED))
def test_what_needs_an_aligned_address_faults_without(machine: Machine, name: str) -> None:
    assert not _run_in_flash(machine, _MISALIGNED[name], 0x20000404), machine.explain()
    assert _run_in_flash(machine, _MISALIGNED[name], 0x20000402)
    assert "unaligned access by an instruction that needs alignment" in machine.explain()


@pytest.mark.parametrize("name", sorted(_ALIGNED))
def test_what_needs_no_alignment_or_less(machine: Machine, name: str) -> None:
    assert not _run_in_flash(machine, _ALIGNED[name], 0x20000402), machine.explain()


def test_alignment_is_looked_at_again_from_time_to_time(machine: Machine) -> None:
    # ldrd r0, r1, [r2]; b .-4
    code = (0xE9D2, 0x0100, 0xE7FC)
    machine.debugger.write(0x08000000, struct.pack("<II3H", 0x20000400, 0x08000009, *code))
    machine.reset()
    machine.cpu.set("r2", 0x20000404)
    assert machine.run(600_000) is Stop.INSTRUCTIONS
    machine.cpu.set("r2", 0x20000402)
    assert machine.run(600_000) is Stop.LOCKUP
    assert "unaligned access" in machine.explain()


def test_a_pll_whose_source_is_not_ready_never_locks(machine: Machine) -> None:
    machine.debugger.write_register(_RCC + 0x0C, 4, 3 | 1 << 4 | 8 << 8 | 1 << 28 | 1 << 29)
    machine.debugger.write_register(_RCC, 4, 0x61 | 1 << 16 | 1 << 24)
    for _ in range(1000):
        assert not machine.debugger.read_register(_RCC) >> 25 & 1
    # The crystal is running by now.
    assert machine.debugger.read_register(_RCC) >> 17 & 1
    assert any("HSE was not ready" in note and "never locks" in note for note in machine.notes)
    machine.debugger.write_register(_RCC, 4, 0x61 | 1 << 16)
    machine.debugger.write_register(_RCC, 4, 0x61 | 1 << 16 | 1 << 24)
    machine.debugger.read_register(_RCC)
    machine.debugger.read_register(_RCC)
    assert machine.debugger.read_register(_RCC) >> 25 & 1


def test_flash_above_18_mhz_needs_wait_states(machine: Machine) -> None:
    # MSI at 24 MHz.
    machine.debugger.write_register(_RCC, 4, 0x01 | 9 << 4)
    assert machine.cpu.locked_up and "24 MHz with 0 wait states" in machine.explain()
    machine.reset()
    machine.debugger.write(0x08000000, struct.pack("<II", 0x20000400, 0x20000401))
    machine.reset()
    machine.debugger.write_register(_FLASH, 4, 0x601)
    machine.debugger.write_register(_RCC, 4, 0x01 | 9 << 4)
    assert not machine.cpu.locked_up and machine.clock.hz == 24_000_000


def test_a_core_that_is_too_fast_for_its_voltage(machine: Machine) -> None:
    # PWR_CR1: range 2.
    machine.debugger.write_register(0x58000400, 4, 2 << 9)
    machine.debugger.write_register(_FLASH, 4, 0x603)
    machine.debugger.write_register(_RCC, 4, 0x01 | 10 << 4)
    assert machine.cpu.locked_up
    assert "the core runs at 32 MHz in voltage range 2, which allows 16 MHz" in machine.explain()


def _start_usart(machine: Machine, divisor: int) -> None:
    machine.debugger.write_register(_RCC + 0x4C, 4, 1 << 1)
    machine.debugger.write_register(_RCC + 0x60, 4, 1 << 14)
    machine.debugger.write_register(_GPIOB + 0x20, 4, 0x77 << 24)
    machine.debugger.write_register(_GPIOB, 4, 0xFFFFFEBF & ~(0xF << 12) | 0xA << 12)
    machine.debugger.write_register(_USART1 + 0x0C, 4, divisor)
    machine.debugger.write_register(_USART1, 4, 1 | 1 << 2 | 1 << 3)


# 256 * 4 MHz / 115200 = 8889; "Low-power universal asynchronous receiver transmitter", LPUART_BRR: at least 0x300.
@pytest.mark.parametrize(("divisor", "readable"), [(8889, True), (8730, True), (8600, False), (35, False)])
def test_the_low_power_uart_divides_in_256ths(board: Board, divisor: int, readable: bool) -> None:
    machine = simulated(replace(board, console={"uart": "LPUART1", "baud": "115200"}))
    lpuart, port = 0x40008000, 0x48000000
    machine.debugger.write_register(_RCC + 0x4C, 4, 1 << 0)
    machine.debugger.write_register(_RCC + 0x5C, 4, 1 << 0)
    # PA2 and PA3: alternate function 8.
    machine.debugger.write_register(port + 0x20, 4, 0x88 << 8)
    machine.debugger.write_register(port, 4, 0xABFFFFFF & ~(0xF << 4) | 0xA << 4)
    machine.debugger.write_register(lpuart + 0x0C, 4, divisor)
    machine.debugger.write_register(lpuart, 4, 1 | 1 << 2 | 1 << 3)
    for byte in b"hi":
        machine.debugger.write_register(lpuart + 0x28, 1, byte)
        # TC.
        for _ in range(100):
            machine.debugger.read_register(lpuart + 0x1C)
    assert (machine.console.text == "hi") == readable
    assert readable == (not machine.notes), machine.notes


def _send(machine: Machine, text: bytes) -> None:
    for byte in text:
        while not machine.debugger.read_register(_USART1 + 0x1C) >> 7 & 1:
            pass
        machine.debugger.write_register(_USART1 + 0x28, 1, byte)
    while not machine.debugger.read_register(_USART1 + 0x1C) >> 6 & 1:
        pass


# 4 MHz / 115200 = 34.7.
@pytest.mark.parametrize(("divisor", "readable"), [(35, True), (34, False), (36, False), (17, False)])
def test_a_baud_rate_off_by_more_than_two_percent_prints_garbage(machine, divisor, readable) -> None:
    _start_usart(machine, divisor)
    _send(machine, b"hello")
    assert (machine.console.text == "hello") == readable
    assert readable == (not machine.notes)


@pytest.mark.parametrize(
    ("register", "says"),
    [
        (_RCC + 0x60, "USART1_TDR was written while the clock of USART1 is off"),
        (_GPIOB, "USART1 sends, but none of its TX pins is switched to it"),
    ],
)
def test_what_is_missing_before_a_byte_is_sent_is_named(machine, monkeypatch, register, says) -> None:
    write = machine.debugger.write_register
    with monkeypatch.context() as patch:
        patch.setattr(machine.debugger, "write_register", lambda at, *rest: at == register or write(at, *rest))
        _start_usart(machine, 35)
    write(_USART1 + 0x28, 1, 0x41)
    machine.clock.pass_time(1_000_000)
    assert machine.console.text == "" and any(says in note for note in machine.notes)


def test_a_byte_that_is_not_waited_for_is_lost(machine: Machine) -> None:
    _start_usart(machine, 35)
    for byte in b"hello":
        machine.debugger.write_register(_USART1 + 0x28, 1, byte)
    _send(machine, b"!")
    assert machine.console.text != "hello!" and "before it was empty" in machine.explain()


def test_typed_bytes_arrive_one_after_the_other(machine: Machine) -> None:
    _start_usart(machine, 35)
    machine.console.feed(b"ab")
    received = b""
    while len(received) < 2:
        if machine.debugger.read_register(_USART1 + 0x1C) >> 5 & 1:
            received += bytes([machine.debugger.read_register(_USART1 + 0x24, 1)])
    assert received == b"ab"


def test_registers_without_a_clock_read_zero(machine: Machine) -> None:
    machine.debugger.write_register(_GPIOB, 4, 0)
    assert machine.debugger.read_register(_GPIOB) == 0
    machine.debugger.write_register(_RCC + 0x4C, 4, 1 << 1)
    assert machine.debugger.read_register(_GPIOB) == 0xFFFFFEBF
    assert any("clock of GPIOB is off" in note for note in machine.notes)


def test_nothing_answers_between_peripherals(machine: Machine) -> None:
    for address in (0x40013400, 0x60000000, 0x20040000, 0x080FFFFE + 2):
        with pytest.raises(BusError):
            machine.debugger.read(address, 4)


def test_code_runs_until_a_breakpoint_and_step_by_step(machine: Machine) -> None:
    machine.debugger.write_register(0xE000EDF0, 4, 0xA05F0001)
    # movs r0, #5; adds r0, #1; bkpt #0
    assert _run_code(machine, 0x2005, 0x3001, 0xBE00) is Stop.BREAKPOINT
    assert machine.cpu.get("r0") == 6 and machine.cpu.get("pc") == 0x20000404 and machine.cpu.instructions == 2
    assert machine.debugger.read_register(0xE000EDF0) >> 17 & 1  # S_HALT
    machine.reset(halt=True)
    machine.run_control.step()
    assert machine.cpu.get("r0") == 5 and machine.cpu.get("pc") == 0x20000402
    machine.run_control.add_breakpoint(0x20000402)
    machine.reset()
    assert machine.run() is Stop.BREAKPOINT and machine.cpu.get("r0") == 5
    machine.run_control.resume()
    assert machine.run() is Stop.BREAKPOINT and machine.cpu.get("r0") == 6


def test_an_interrupt_takes_effect_when_the_engine_has_stopped(machine, monkeypatch) -> None:
    went_on = []

    def read(_offset: int, _size: int) -> int:
        signal.raise_signal(signal.SIGINT)
        went_on.append(True)
        return 0

    monkeypatch.setattr(machine.bus.peripheral_at(_USART1), "bus_read", read)
    # ldr r0, [pc, #4]; ldr r1, [r0]; b to itself
    with pytest.raises(KeyboardInterrupt):
        _run_code(machine, 0x4801, 0x6801, 0xE7FE, 0xBF00, _USART1 & 0xFFFF, _USART1 >> 16)
    assert went_on == [True]


def test_instructions_are_counted_one_by_one(machine: Machine) -> None:
    # nop; nop; b to the first
    _run_code(machine, 0xBF00, 0xBF00, 0xE7FC)
    machine.reset()
    before = machine.cpu.instructions
    for count in (1, 2, 7, 100, 12345):
        assert machine.run(count) is Stop.INSTRUCTIONS
    assert machine.cpu.instructions - before == 12455 and machine.cpu.get("pc") == 0x20000400 + 12455 % 3 * 2


def test_a_fault_enters_the_handler_with_its_cause(machine: Machine) -> None:
    machine.debugger.write(0x0800000C, struct.pack("<I", 0x20000421))
    machine.debugger.write(0x20000420, struct.pack("<HH", 0xBF30, 0xE7FE))
    # ldr r1, [pc, #4]; ldr r0, [r1]; nop; nop; the address of nothing.
    assert _run_code(machine, 0x4901, 0x6808, 0xBF00, 0xBF00, 0x0000, 0x6000) is Stop.SLEEP
    assert machine.debugger.read_register(0xE000ED28) == 0x8200  # PRECISERR, BFARVALID
    assert machine.debugger.read_register(0xE000ED38) == 0x60000000
    frame = struct.unpack("<8I", machine.debugger.read(machine.cpu.get("sp"), 32))
    assert frame[6] == 0x20000402 and machine.cpu.get("xpsr") & 0x1FF == 3


def test_a_fault_in_the_fault_handler_locks_up(machine: Machine) -> None:
    machine.debugger.write(0x0800000C, struct.pack("<I", 0x20000421))
    machine.debugger.write(0x20000420, struct.pack("<H", 0xDE00))
    assert _run_code(machine, 0xDE00) is Stop.LOCKUP
    assert "undefined instruction" in machine.explain() and "lockup" in machine.explain()


def test_the_fpu_is_off_until_it_is_turned_on(machine: Machine) -> None:
    machine.debugger.write(0x0800000C, struct.pack("<I", 0x20000421))
    machine.debugger.write(0x20000420, struct.pack("<H", 0xBF30))
    # vadd.f32 s0, s0, s0
    assert _run_code(machine, 0xEE30, 0x0A00) is Stop.SLEEP
    assert machine.debugger.read_register(0xE000ED28) == 1 << 19


def test_an_interrupt_preempts_and_returns(machine: Machine) -> None:
    # SysTick: counts up r4 in its handler, which the sleeping main program then sees.
    machine.debugger.write(0x0800003C, struct.pack("<I", 0x20000441))
    machine.debugger.write(0x20000440, struct.pack("<HH", 0x3401, 0x4770))
    machine.debugger.write(0x20000430, struct.pack("<II", 0xE000E010, 999))
    # ldr r1, =SYST_CSR; ldr r2, =999; str r2, [r1, #4]; movs r2, #7; str r2, [r1]; wfi; wfi; bkpt
    machine.debugger.write_register(0xE000EDF0, 4, 0xA05F0001)
    assert _run_code(machine, 0x490B, 0x4A0C, 0x604A, 0x2207, 0x600A, 0xBF30, 0xBF30, 0xBE00) is Stop.BREAKPOINT
    assert machine.cpu.get("r4") == 2 and machine.cpu.get("xpsr") & 0x1FF == 0


def test_the_vector_table_must_be_aligned(machine: Machine) -> None:
    machine.debugger.write_register(0xE000ED08, 4, 0x08000080)
    assert "VTOR was set to 0x08000080, which is no multiple of 512" in machine.explain()


def test_a_reset_vector_without_the_thumb_bit(machine: Machine) -> None:
    machine.debugger.write(0x08000000, struct.pack("<II", 0x20000400, 0x20000400))
    machine.reset()
    assert machine.run(100) is Stop.LOCKUP
    assert "reset vector, 0x20000400, lacks bit 0" in machine.explain()


@pytest.mark.parametrize(
    ("base", "enable", "interrupt", "top"),
    [
        (0x40014400, (0x60, 17), 25, 0xFFFF),
        (0x40014800, (0x60, 18), 26, 0xFFFF),
        (0x40000000, (0x58, 0), 28, 0xFFFFFFFF),
    ],
)
def test_a_timer_counts_and_matches(machine, base, enable, interrupt, top) -> None:
    debugger = machine.debugger
    debugger.write_register(_RCC + enable[0], 4, 1 << enable[1])
    # MSI at 4 MHz makes microseconds.
    for offset, value in ((0x28, 3), (0x14, 1), (0x10, 0), (0x34, 500), (0x0C, 2), (0x00, 1)):
        debugger.write_register(base + offset, 4, value)
    machine.clock.pass_time(400_000)
    assert 395 <= debugger.read_register(base + 0x24) <= 420
    assert not debugger.read_register(base + 0x10) & 2
    machine.clock.pass_time(100_000)
    assert debugger.read_register(base + 0x10) == 2
    pending = 0xE000E200 + 4 * (interrupt // 32)
    assert debugger.read_register(pending) >> interrupt % 32 & 1
    debugger.write_register(base + 0x10, 4, 0)
    debugger.write_register(base + 0x24, 4, top)
    machine.clock.pass_time(10_000)
    assert debugger.read_register(base + 0x10) & 1 and debugger.read_register(base + 0x24) < 100
