"""The whole command, through pyOCD, against a simulated probe: the flash algorithm runs on the simulated core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from intelhex import IntelHex
from pyocd.core import exceptions

from tools.board.board import read_board
from tools.boardsim.machine import BusError, Machine
from tools.flash import simulated_probe
from tools.flash.flash import hex_chunks, main
from tools.flash.simulated_probe import SimulatedProbe


def _file(variable: str, suffix: str) -> Path:
    (path,) = [Path(name) for name in os.environ[variable].split() if name.endswith(suffix)]
    return path


_HEX, _BOARD = _file("IMAGE", ".hex"), _file("BOARDS", "nucleo_wb55rg/board.json")
_ALGORITHM = _file("ALGORITHM", ".elf")
_CHUNKS = hex_chunks(_HEX)
_FLASH, _PAGE = 0x08000000, 4096


@pytest.fixture(autouse=True)
def _nothing_connected() -> Iterator[None]:
    yield
    simulated_probe.disconnect_all()


@pytest.fixture
def machine() -> Machine:
    return Machine(read_board(_BOARD))


@pytest.fixture
def probe(machine: Machine) -> SimulatedProbe:
    return simulated_probe.connect(machine, "SIM1")


def _flash(*more: str, image: Path = _HEX) -> int:
    return main(["--hex", str(image), "--board", str(_BOARD), "--algorithm", str(_ALGORITHM), *more])


def _holds(machine: Machine, image: Path = _HEX) -> bool:
    return all(machine.read(address, len(data)) == data for address, data in hex_chunks(image))


def _small(folder: Path, seed: int, pages: int = 3) -> Path:
    """An image of a vector table and rubbish, of some pages and a bit."""
    data = bytearray((i * 7 + i // 256 * seed + seed) & 0xFF for i in range(pages * _PAGE + 24))
    data[:8] = (0x20030000).to_bytes(4, "little") + (_FLASH + 0x101).to_bytes(4, "little")
    # A loop in place: b .
    data[0x100:0x102] = b"\xfe\xe7"
    # What stays the same in all versions.
    data[_PAGE : 2 * _PAGE] = bytes(i % 251 for i in range(_PAGE))
    image = IntelHex()
    image.frombytes(bytes(data), offset=_FLASH)
    path = folder / f"small{seed}.hex"
    image.write_hex_file(str(path))
    return path


def test_an_empty_board_is_programmed_verified_and_started(
    machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _flash() == 0
    assert _holds(machine)
    out = capsys.readouterr().out
    assert f"verified {sum(len(data) for _, data in _CHUNKS):,} bytes" in out
    assert "runs on nucleo_wb55rg" in out
    machine.run(instructions=20_000_000)
    assert "\nPASS\n" in machine.console.text


def test_only_changed_sectors_are_written(
    machine: Machine, probe: SimulatedProbe, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _flash(image=_small(tmp_path, 1)) == 0
    assert _flash(image=_small(tmp_path, 1)) == 0
    assert "0 sectors and 0 pages written" in capsys.readouterr().out
    changed = _small(tmp_path, 2)
    assert _flash(image=changed) == 0
    # Of four pages, the second is the same in both.
    assert "3 sectors and 3 pages written" in capsys.readouterr().out
    assert _holds(machine, changed)


def test_what_lies_behind_the_image_stays(machine: Machine, probe: SimulatedProbe, tmp_path: Path) -> None:
    # Pages up to the radio core's.
    behind = _FLASH + 16 * _PAGE
    machine.write(behind, b"radio stack")
    assert _flash(image=_small(tmp_path, 1)) == 0
    assert machine.read(behind, 11) == b"radio stack"


def test_chip_erase_programs_whole_rows(machine: Machine, probe: SimulatedProbe, tmp_path: Path) -> None:
    machine.write(_FLASH + 100 * _PAGE, b"old")
    machine.trace = True
    assert _flash("--erase", "chip", image=_small(tmp_path, 1)) == 0
    assert _holds(machine, _small(tmp_path, 1))
    assert machine.read(_FLASH + 100 * _PAGE, 3) == b"\xff\xff\xff"
    # FSTPG of FLASH_CR.
    assert any(access.write and access.name == "FLASH_CR" and access.value == 1 << 18 for access in machine.accesses)


def test_follow_shows_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    assert _flash("--simulate", "--follow") == 0
    out = capsys.readouterr().out
    assert out.index("runs on nucleo_wb55rg") < out.index("PASS")


# What goes wrong.


def test_a_flash_cell_that_does_not_take_its_value(
    machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str]
) -> None:
    program = machine.chip.flash._program

    def weak(start: int, data: bytes) -> None:
        program(start, data if start != 0x1008 else bytes([data[0] ^ 4]) + data[1:])

    machine.chip.flash._program = weak
    assert _flash() == 1
    assert "verification failed at 0x08001008" in capsys.readouterr().err


def test_flash_that_is_write_protected(
    machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flash = machine.chip.flash
    monkeypatch.setattr(flash, "_erase", lambda value: flash._error(1 << 4))
    machine.write(_FLASH, b"old")
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
def test_a_target_that_will_not_do(
    machine: Machine,
    probe: SimulatedProbe,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    register: int,
    value: int,
    says: str,
) -> None:
    read = machine.read_register
    monkeypatch.setattr(
        machine, "read_register", lambda address, size=4: value if address == register else read(address, size)
    )
    before = machine.read(_FLASH, 4096)
    assert _flash() == 1
    error = capsys.readouterr().err
    assert says in error
    assert error.count("\n") == 1
    assert machine.read(_FLASH, 4096) == before


def test_a_chip_of_another_maker(
    machine: Machine, probe: SimulatedProbe, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    read = machine.read_register

    def nothing_there(address: int, size: int = 4) -> int:
        if address == 0xE0042000:
            raise BusError("nothing answers")
        return read(address, size)

    monkeypatch.setattr(machine, "read_register", nothing_there)
    assert _flash() == 1
    assert "another chip (device id 0x000" in capsys.readouterr().err


def test_one_of_several_probes(machine: Machine, probe: SimulatedProbe, capsys: pytest.CaptureFixture[str]) -> None:
    other = Machine(read_board(_BOARD))
    simulated_probe.connect(other, "SIM2")
    assert _flash() == 1
    assert "several debug probes: SIM1 (Torch Fusion simulated nucleo_wb55rg), SIM2" in capsys.readouterr().err
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


# Cables.


class Cut:
    """Cuts a cable when the probe makes its n-th access: the debug cable, or power too."""

    def __init__(self, after: int, power: bool) -> None:
        self.after = after
        self.power = power
        self.done = False

    def __call__(self, probe: SimulatedProbe) -> None:
        if probe.accesses >= self.after and not self.done:
            self.done = True
            if self.power:
                probe.machine.power_cycle()
        if self.done:
            raise exceptions.ProbeDisconnected("the cable was pulled")


def _accesses_of_a_run(image: Path, old: Path) -> int:
    machine = Machine(read_board(_BOARD))
    probe = simulated_probe.connect(machine, "SIM0")
    assert _flash(image=old) == 0
    before = probe.accesses
    assert _flash(image=image) == 0
    simulated_probe.disconnect_all()
    return probe.accesses - before


@pytest.mark.parametrize("power", [False, True], ids=["cable", "power"])
def test_a_run_that_was_cut_anywhere_is_repaired_by_the_next(
    tmp_path: Path, power: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    old, new = _small(tmp_path, 1), _small(tmp_path, 2)
    total = _accesses_of_a_run(new, old)
    torn = 0
    # The last accesses are those that let the core run again.
    for after in range(0, total - 20, max(1, total // 24)):
        machine = Machine(read_board(_BOARD))
        for address, data in hex_chunks(old):
            machine.write(address, data)
        probe = simulated_probe.connect(machine, "SIM1")
        probe.trip = Cut(after, power)
        assert _flash(image=new) == 1, after
        error = capsys.readouterr().err
        assert "run again" in error and error.count("\n") == 1, error
        torn += not _holds(machine, old) and not _holds(machine, new)
        probe.trip = None
        assert _flash(image=new) == 0, (after, capsys.readouterr().err, machine.explain())
        assert _holds(machine, new)
        simulated_probe.disconnect_all()
    # It did happen that the device was left between old and new.
    assert torn > 5


def test_power_lost_in_the_middle_of_each_flash_operation(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = _small(tmp_path, 1, pages=1), _small(tmp_path, 2, pages=1)
    operation = 0
    while True:
        machine = Machine(read_board(_BOARD))
        for address, data in hex_chunks(old):
            machine.write(address, data)
        probe = simulated_probe.connect(machine, "SIM1")
        flash = machine.chip.flash
        begin = flash._begin
        count = 0

        def cut(*arguments: object, begin=begin, machine=machine, probe=probe, operation=operation) -> None:
            nonlocal count
            begin(*arguments)
            # Every erase, and some of the programmed double words.
            if count == operation:
                probe.trip = Cut(0, power=True)
                machine.halt()
            count += 1

        monkeypatch.setattr(flash, "_begin", cut)
        status = _flash(image=new)
        capsys.readouterr()
        if not probe.trip:
            assert status == 0
            assert operation > 100
            break
        assert status == 1
        probe.trip = None
        monkeypatch.setattr(flash, "_begin", begin)
        assert not _holds(machine, new)
        assert _flash(image=new) == 0, (operation, capsys.readouterr().err, machine.explain())
        assert _holds(machine, new)
        simulated_probe.disconnect_all()
        # One step in 64 once the first few are through; a double word is like any other.
        operation += 1 if operation < 6 else 64
