"""Streams of bytes to and from a board's console: a serial port, an emulator, the board simulator."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import serial

from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.quiet.console import UserError
from tools.verify.environment.qemu import command_line

if TYPE_CHECKING:
    from boardsim.machine import Machine

# Instructions that the simulator runs between two looks at its console.
_SLICE = 200_000


class ChannelClosed(UserError):
    """The other end is gone: the port was unplugged, or the emulated program ended."""


class Channel(Protocol):
    """A board's console.

    Attributes:
        name: its description.
    """

    name: str

    def read(self, timeout: float) -> bytes:
        """Returns at least one received byte; nothing if none arrives within `timeout` seconds.

        Raises:
            ChannelClosed: the other end is closed.
        """

    def write(self, data: bytes) -> None:
        """Sends bytes.

        Raises:
            ChannelClosed: the other end is gone.
        """

    def close(self) -> None:
        """Gives the port back, or ends the emulator."""


class SerialChannel:
    """A serial port, 8N1.

    Raises:
        UserError: it cannot be opened.
    """

    def __init__(self, port: Path, baud: int) -> None:
        self.name = f"{port}, {baud} baud"
        try:
            self._port = serial.Serial(str(port), baud, timeout=0, exclusive=True)
        except serial.SerialException as error:
            raise UserError(explain_port(port, error)) from error
        except ValueError as error:
            raise UserError(f"{port}: {error}") from error

    def read(self, timeout: float) -> bytes:
        try:
            self._port.timeout = timeout
            first = self._port.read(1)
            return first + self._port.read(self._port.in_waiting) if first else b""
        except (serial.SerialException, OSError) as error:
            raise ChannelClosed(str(error)) from error

    def write(self, data: bytes) -> None:
        try:
            self._port.write(data)
        except (serial.SerialException, OSError) as error:
            raise ChannelClosed(str(error)) from error

    def close(self) -> None:
        self._port.close()


def explain_port(port: Path, error: serial.SerialException) -> str:
    """Explains why a port cannot be opened, and what to do."""
    if not port.exists():
        return f"{port}: No such port; connect the board, or name another with --port"
    if not os.access(port, os.R_OK | os.W_OK):
        return f"no permission to open {port}: `sudo usermod -aG {port.group()} $USER`, then log in again"
    if "lock" in str(error).lower() or getattr(error, "errno", None) in (11, 16):
        return f"{port} is in use: close the other program that has it open"
    return f"{port} is no serial port ({error}); leave --port out to take the board's, or name another"


class ReturningChannel:
    """A console that may disconnect once when its board restarts, as a board's own USB port does.

    Args:
        channel: the console.
        reopen: opens it again.
    """

    def __init__(self, channel: Channel, reopen: Callable[[], Channel]) -> None:
        self.name = channel.name
        self._channel = channel
        self._reopen: Callable[[], Channel] | None = reopen

    def read(self, timeout: float) -> bytes:
        try:
            data = self._channel.read(timeout)
        except ChannelClosed:
            if self._reopen is None:
                raise
            self._channel.close()
            self._channel, self._reopen = self._reopen(), None
            return b""
        if data:
            self._reopen = None
        return data

    def write(self, data: bytes) -> None:
        self._channel.write(data)

    def close(self) -> None:
        self._channel.close()


class EmulatorChannel:
    """An image in QEMU, whose console is this process's pipe."""

    def __init__(self, elf: Path, board: Board, qemu: Path) -> None:
        self.name = f"{elf.stem} in QEMU"
        command = command_line(elf, board, qemu, ["image", "console=1"])
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        except OSError as error:
            raise UserError(f"{command[0]}: {error.strerror}; it must be QEMU's qemu-system-arm") from error

    def read(self, timeout: float) -> bytes:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], timeout)[0]:
            return b""
        data = os.read(descriptor, 4096)
        if not data:
            raise ChannelClosed(f"the program ended with status {self._process.wait()}")
        return data

    def write(self, data: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise ChannelClosed(f"the program ended with status {self._process.wait()}") from error

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


class MachineChannel:
    """The console of a simulated board (boardsim). Time passes only while something reads."""

    def __init__(self, machine: Machine) -> None:
        self.name = f"the simulated {machine.board.name}"
        self.machine = machine
        self._received = bytearray()
        machine.console.on_output = self._received.extend

    def read(self, timeout: float) -> bytes:
        end = time.monotonic() + timeout
        while not self._received:
            stop = self.machine.run(_SLICE, until=lambda: bool(self._received))
            if self._received:
                break
            if self.machine.cpu.locked_up:
                raise ChannelClosed(f"the core locked up: {self.machine.explain()}")
            if stop.name != "INSTRUCTIONS":
                # Nothing will come by itself. A caller that waits for something else, such as Ctrl-C, does not wait
                # busily.
                time.sleep(min(0.01, timeout))
                break
            if time.monotonic() >= end:
                break
        data = bytes(self._received)
        self._received.clear()
        return data

    def write(self, data: bytes) -> None:
        self.machine.console.feed(data)

    def close(self) -> None:
        self.machine.console.on_output = None


def simulate(elf: Path, board: Board) -> MachineChannel:
    """Runs an image on the simulated board.

    Raises:
        UserError: the board has no simulator, or the image is not for it.
    """
    # Costs half a second, and only the simulator needs it.
    from boardsim.boards import simulated

    machine = simulated(board)
    machine.load_elf(ElfImage(elf))
    machine.reset()
    return MachineChannel(machine)
