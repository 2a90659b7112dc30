"""The command line of tools that talk to a running image."""

import argparse
from pathlib import Path

from tools.artifacts.board.board import Board
from tools.commands.console.channel import Channel, EmulatorChannel, SerialChannel, simulate
from tools.commands.console.ports import find_port
from tools.quiet.console import UserError

_DEFAULT_BAUD = 115200


def image_options(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Returns the group of options that the rules give, so that --help tells them from a user's."""
    return parser.add_argument_group("of the image, given by `bazel run`")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the image, its board, and where it runs."""
    image = image_options(parser)
    image.add_argument("--elf", type=Path, required=True, help="the image")
    image.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    image.add_argument("--qemu", type=Path, help="qemu-system-arm")
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--on",
        choices=["port", "qemu", "simulator"],
        help="where the image runs: on a board at a serial port, in QEMU, or on the board simulator; default: port "
        "for a board that can be programmed, else qemu",
    )
    place.add_argument("--simulate", action="store_const", dest="on", const="simulator", help="as --on simulator")
    parser.add_argument("--port", type=Path, help="serial port of the console, if it is not found by itself")
    parser.add_argument("--probe", help="serial number of the debug probe, or its start, if there are several")


def add_model(parser: argparse.ArgumentParser) -> None:
    """Adds which of an image's models answers, and the inputs and outputs that its tests have, see `samples`."""
    parser.add_argument("--model", default="", help="which of an image's several models; default: the one that runs")
    parser.add_argument("--golden", type=Path, help=argparse.SUPPRESS)


def samples(arguments: argparse.Namespace) -> Path | None:
    """Returns the data set to run: the user's, else the golden inputs and outputs of the image's first model."""
    return arguments.dataset or (None if arguments.model else arguments.golden)


def open_channel(arguments: argparse.Namespace, board: Board) -> Channel:
    """Returns the channel that the command line asks for.

    Raises:
        UserError: it cannot be had.
    """
    place = arguments.on or ("port" if arguments.port or arguments.probe or board.programmer else "qemu")
    if place != "port" and (arguments.port or arguments.probe):
        option = f"--port {arguments.port}" if arguments.port else f"--probe {arguments.probe}"
        raise UserError(f"{option} is for a real board; leave it out, or --on {place}")
    if place == "qemu":
        if arguments.qemu is None:
            raise UserError(f"board {board.name} has no emulator; use --on simulator or --on port")
        return EmulatorChannel(arguments.elf, board, arguments.qemu)
    if place == "simulator":
        return simulate(arguments.elf, board)
    return SerialChannel(arguments.port or find_port(board, arguments.probe), baud_rate(board))


def baud_rate(board: Board) -> int:
    """Returns the baud rate of the board's console."""
    return int(board.console.get("baud", _DEFAULT_BAUD))
