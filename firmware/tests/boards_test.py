"""Tests LED, button, watchdog and sleep of boards on the board simulator."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from boardsim.boardsim import Simulation
from boardsim.cpu import Stop
from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage

FILES = [Path(name) for name in os.environ["IMAGES"].split()]
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}
# Boards that every image is for; the others have those of the watchdog and of a fault.
FULL = sorted(board for board in BOARDS if any(path.name == f"echo_{board}.elf" for path in FILES))
NUCLEO = "nucleo_wb55rg"
# Port and pin, as the board's board.c has them.
LED, BUTTON = ("B", 5), ("C", 4)


def _simulation(image: str, board: str = NUCLEO) -> Simulation:
    (path,) = [path for path in FILES if path.name in (f"{image}_{board}.elf", f"{image}_{board}.image.elf")]
    return Simulation(ElfImage(path), BOARDS[board])


def _machine(image: str, board: str = NUCLEO) -> Machine:
    machine = _simulation(image, board).machine
    machine.reset()
    return machine


def _run_until(machine: Machine, condition: Callable[[], bool]) -> None:
    """Runs until a condition holds, by a fraction of a millisecond; it must before a second is over."""
    end = machine.clock.nanoseconds + 1e9
    while not condition():
        assert machine.clock.nanoseconds < end, machine.explain()
        machine.run(machine.clock.hz // 5000)


def test_the_led_is_on_until_the_button_is_pressed_and_the_watchdog_bites() -> None:
    machine = _machine("board_io")
    (port, pin), (button_port, button_pin) = LED, BUTTON
    led, button = machine.chip.ports[port], machine.chip.ports[button_port]
    machine.run(100_000)
    assert led.level(pin)
    button.inputs[button_pin] = False
    machine.run(100_000)
    assert not led.level(pin)
    button.inputs.clear()
    # 100 ms at 64 MHz.
    machine.run(7_000_000)
    assert machine.notes == ["the watchdog was not fed in time: it resets the chip"]
    assert led.level(pin)


@pytest.mark.parametrize("board", FULL)
def test_an_application_has_interrupts_of_core_and_chip(board: str) -> None:
    machine = _machine("interrupts", board)
    _run_until(machine, lambda: "PASS" in machine.console.text or "FAULT" in machine.console.text)
    assert machine.console.text.split() == ["service", "chip", "pended", "tick", "tick", "PASS"]


@pytest.mark.parametrize("board", FULL)
def test_the_watchdog_is_off_until_it_is_started(board: str) -> None:
    # An image that never starts it is not reset, however long it runs.
    machine = _machine("echo", board)
    machine.run(1_000_000)
    machine.clock.after(60e9, lambda: None)
    machine.run(1_000_000)
    assert machine.clock.nanoseconds > 60e9 and machine.notes == []


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_the_watchdog_bites_unless_it_is_fed(board: str) -> None:
    machine = _machine("watchdog", board)
    _run_until(machine, lambda: "hungry" in machine.console.text)
    assert machine.console.text.strip() == "start\nhungry" and machine.notes == []
    since = machine.clock.nanoseconds
    _run_until(machine, lambda: bool(machine.notes))
    assert machine.notes == ["the watchdog was not fed in time: it resets the chip"]
    # The low-speed oscillator of an STM32 counts in steps of 8 ms.
    assert 8e6 < machine.clock.nanoseconds - since < 30e6
    _run_until(machine, lambda: machine.console.text.count("start") == 2)


def test_an_image_with_a_watchdog_waits_for_input_as_long_as_it_takes() -> None:
    machine = _machine("watched")
    _run_until(machine, lambda: machine.console.text.endswith("> "))
    # Twice as long as the watchdog waits.
    since = machine.clock.nanoseconds
    _run_until(machine, lambda: machine.clock.nanoseconds - since > 20e6)
    machine.console.feed(b"1\n")
    _run_until(machine, lambda: machine.console.text.count("> ") == 2)
    assert "execute: " in machine.console.text.split("> ")[1] and machine.notes == []


@pytest.mark.parametrize("board", FULL)
def test_a_program_that_takes_longer_than_the_watchdog_waits_is_ended(board: str) -> None:
    machine = _machine("watched_slow", board)
    _run_until(machine, lambda: bool(machine.notes))
    assert machine.notes == ["the watchdog was not fed in time: it resets the chip"]
    assert "output" not in machine.console.text
    _run_until(machine, lambda: machine.console.text.count("Torch Fusion: ") == 2)


@pytest.mark.parametrize("board", FULL)
@pytest.mark.parametrize("sleeping", [False, True])
def test_the_core_sleeps_while_it_waits_if_it_may(board: str, sleeping: bool) -> None:
    machine = _machine("sleeping" if sleeping else "echo", board)
    waiting = Stop.SLEEP if sleeping else Stop.IDLE
    assert machine.run(1_000_000) is waiting
    before = machine.cpu.instructions
    for text in (b"a", b"hello, board"):
        machine.console.feed(text)
        assert machine.run(1_000_000) is waiting
    assert machine.console.text == "ahello, board" and machine.notes == []
    # Awake it polls: thousands of instructions for a byte.
    assert (machine.cpu.instructions - before < 13 * 200) == sleeping


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_a_fault_names_its_cause_and_place(board: str) -> None:
    simulation = _simulation("undefined", board)
    run = simulation.run()
    # kExitFault of firmware/host.h.
    assert run.stop is Stop.SLEEP and run.status == 3
    # Armv6-M has no register that tells the cause.
    cause = (
        "HardFault: an address where nothing is, an"
        if BOARDS[board].core == "cortex-m0plus"
        else "UsageFault: undefined instruction"
    )
    assert cause in run.console and "FAULT: exception" in run.console and "\n  pc 0x" in run.console
    assert any("in main" in problem and "undefined instruction" in problem for problem in simulation.problems(run))


@pytest.mark.parametrize("board", FULL)
def test_a_stack_overflow_faults(board: str) -> None:
    simulation = _simulation("stack_overflow", board)
    run = simulation.run()
    assert run.stop is Stop.SLEEP and run.status == 3
    # The Cortex-M33 has a limit; below the M4's stack is no memory.
    cause = (
        "UsageFault: stack overflow" if board == "pico2_w" else "BusFault: data access to an address where nothing is"
    )
    assert cause in run.console
