"""Programs an image into a board's flash, verifies it, and resets the board.

pyOCD does it through its Python API: only sectors that differ are erased and written. --tool openocd starts OpenOCD
instead, --tool uf2 copies the image to the drive that a board in its boot loader shows. --follow shows the board's
console afterwards. --simulate programs a simulated board, through everything but the wire.
"""

import argparse
import codecs
import io
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.intel_hex.reader import read_intel_hex
from tools.commands.console.channel import Channel, ChannelClosed, MachineChannel, ReturningChannel, SerialChannel
from tools.commands.console.options import baud_rate, image_options
from tools.commands.console.ports import find_port
from tools.commands.flash.chips import chip_of_target
from tools.commands.flash.pyocd_tool import Chunks, Programmed, Selection, list_probes, program
from tools.commands.flash.uf2 import copy_uf2, uf2_drives
from tools.quiet.console import UserError, printable, user_path
from tools.quiet.tool import option_parser, run_tool


def check_fit(chunks: Chunks, board: Board) -> None:
    """Raises UserError unless the image is inside the board's flash: nothing else is ever written."""
    for address, data in chunks:
        if not (board.flash.contains(address) and address + len(data) <= board.flash.end):
            raise UserError(
                f"the image has {len(data)} bytes at {address:#010x}, outside the flash of {board.name} "
                f"({board.flash.origin:#010x} to {board.flash.end:#010x}); it is an image for another board"
            )


class ProgressBar:
    """A bar on a terminal; without one, nothing is shown."""

    _WIDTH = 40

    def __init__(self) -> None:
        self._shown = -1

    def __call__(self, share: float) -> None:
        percent = round(100 * share)
        if percent == self._shown:
            return
        self._shown = percent
        filled = round(self._WIDTH * share)
        if sys.stdout.isatty():
            bar = "#" * filled + "." * (self._WIDTH - filled)
            print(f"\rprogramming [{bar}] {percent:3d} %", end="", flush=True)

    def finish(self) -> None:
        """Ends the line, if there is one."""
        if self._shown >= 0 and sys.stdout.isatty():
            print()


def openocd_command(image: Path, board: Board, probe_id: str | None) -> list[str]:
    """Returns the command line that programs, verifies and resets through OpenOCD.

    Raises:
        UserError: the board's definition names no configuration.
    """
    # Braces quote for OpenOCD's Tcl.
    return [*openocd_base(board, probe_id), "-c", f"program {{{image.absolute()}}} verify reset exit"]


def openocd_base(board: Board, probe_id: str | None) -> list[str]:
    """Returns OpenOCD with the board's configuration files, which blanks separate, and the probe.

    Raises:
        UserError: the board's definition names no configuration.
    """
    config = (board.programmer or {}).get("openocd_config")
    if not config:
        raise UserError(
            f"board {board.name} has no openocd_config in its definition: it cannot be programmed with OpenOCD"
        )
    files = config.split()
    command = ["openocd", *(argument for file in files for argument in ("-f", file))]
    if files[0].startswith("interface/"):
        # A chip's configuration leaves the speed at 100 kHz, a board's sets it.
        command += ["-c", "adapter speed 5000"]
    return [*command, "-c", f"adapter serial {probe_id}"] if probe_id else command


def program_with_openocd(image: Path, board: Board, probe_id: str | None) -> None:
    """Programs, verifies and resets through OpenOCD.

    Raises:
        UserError: OpenOCD is not installed or failed.
    """
    command = openocd_command(image, board, probe_id)
    if not shutil.which(command[0]):
        raise UserError("openocd is not on the PATH: install it, or leave --tool out to use pyOCD")
    if subprocess.run(command, check=False).returncode != 0:
        raise UserError("openocd failed; its messages above say why")


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("flash", __doc__)
    add_arguments(parser)
    parser.add_argument("--list", action="store_true", help="show the debug probes that are connected, and end")
    parser.add_argument("--follow", action="store_true", help="show the board's console afterwards, until Ctrl-C")
    return parser.parse_args(argv)


def add_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Adds the image, its board, and how it is programmed; returns the group of the image's options."""
    image = image_options(parser)
    image.add_argument("--elf", type=Path, help="the image as ELF")
    image.add_argument("--hex", type=Path, required=True, help="the image as Intel HEX, which is what is programmed")
    image.add_argument("--uf2", type=Path, help="the image as UF2, where the board's boot loader takes that")
    image.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    image.add_argument("--algorithm", type=Path, help="the board's flash algorithm (ELF), where pyOCD has none")
    parser.add_argument("--probe", help="unique id of the debug probe, or its start, if there are several")
    parser.add_argument(
        "--tool",
        choices=["openocd", "pyocd", "uf2"],
        help="what programs the board; default: uf2 if the drive of its boot loader is mounted, else pyocd",
    )
    parser.add_argument(
        "--erase",
        choices=["sector", "chip"],
        default="sector",
        help="what is erased: sectors that change, which is the default, or all of the flash",
    )
    parser.add_argument("--pack", type=user_path, help="a CMSIS pack, where neither pyOCD nor this tool knows the chip")
    parser.add_argument("--port", type=Path, help="serial port of the console, if it is not found by itself")
    parser.add_argument("--simulate", action="store_true", help="program a simulated board")
    return image


def refuse_when_simulated(arguments: argparse.Namespace, *options: str) -> None:
    """Raises UserError for the first of the options that was given, unless it is --tool pyocd: --simulate has its own
    probe and console, so it would be ignored.
    """
    for option in options:
        value = getattr(arguments, option)
        if value and value != "pyocd":
            text = "" if value is True else f" {value}"
            raise UserError(f"--{option}{text} is for a real board; leave it out, or --simulate")


def _check_options(arguments: argparse.Namespace) -> None:
    if arguments.simulate:
        refuse_when_simulated(arguments, "list", "probe", "tool", "pack", "port")
    if arguments.port and not arguments.follow:
        raise UserError(f"--port {arguments.port} is where --follow shows the console; add --follow, or leave it out")


def chosen_tool(arguments: argparse.Namespace) -> str:
    """Returns what programs the board, by the options of add_arguments()."""
    has_drive = arguments.uf2 and not arguments.simulate and uf2_drives()
    return arguments.tool or ("uf2" if has_drive else "pyocd")


def _program(arguments: argparse.Namespace, board: Board) -> Programmed:
    chunks = read_intel_hex(arguments.hex)
    check_fit(chunks, board)
    tool = chosen_tool(arguments)
    if arguments.pack and tool != "pyocd":
        raise UserError(f"--pack is for pyOCD; leave it out with --tool {tool}")
    if tool == "openocd":
        program_with_openocd(arguments.hex, board, arguments.probe)
        done = Programmed("programmed by OpenOCD", _chip_name(board))
    elif tool == "uf2":
        if arguments.uf2 is None:
            raise UserError(f"board {board.name} has no UF2 boot loader; leave --tool out")
        bar = ProgressBar()
        try:
            drive = copy_uf2(arguments.uf2, progress=bar)
        finally:
            bar.finish()
        print(f"copied to {drive}; the board restarts with it")
        done = Programmed("copied to its UF2 drive", _chip_name(board))
    else:
        bar = ProgressBar()
        selection = Selection(arguments.probe, arguments.pack, arguments.algorithm, uf2=arguments.uf2 is not None)
        try:
            done = program(chunks, arguments.hex, board, selection, erase_all=arguments.erase == "chip", progress=bar)
        finally:
            bar.finish()
        print(done.summary)
    print(f"{arguments.hex.stem} runs on {board.name}")
    return done


def _chip_name(board: Board) -> str:
    target = (board.programmer or {}).get("pyocd_target", board.name)
    chip = chip_of_target(target)
    return target if chip is None else chip.name


def follow(channel: Channel, *, simulated: bool) -> None:
    """Shows a console's output until Ctrl-C, or until the console is closed or a simulated board is idle.

    Args:
        channel: the console.
        simulated: whether it is a simulated board's.

    Raises:
        UserError: the console does not come back.
    """
    # A character or the end of a line may come in two pieces.
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf-8")(errors="replace"), translate=True)
    try:
        while True:
            data = channel.read(0.5)
            if simulated and not data:
                break
            print(printable(decoder.decode(data)), end="", flush=True)
    except ChannelClosed as error:
        print(f"\nthe console is gone: {error}", file=sys.stderr)
    finally:
        print()
        channel.close()


def wait_for_console(open_console: Callable[[], Channel], seconds: float = 10) -> Channel:
    """Opens a console as soon as it exists.

    Raises:
        UserError: it does not appear in time.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return open_console()
        except UserError:
            if time.monotonic() > end:
                raise
        time.sleep(0.2)


def program_with_console(
    arguments: argparse.Namespace, board: Board, *, loads: ElfImage | None = None
) -> tuple[Channel, Programmed]:
    """Programs a board, simulated, at a probe or in its boot loader, with its console open as early as it can be.

    Args:
        arguments: those of add_arguments().
        board: the board.
        loads: a simulated board has this in its flash without a probe that programs it, which is quicker.

    Raises:
        UserError: it has no console, or cannot be programmed.
    """
    if arguments.simulate:
        from boardsim.boards import simulated
        from tools.commands.flash import simulated_probe

        machine = simulated(board)
        if loads is not None:
            machine.load_elf(loads)
            machine.reset()
            return MachineChannel(machine), Programmed("loaded", board.name, "")
        # The board of an image before is gone.
        simulated_probe.disconnect_all()
        arguments.probe = simulated_probe.connect(machine).unique_id
        # Captures the image's output from its start.
        return MachineChannel(machine), _program(arguments, board)

    def open_console() -> Channel:
        return SerialChannel(arguments.port or find_port(board, arguments.probe), baud_rate(board))

    # A board with a USB port of its own has it only while its image runs.
    reopen = partial(wait_for_console, open_console) if arguments.uf2 else None
    channel: Channel | None = None
    try:
        # Open before the image starts, so that nothing it prints is lost.
        channel = open_console()
        if reopen is not None:
            channel = ReturningChannel(channel, reopen)
    except UserError:
        if reopen is None:
            raise
    done = _program(arguments, board)
    if channel is None:
        assert reopen is not None
        channel = reopen()
    return channel, done


def _run(arguments: argparse.Namespace) -> None:
    _check_options(arguments)
    if arguments.list:
        print("\n".join(list_probes()))
        return
    board = read_board(arguments.board)
    if arguments.simulate or arguments.follow:
        channel, _ = program_with_console(arguments, board)
        if arguments.follow:
            follow(channel, simulated=arguments.simulate)
    else:
        _program(arguments, board)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("flash", _run, _parse(argv))
