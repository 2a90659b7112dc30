"""Tests the whole command, through pyOCD, with a simulated probe: the flash algorithm runs on the simulated core."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyocd.core import exceptions

from boardsim.machine import Machine
from boardsim.memory import BusError
from tools.artifacts.intel_hex.reader import read_intel_hex
from tools.commands.flash import simulated_probe
from tools.commands.flash.simulated_probe import SimulatedProbe
from tools.commands.flash.testing import BoardUnderTest, discovery, first_pico, nordic, nucleo, nucleo_144, pico

_NUCLEO = nucleo()
_FLASH, _PAGE = _NUCLEO.flash, _NUCLEO.sector
_flash, _holds, _small = _NUCLEO.run, _NUCLEO.holds, _NUCLEO.small


@pytest.fixture(autouse=True)
def _nothing_connected() -> Iterator[None]:
    yield
    simulated_probe.disconnect_all()


@pytest.fixture
def machine() -> Machine:
    return _NUCLEO.machine()


@pytest.fixture
def probe(machine: Machine) -> SimulatedProbe:
    return simulated_probe.connect(machine, "SIM1")


# Tests with both boards: our algorithm on the NUCLEO-WB55RG, pyOCD's own, which calls the boot ROM, on the Pico 2 W.


@pytest.fixture(params=[nucleo(), pico()], ids=lambda board: board.name)
def board(request: pytest.FixtureRequest) -> BoardUnderTest:
    return request.param


@pytest.fixture
def empty(board: BoardUnderTest) -> Machine:
    """Returns the board as it comes from the factory, at a probe."""
    machine = board.machine()
    simulated_probe.connect(machine, "SIM1")
    return machine


def test_an_empty_board_is_programmed_verified_and_started(board, empty, capsys) -> None:
    assert board.run() == 0
    assert board.holds(empty)
    out = capsys.readouterr().out
    assert f"verified {sum(len(data) for _, data in read_intel_hex(board.image)):,} bytes" in out
    assert f"runs on {board.name}" in out
    empty.run(instructions=20_000_000)
    assert "\nPASS\n" in empty.console.text


def test_only_changed_sectors_are_written(board, empty, tmp_path, capsys) -> None:
    assert board.run(image=board.small(tmp_path, 1)) == 0
    assert board.run(image=board.small(tmp_path, 1)) == 0
    assert "sectors erased: 0, pages written: 0" in capsys.readouterr().out
    changed = board.small(tmp_path, 2)
    assert board.run(image=changed) == 0
    # The second of four sectors is the same in both; the last one has one page.
    pages = 2 * (board.sector // board.page) + 1
    assert f"sectors erased: 3, pages written: {pages}" in capsys.readouterr().out
    assert board.holds(empty, changed)


def test_chip_erase_blanks_all_of_the_flash(board: BoardUnderTest, empty: Machine, tmp_path: Path) -> None:
    for sector in (100, board.last_sector):
        empty.debugger.write(board.flash + sector * board.sector, b"old")
    image = board.small(tmp_path, 1, sectors=1)
    assert board.run("--erase", "chip", image=image) == 0
    assert board.holds(empty, image)
    for sector in (100, board.last_sector):
        assert empty.debugger.read(board.flash + sector * board.sector, 3) == b"\xff" * 3


def test_follow_shows_the_console(board: BoardUnderTest, capsys: pytest.CaptureFixture[str]) -> None:
    assert board.run("--simulate", "--follow") == 0
    out = capsys.readouterr().out
    assert out.index(f"runs on {board.name}") < out.index("PASS")
    # The image counts cycles as on a board that no debugger ever touched.
    alone = board.machine()
    board.put(alone, board.image)
    alone.reset()
    alone.run(instructions=20_000_000)
    assert "cycles" in alone.console.text and alone.console.text in out


def test_the_cycle_counter_runs_again_after_a_debugger_left(board: BoardUnderTest) -> None:
    machine = board.machine()
    board.put(machine, board.image)
    machine.reset()
    machine.run(instructions=20_000_000)
    (cycles,) = _execute_cycles(machine.console.text)
    # Letting go of the core, which clears DEMCR.TRCENA.
    machine.debugger.write_register(0xE000EDFC, 4, 0)
    machine.console.output.clear()
    machine.console.feed(b"1 2 3 4\n")
    machine.run(instructions=20_000_000)
    (again,) = _execute_cycles(machine.console.text)
    assert abs(again - cycles) < cycles / 10


def _execute_cycles(console: str) -> list[int]:
    return [int(count) for count in re.findall(r"^execute: (\d+) cycles", console, re.MULTILINE)]


def test_a_flash_cell_that_does_not_take_its_value(board, empty, capsys, monkeypatch) -> None:
    flash = empty.chip.flash
    program = flash.program

    def weak(start: int, data: bytes) -> None:
        at = 0x1008 - start
        program(start, data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :] if 0 <= at < len(data) else data)

    monkeypatch.setattr(flash, "program", weak)
    assert board.run() == 1
    assert f"verification failed at {board.flash + 0x1008:#010x}" in capsys.readouterr().err


@pytest.mark.parametrize(("mine", "other"), [(nucleo(), pico()), (pico(), nucleo())], ids=lambda board: board.name)
def test_another_board_on_the_probe(mine, other, capsys) -> None:
    machine = other.machine()
    simulated_probe.connect(machine, "SIM1")
    assert mine.run() == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "another chip" in error
    assert machine.debugger.read(other.flash, 4096) == b"\xff" * 4096


# The NUCLEO-WB55RG.


def test_what_lies_behind_the_image_stays(machine: Machine, probe: SimulatedProbe, tmp_path: Path) -> None:
    # Pages up to the radio core's.
    behind = _FLASH + 16 * _PAGE
    machine.debugger.write(behind, b"radio stack")
    assert _flash(image=_small(tmp_path, 1)) == 0
    assert machine.debugger.read(behind, 11) == b"radio stack"


# Failures.


def test_flash_that_is_write_protected(machine, probe, capsys, monkeypatch) -> None:
    flash = machine.chip.flash
    monkeypatch.setattr(flash, "_erase", lambda value: flash._error(1 << 4))
    machine.debugger.write(_FLASH, b"old")
    assert _flash() == 1
    error = capsys.readouterr().err
    assert "write-protected" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    ("register", "value", "says"),
    [
        (0xE0042000, 0x10006461, "another chip (device id 0x461"),
        (0x58004020, 0x3FFFF1BB, "the target is locked (read-out protection level 1)"),
        (0x58004020, 0x3FFFF1CC, "level 2 cannot be undone"),
        (0x58004080, 0x00000002, "the radio core's stack starts at 0x08002000"),
    ],
)
def test_a_target_that_will_not_do(machine, probe, monkeypatch, capsys, register, value, says) -> None:
    read = machine.debugger.read_register
    monkeypatch.setattr(
        machine.debugger, "read_register", lambda address, size=4: value if address == register else read(address, size)
    )
    before = machine.debugger.read(_FLASH, 4096)
    assert _flash() == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert machine.debugger.read(_FLASH, 4096) == before


def test_a_chip_of_another_maker(machine, probe, monkeypatch, capsys) -> None:
    read = machine.debugger.read_register

    def nothing_there(address: int, size: int = 4) -> int:
        if address == 0xE0042000:
            raise BusError("nothing answers")
        return read(address, size)

    monkeypatch.setattr(machine.debugger, "read_register", nothing_there)
    assert _flash() == 1
    assert "another chip (device id 0x000" in capsys.readouterr().err


def test_one_of_several_probes(machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str]) -> None:
    other = _NUCLEO.machine()
    simulated_probe.connect(other, "SIM2")
    assert _flash() == 1
    assert "several debug probes: SIM1 (Torch Fusion simulated nucleo_wb55rg), SIM2" in capsys.readouterr().err
    assert _flash("--list") == 0
    out = capsys.readouterr().out
    assert out.splitlines() == [f"SIM{i}  Torch Fusion simulated nucleo_wb55rg" for i in (1, 2)]
    assert _flash("--probe", "sim2") == 0
    assert _holds(other)
    assert not _holds(machine)


def test_a_board_without_power(machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str]) -> None:
    def dead(_: SimulatedProbe) -> None:
        raise exceptions.TransferError("no ACK")

    probe.trip = dead
    assert _flash() == 1
    error = capsys.readouterr().err
    assert error.startswith("flash: error: ")
    assert error.count("\n") == 1


# The B-L475E-IOT01A: pyOCD's own algorithm for the STM32L4, in the simulated core.


@pytest.mark.parametrize("erase", ["sector", "chip"])
def test_another_stm32_is_programmed_by_pyocds_algorithm(tmp_path, erase, capsys) -> None:
    board = discovery()
    other = board.machine()
    simulated_probe.connect(other, "SIM1")
    for seed in (1, 2):
        image = board.small(tmp_path, seed)
        assert board.run("--erase", erase, image=image) == 0, capsys.readouterr().err
        assert board.holds(other, image)
    # The second of four sectors is the same in both.
    assert f"sectors erased: {3 if erase == 'sector' else 0}," in capsys.readouterr().out.splitlines()[-2]


# A Pico, whose boot ROM programs it, an nRF52840, whose flash is programmed by words, and an STM32H743, whose sectors
# are large.


@pytest.mark.parametrize(
    ("board", "sectors", "erased"),
    # The second of three sectors and a part stays; of the large ones, a part is enough.
    [(first_pico(), 3, 3), (nordic(), 3, 3), (nucleo_144(), 0, 1)],
    ids=lambda value: value.name if isinstance(value, BoardUnderTest) else None,
)
def test_other_chips_are_programmed_by_pyocds_algorithms(board, sectors, erased, tmp_path, capsys) -> None:
    machine = board.machine()
    simulated_probe.connect(machine, "SIM1")
    for seed in (1, 2):
        image = board.small(tmp_path, seed, sectors)
        assert board.run(image=image) == 0, capsys.readouterr().err
        assert board.holds(machine, image)
    assert f"sectors erased: {erased}," in capsys.readouterr().out.splitlines()[-2]


@pytest.mark.parametrize(
    ("register", "value", "says"),
    [
        (0xE0042000, 0x20016495, "another chip (device id 0x495, an STM32L475 has 0x415)"),
        (0x40022020, 0xFFEFF8BB, "the target is locked (read-out protection level 1)"),
    ],
)
def test_another_stm32_that_will_not_do(monkeypatch, tmp_path, capsys, register, value, says) -> None:
    board = discovery()
    other = board.machine()
    simulated_probe.connect(other, "SIM1")
    read = other.debugger.read_register
    monkeypatch.setattr(
        other.debugger, "read_register", lambda address, size=4: value if address == register else read(address, size)
    )
    assert board.run(image=board.small(tmp_path, 1)) == 1
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
    assert other.debugger.read(_FLASH, 4096) == b"\xff" * 4096
