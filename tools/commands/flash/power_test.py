"""Tests that after a loss of power or a pulled cable at any step of programming, the next run repairs the flash."""

import hashlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyocd.core import exceptions

from boardsim.machine import Machine
from tools.commands.flash import simulated_probe
from tools.commands.flash.simulated_probe import SimulatedProbe
from tools.commands.flash.testing import BoardUnderTest, nucleo, pico

_BOARDS = {"nucleo_wb55rg": nucleo(), "pico2_w": pico()}
# The test tries a few steps of a flash controller; `power_every_step_test` tries all, on both boards.
_EVERY = int(os.environ["EVERY"])
# The small images use this much flash, and some more.
_WINDOW = 4 * 4096


@pytest.fixture(autouse=True)
def _nothing_connected() -> Iterator[None]:
    yield
    simulated_probe.disconnect_all()


@pytest.fixture(params=sorted(_BOARDS)[: 2 if _EVERY == 1 else 1])
def board(request: pytest.FixtureRequest) -> BoardUnderTest:
    return _BOARDS[request.param]


def _programmed(board: BoardUnderTest, image: Path) -> tuple[Machine, SimulatedProbe]:
    """Returns a board with an image in it, and a probe on it."""
    simulated_probe.disconnect_all()
    machine = board.machine()
    board.put(machine, image)
    return machine, simulated_probe.connect(machine, "SIM1")


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


def _cut_and_repair(
    board: BoardUnderTest, old: Path, new: Path, after: int, power: bool, capsys: pytest.CaptureFixture[str]
) -> bool:
    """Cuts a run at an access and repairs it with the next. Returns whether flash was neither old nor new between."""
    machine, probe = _programmed(board, old)
    probe.trip = Cut(after, power)
    assert board.run(image=new) == 1, after
    error = capsys.readouterr().err
    assert "run again" in error and error.count("\n") == 1, error
    torn = not board.holds(machine, old) and not board.holds(machine, new)
    probe.trip = None
    assert board.run(image=new) == 0, (after, capsys.readouterr().err, machine.explain())
    assert board.holds(machine, new)
    return torn


# The nightly test pulls the cable, too.
@pytest.mark.parametrize(
    "power", [True, False] if _EVERY == 1 else [True], ids=lambda power: "power" if power else "cable"
)
def test_a_run_of_a_larger_image_that_was_cut_anywhere_is_repaired_by_the_next(board, tmp_path, power, capsys) -> None:
    old, new = board.small(tmp_path, 1, sectors=5), board.small(tmp_path, 2, sectors=5)
    machine, probe = _programmed(board, old)
    # The accesses at which flash changed.
    changes: list[int] = []
    content = [machine.debugger.read(board.flash, new.stat().st_size)]

    def watch(probe: SimulatedProbe) -> None:
        now = machine.debugger.read(board.flash, len(content[0]))
        if now != content[0]:
            changes.append(probe.accesses)
            content[0] = now

    probe.trip = watch
    assert board.run(image=new) == 0
    first, last = changes[0], changes[-1]
    cuts = [first // 2, first, (first + last) // 2]
    torn = sum(_cut_and_repair(board, old, new, after, power, capsys) for after in cuts)
    # It did happen that the device was left between old and new.
    assert torn == 2


def _interrupt_and_repair(
    board: BoardUnderTest, old: Path, new: Path, after: int, capsys: pytest.CaptureFixture[str]
) -> bool:
    """Does the same as _cut_and_repair(), with Ctrl-C, after which the command cleans up with the probe."""
    machine, probe = _programmed(board, old)

    def interrupt(probe: SimulatedProbe) -> None:
        if probe.accesses >= after:
            probe.trip = None
            signal.raise_signal(signal.SIGINT)

    probe.trip = interrupt
    with pytest.raises(KeyboardInterrupt):
        board.run(image=new)
    # The line that says so is that of tools/quiet/start.py.
    assert capsys.readouterr().err == "", after
    torn = not board.holds(machine, old) and not board.holds(machine, new)
    assert board.run(image=new) == 0, (after, capsys.readouterr().err, machine.explain())
    assert board.holds(machine, new)
    return torn


def test_a_run_that_was_interrupted_anywhere_is_repaired_by_the_next(board, tmp_path, capsys) -> None:
    old, new = _small_images(board, tmp_path)
    _, probe = _programmed(board, old)
    assert board.run(image=new) == 0
    total = probe.accesses
    # INTERRUPTIONS=200 tests more by hand.
    count = int(os.environ.get("INTERRUPTIONS", "3"))
    points = random.Random(1).sample(range(1, total), count)
    capsys.readouterr()
    torn = sum(_interrupt_and_repair(board, old, new, after, capsys) for after in points)
    print(f"{count} interruptions among {total} accesses; {torn} left flash neither old nor new")


def _small_images(board: BoardUnderTest, folder: Path) -> tuple[Path, Path]:
    """Returns two images of two sectors, both of which differ, with a few double words in each."""
    return board.small(folder, 1, sectors=1, used=48), board.small(folder, 2, sectors=1, used=48)


def _states(board: BoardUnderTest, old: Path, new: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    """Returns the contents of flash if power is lost at any step of a run: each access to the flash controller, and
    each start and end of an operation, by digest.
    """
    machine, _ = _programmed(board, old)
    flash = machine.chip.flash
    states: dict[str, bytes] = {}

    def keep() -> None:
        content = flash.after_power_loss()[:_WINDOW]
        states.setdefault(hashlib.sha256(content).hexdigest(), content)

    names = ("write", "written", "_begin", "program") if board.name == "nucleo_wb55rg" else ("_add", "_begin", "_done")
    for name in names:
        original = getattr(flash, name)

        def observed(*arguments: object, original=original) -> None:
            keep()
            original(*arguments)
            keep()

        monkeypatch.setattr(flash, name, observed)
    assert board.run(image=new) == 0
    keep()
    return states


@pytest.mark.parametrize(
    ("name", "steps"),
    [
        # The old image; two sectors erased, torn and done; in one 6 double words programmed, in the other 3, both ways.
        ("nucleo_wb55rg", 1 + 2 * 2 + 2 * 9),
        # The same with 17 pages.
        ("pico2_w", 1 + 2 * 2 + 17 + 2),
    ],
)
def test_power_lost_at_a_step_of_the_flash_controller(name, steps, tmp_path, capsys, monkeypatch) -> None:
    board = _BOARDS[name]
    old, new = _small_images(board, tmp_path)
    states = _states(board, old, new, monkeypatch)
    assert len(states) == steps
    for content in list(states.values())[::_EVERY]:
        # Nothing else outlives the power: this is the board after it came back.
        simulated_probe.disconnect_all()
        machine = board.machine()
        simulated_probe.connect(machine, "SIM1")
        machine.debugger.write(board.flash, content)
        machine.power_cycle()
        assert board.run(image=new) == 0, (capsys.readouterr().err, machine.explain())
        assert board.holds(machine, new)


def test_the_cable_pulled_at_a_step_of_the_flash_controller(board, tmp_path, capsys, monkeypatch) -> None:
    old, new = _small_images(board, tmp_path)
    # The core gets so little time between accesses that the probe sees every step.
    monkeypatch.setattr(simulated_probe, "_SLICE", 20)
    machine, probe = _programmed(board, old)
    seen: dict[object, int] = {}

    def state(probe: SimulatedProbe) -> None:
        flash = machine.chip.flash
        digest = hashlib.sha256(flash.after_power_loss()[:_WINDOW]).hexdigest()
        lock = flash.values.get(0x14, 0) if board.name == "nucleo_wb55rg" else 0
        seen.setdefault((digest, lock, flash.busy), probe.accesses)

    probe.trip = state
    assert board.run(image=new) == 0
    steps = sorted(seen.values())
    assert len(steps) >= (20 if board.name == "nucleo_wb55rg" else 8)
    # The last state is that of the finished run, which a cut no longer changes.
    for after in steps[:-1:_EVERY]:
        _cut_and_repair(board, old, new, after, False, capsys)
