"""The USB serial port of the Pico 2 W and the Pico: a simulated host enumerates it, opens it and uses the console."""

import os
import struct
from pathlib import Path

import pytest

from boardsim.boards import simulated
from boardsim.cpu import Stop
from boardsim.machine import Machine
from boardsim.rp2350_usb import UsbHost
from tools.artifacts.board.board import read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.quiet.testing import given_file

BOARD = read_board(Path(os.environ["BOARD"]))
IMAGE = given_file("IMAGE", ".elf")
SLEEPING = given_file("SLEEPING", ".elf")
_LIMIT = 100_000_000


@pytest.fixture
def machine() -> Machine:
    machine = simulated(BOARD)
    machine.load_elf(ElfImage(IMAGE))
    machine.reset()
    return machine


def test_a_pico_has_it_too() -> None:
    machine = simulated(read_board(Path(os.environ["PICO_BOARD"])))
    image = given_file("PICO_IMAGE", ".elf")
    machine.load_elf(ElfImage(image))
    machine.reset()
    host = _open(machine)
    assert host.strings == ["Torch Fusion", "Pico console", "1"] and machine.notes == []
    host.send(b"0.5\n")
    assert machine.run(_LIMIT, until=lambda: host.output.count(b"> ") == 2) is Stop.UNTIL
    assert "output 0: Float [1, 1]: 0.4" in host.output.decode()


def _open(machine: Machine) -> UsbHost:
    """Returns a host that has opened the port and read the first prompt."""
    host = UsbHost(machine.chip.usb)
    stop = machine.run(_LIMIT, until=lambda: bool(host.error) or b"> " in host.output)
    assert host.error == "" and stop is Stop.UNTIL, machine.explain()
    return host


def test_the_host_finds_a_serial_port(machine: Machine) -> None:
    host = _open(machine)
    assert struct.unpack_from("<HH", host.device, 8) == (0x1209, 0x0001)
    assert len(host.configuration) == struct.unpack_from("<H", host.configuration, 2)[0]
    assert host.strings == ["Torch Fusion", "Pico 2 W console", "1"]
    # The host reads back the values that it set.
    assert struct.unpack("<IBBB", host.line_coding) == (9600, 0, 0, 8)
    assert host.refused, "an unknown descriptor has to be refused"
    assert machine.notes == []


def test_what_was_printed_before_the_port_was_opened_arrives(machine: Machine) -> None:
    assert machine.run(_LIMIT) is Stop.IDLE
    host = _open(machine)
    text = host.output.decode().replace("\r\n", "\n")
    assert text.startswith("Torch Fusion: softmax") and "\nPASS\n" in text
    assert text == machine.console.text


def test_inputs_and_outputs_go_over_the_port(machine: Machine) -> None:
    host = _open(machine)
    for line, expected in (("0 0 0 0", "0.5 0.5 0.5 0.5"), ("0 0 1000 0", "0.5 0.5 1 0")):
        host.output.clear()
        host.send(line.encode() + b"\n")
        machine.run(_LIMIT, until=lambda: bool(host.error) or host.output.endswith(b"> "))
        assert host.error == "" and f"Float [2, 2]: {expected}".encode() in host.output
    # The line is longer than a packet, and than the device's own buffer.
    host.output.clear()
    host.send(b" ".join([b"0.000000000000000000000000000000000000000000"] * 4) + b"\n")
    machine.run(_LIMIT, until=lambda: bool(host.error) or host.output.endswith(b"> "))
    assert host.error == "" and b"0.5 0.5 0.5 0.5" in host.output


def test_the_cable_is_pulled_and_plugged_in_again(machine: Machine) -> None:
    _open(machine).unplug()
    machine.run(1_000_000)
    again = UsbHost(machine.chip.usb)
    machine.run(_LIMIT, until=lambda: bool(again.error) or again.ready)
    assert again.error == "" and again.ready


def test_the_image_starts_again_with_clocks_and_ports_as_they_were(machine: Machine) -> None:
    _open(machine).unplug()
    # A debugger's reset keeps PLLs, UART and USB running.
    machine.debugger.write_register(0xE000ED0C, 4, 0x05FA0004)
    assert machine.clock.hz == 150_000_000
    machine.console.output.clear()
    host = _open(machine)
    assert host.error == "" and machine.notes == []
    assert b"\nPASS\n" in host.output.replace(b"\r", b"")
    # The UART is slower, but says the same.
    machine.run(2_000_000)
    assert machine.console.text.startswith("Torch Fusion: softmax") and "\nPASS\n" in machine.console.text


def test_the_uart_works_beside_it(machine: Machine) -> None:
    host = _open(machine)
    machine.console.feed(b"0 0 0 0\n")
    machine.run(_LIMIT, until=lambda: machine.console.text.count("> ") > 1)
    machine.run(2_000_000)
    assert "0.5 0.5 0.5 0.5" in machine.console.text and b"0.5 0.5 0.5 0.5" in host.output


def test_a_sleeping_core_wakes_for_the_host() -> None:
    machine = simulated(BOARD)
    machine.load_elf(ElfImage(SLEEPING))
    machine.reset()
    assert machine.run(_LIMIT) is Stop.SLEEP
    host = UsbHost(machine.chip.usb)
    instructions = machine.cpu.instructions
    for text in (b"hello", b"board"):
        host.output.clear()
        host.send(text)
        machine.run(_LIMIT, until=lambda text=text: bool(host.error) or bytes(host.output) == text)
        assert host.error == "" and bytes(host.output) == text, machine.explain()
    # These count from the host's first reset of the bus on: awake it would poll millions of times.
    assert machine.cpu.instructions - instructions < 200_000 and machine.notes == []
