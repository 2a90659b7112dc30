"""Programs an image into a board's flash, verifies it, and resets the board.

pyOCD does it through its Python API; --tool openocd starts OpenOCD instead. --follow shows the board's console
afterwards.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tools.board.board import Board, read_board
from tools.flash.console_port import find_port, open_port, read_port
from tools.quiet.console import UserError, user_path

if TYPE_CHECKING:
    from pyocd.probe.debug_probe import DebugProbe

_DEFAULT_BAUD = 115200


def choose_probe(probes: Sequence[DebugProbe], wanted: str | None) -> DebugProbe:
    """The probe to use.

    Args:
        probes: the connected probes.
        wanted: unique id of a probe, or its start; None if there is only one.

    Raises:
        UserError: there is no such probe, or more than one.
    """
    if not probes:
        raise UserError(
            "no debug probe found: connect the board's ST-LINK USB port (on Linux, udev rules must permit access to it)"
        )
    names = ", ".join(f"{probe.unique_id} ({probe.description})" for probe in probes)
    matching = [probe for probe in probes if wanted is None or probe.unique_id.lower().startswith(wanted.lower())]
    if not matching:
        raise UserError(f"no debug probe '{wanted}'; connected: {names}")
    if len(matching) > 1:
        raise UserError(f"several debug probes: {names}; choose one with --probe ID")
    return matching[0]


def verify(read: Callable[[int, int], Sequence[int]], chunks: Sequence[tuple[int, bytes]]) -> None:
    """Compares what is in flash with what should be.

    Args:
        read: reads bytes: (address, count).
        chunks: (address, bytes) of the image.

    Raises:
        UserError: they differ.
    """
    for address, expected in chunks:
        actual = bytes(read(address, len(expected)))
        if actual != expected:
            offset = next(i for i, (a, b) in enumerate(zip(actual, expected, strict=False)) if a != b)
            raise UserError(
                f"verification failed at {address + offset:#010x}: flash has {actual[offset]:#04x}, the image "
                f"{expected[offset]:#04x}; run again, and check the flash's write protection if that does not help"
            )


def hex_chunks(path: Path) -> list[tuple[int, bytes]]:
    """The contiguous pieces of an Intel HEX file as (address, bytes).

    Raises:
        UserError: the file is missing, empty or no Intel HEX.
    """
    from intelhex import IntelHex, IntelHexError

    try:
        image = IntelHex(str(path))
    except OSError as error:
        raise UserError(f"image {path}: {error.strerror}; build it first") from error
    except (IntelHexError, UnicodeDecodeError) as error:
        raise UserError(f"image {path} is no Intel HEX file ({error}); pass the .hex of a torch_firmware") from error
    chunks = [(start, bytes(image.tobinarray(start=start, end=end - 1))) for start, end in image.segments()]
    if not chunks:
        raise UserError(f"image {path} is empty; pass the .hex of a torch_firmware")
    return chunks


def check_fit(chunks: Sequence[tuple[int, bytes]], board: Board) -> None:
    """Raises UserError unless the image lies within the board's flash: nothing else is ever written."""
    for address, data in chunks:
        if not (board.flash.contains(address) and address + len(data) <= board.flash.end):
            raise UserError(
                f"the image has {len(data)} bytes at {address:#010x}, outside the flash of {board.name} "
                f"({board.flash.origin:#010x} to {board.flash.end:#010x}); it is an image for another board"
            )


def program_with_pyocd(image: Path, board: Board, probe_id: str | None, pack: Path | None) -> None:
    """Programs, verifies and resets through pyOCD.

    Raises:
        UserError: no probe, unknown target, or pyOCD failed.
    """
    # Takes a second to import; only needed here.
    from pyocd.core import exceptions
    from pyocd.core.helpers import ConnectHelper
    from pyocd.core.session import Session
    from pyocd.flash.file_programmer import FileProgrammer

    programmer = board.programmer or {}
    target = programmer.get("pyocd_target")
    if not target:
        raise UserError(f"board {board.name} has no pyocd_target in its definition: it cannot be programmed with pyOCD")
    chunks = hex_chunks(image)
    check_fit(chunks, board)
    probe = choose_probe(ConnectHelper.get_all_connected_probes(blocking=False, print_wait_message=False), probe_id)
    options: dict[str, object] = {"target_override": target, "resume_on_disconnect": True}
    if pack:
        if not pack.exists():
            raise UserError(f"CMSIS pack {pack}: No such file")
        options["pack"] = [str(pack)]
    try:
        with Session(probe, options=options) as session:
            FileProgrammer(session, progress=_progress).program(str(image), file_format="hex")
            print()
            target_core = session.target
            target_core.reset_and_halt()
            verify(target_core.read_memory_block8, chunks)
            print(f"verified {sum(len(data) for _, data in chunks):,} bytes")
            target_core.reset()
    except exceptions.TargetSupportError as error:
        raise UserError(
            f"pyOCD does not know the target '{target}' by itself: give the chip vendor's CMSIS pack with --pack FILE, "
            "or use --tool openocd"
        ) from error
    except exceptions.Error as error:
        raise UserError(f"pyOCD: {error}") from error


def _progress(share: float) -> None:
    width = 40
    filled = round(width * share)
    print(f"\rprogramming [{'#' * filled}{'.' * (width - filled)}] {100 * share:3.0f} %", end="", flush=True)


def openocd_command(image: Path, board: Board, probe_id: str | None) -> list[str]:
    """The command line that programs, verifies and resets through OpenOCD.

    Raises:
        UserError: the board's definition names no configuration.
    """
    config = (board.programmer or {}).get("openocd_config")
    if not config:
        raise UserError(
            f"board {board.name} has no openocd_config in its definition: it cannot be programmed with OpenOCD"
        )
    select_probe = ["-c", f"adapter serial {probe_id}"] if probe_id else []
    # Braces quote for OpenOCD's Tcl.
    return ["openocd", "-f", config, *select_probe, "-c", f"program {{{image.absolute()}}} verify reset exit"]


def program_with_openocd(image: Path, board: Board, probe_id: str | None, pack: Path | None) -> None:
    """Programs, verifies and resets through OpenOCD.

    Raises:
        UserError: OpenOCD is not installed or failed.
    """
    if pack:
        raise UserError("--pack is for pyOCD; leave it out with --tool openocd")
    check_fit(hex_chunks(image), board)
    command = openocd_command(image, board, probe_id)
    if not shutil.which(command[0]):
        raise UserError("openocd is not on the PATH: install it, or leave --tool out to use pyOCD")
    if subprocess.run(command, check=False).returncode != 0:
        raise UserError("openocd failed; its messages above say why")


_TOOLS: dict[str, Callable[[Path, Board, str | None, Path | None], None]] = {
    "pyocd": program_with_pyocd,
    "openocd": program_with_openocd,
}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="flash", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--elf", type=Path, help="the image as ELF")
    parser.add_argument("--hex", type=Path, required=True, help="the image as Intel HEX, which is what is programmed")
    parser.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    parser.add_argument("--probe", help="unique id of the debug probe, or its start, if there are several")
    parser.add_argument("--tool", choices=sorted(_TOOLS), default="pyocd", help="what programs the board")
    parser.add_argument(
        "--pack", type=user_path, help="the chip vendor's CMSIS pack, where pyOCD itself does not know the chip"
    )
    parser.add_argument("--follow", action="store_true", help="show the board's console afterwards, until Ctrl-C")
    parser.add_argument("--port", type=Path, help="serial port of the console, if it is not found by itself")
    return parser.parse_args(argv)


def follow(board: Board, probe_id: str | None, port: Path | None, program: Callable[[], None]) -> None:
    """Runs `program` with the console already open, so that nothing the image prints is lost, and shows it."""
    descriptor = open_port(port or find_port(probe_id), int(board.console.get("baud", _DEFAULT_BAUD)))
    try:
        program()
        for text in read_port(descriptor):
            print(text, end="", flush=True)
    except KeyboardInterrupt:
        print()
    finally:
        os.close(descriptor)


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    try:
        board = read_board(arguments.board)

        def program() -> None:
            _TOOLS[arguments.tool](arguments.hex, board, arguments.probe, arguments.pack)
            print(f"{arguments.hex.stem} runs on {board.name}")

        if arguments.follow:
            follow(board, arguments.probe, arguments.port, program)
        else:
            program()
    except UserError as error:
        print(f"flash: error: {error}", file=sys.stderr)
        return 1
    return 0
