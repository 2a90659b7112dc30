"""The serial port of a board's console, read with the operating system's own means."""

from __future__ import annotations

import os
import select
import termios
import tty
from collections.abc import Iterator
from pathlib import Path

from tools.quiet.console import UserError

# Where Linux names serial ports after the USB device behind them.
_BY_ID = Path("/dev/serial/by-id")

_SPEEDS = {int(name[1:]): value for name, value in vars(termios).items() if name.startswith("B") and name[1:].isdigit()}


def find_port(probe: str | None = None, folder: Path = _BY_ID) -> Path:
    """The port of the debug probe's virtual COM port.

    Args:
        probe: serial number of the probe, or its start; None if there is only one.
        folder: where the ports are listed.

    Raises:
        UserError: there is none, or more than one.
    """
    ports = sorted(
        port
        for port in folder.glob("*")
        if any(mark in port.name.upper() for mark in ("STLINK", "STLK", "ST-LINK", "CMSIS"))
    )
    if probe:
        ports = [port for port in ports if probe.lower() in port.name.lower()]
    if not ports:
        raise UserError(
            "no serial port of a debug probe found: connect the board's USB cable, or name the port with --port"
        )
    if len(ports) > 1:
        names = ", ".join(str(port) for port in ports)
        raise UserError(f"several serial ports of debug probes: {names}; name one with --port")
    return ports[0]


def open_port(port: Path, baud: int) -> int:
    """Opens a serial port raw, 8N1. Returns its file descriptor.

    Raises:
        UserError: it cannot be opened, or the speed is none of the system's.
    """
    if baud not in _SPEEDS:
        raise UserError(f"baud rate {baud} is none of a serial port's: {', '.join(map(str, sorted(_SPEEDS)))}")
    try:
        descriptor = os.open(port, os.O_RDWR | os.O_NOCTTY)
    except PermissionError as error:
        raise UserError(f"no permission to open {port}: join its group (often dialout) and log in again") from error
    except OSError as error:
        raise UserError(f"cannot open {port}: {error.strerror}") from error
    try:
        tty.setraw(descriptor)
        attributes = termios.tcgetattr(descriptor)
        attributes[4] = attributes[5] = _SPEEDS[baud]
        termios.tcsetattr(descriptor, termios.TCSANOW, attributes)
    except termios.error as error:
        os.close(descriptor)
        raise UserError(f"{port} is no serial port ({error})") from error
    return descriptor


def read_port(descriptor: int, timeout: float | None = None) -> Iterator[str]:
    """Yields text as it comes, until the port is closed or nothing comes for `timeout` seconds."""
    while select.select([descriptor], [], [], timeout)[0]:
        try:
            data = os.read(descriptor, 4096)
        except OSError:
            # What a port reports whose device was unplugged.
            return
        if not data:
            return
        yield data.decode("utf-8", errors="replace").replace("\r\n", "\n")
