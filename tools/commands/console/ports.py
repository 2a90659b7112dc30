"""Finds the serial port of a board's console."""

from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from serial.tools import list_ports

from tools.artifacts.board.board import Board
from tools.quiet.console import UserError

# USB vendors of debug probes with a virtual COM port, and of boards that are a port themselves: ST-LINK, Arm's
# CMSIS-DAP, SEGGER, Raspberry Pi (its debug probe), pid.codes (firmware/chips/rp/usb.c).
_VENDORS = {0x0483, 0x0D28, 0x1366, 0x2E8A, 0x1209}


class PortInfo(Protocol):
    """pyserial's information about a port."""

    device: str
    vid: int | None
    serial_number: str | None
    description: str | None


def find_port(board: Board, probe: str | None = None, ports: Iterable[PortInfo] | None = None) -> Path:
    """Returns the port of the board's console.

    Args:
        board: the board.
        probe: serial number of the debug probe or of the board, or its start, if there are several.
        ports: the ports; None: those of this machine.

    Raises:
        UserError: there is none, or more than one.
    """
    found = sorted(list_ports.comports() if ports is None else ports, key=lambda port: port.device)
    usable = [port for port in found if port.vid in _VENDORS]
    if probe:
        usable = [port for port in usable if (port.serial_number or "").lower().startswith(probe.lower())]
    if not usable:
        others = ", ".join(port.device for port in found) or "none"
        wanted = f" of a probe or board with serial number {probe}" if probe else " of a debug probe"
        raise UserError(
            f"no serial port{wanted} found (ports: {others}): connect {board.name}'s USB cable, or name the port with "
            "--port; --simulate needs no board"
        )
    if len(usable) > 1:
        names = ", ".join(f"{port.device} ({port.description}, {port.serial_number})" for port in usable)
        raise UserError(f"several serial ports: {names}; choose one with --port or --probe")
    return Path(usable[0].device)
