"""Shows a board's console: lines with the time they came, and the source lines of a fault.

A typed line goes to the board. When the board is unplugged, it is waited for. Ctrl-C ends.
"""

import argparse
import select
import sys
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from tools.artifacts.board.board import read_board
from tools.commands.console.channel import Channel, ChannelClosed
from tools.commands.console.options import add_arguments, open_channel
from tools.commands.monitor.decode import FaultDecoder
from tools.quiet.console import UserError, printable
from tools.quiet.tool import option_parser, run_tool

# Seconds between two looks for a board that is gone, and until the start of a line counts as all there is of it, as a
# prompt is.
_RETRY, _IDLE = 0.5, 0.2


class LinePrinter:
    """Prints received data line by line.

    Args:
        decoder: explains faults; None to skip that.
        write: prints text.
        now: the time.
    """

    def __init__(
        self, decoder: FaultDecoder | None, write: Callable[[str], object], now: Callable[[], datetime] = datetime.now
    ) -> None:
        self._decoder = decoder
        self._write = write
        self._now = now
        self._line = ""
        # The length of the printed part of the current line.
        self._printed = 0

    def feed(self, data: bytes) -> None:
        """Prints the lines that are complete."""
        self._line += data.decode("utf-8", errors="replace").replace("\r", "")
        while "\n" in self._line:
            line, _, rest = self._line.partition("\n")
            self._show(line)
            self._write("\n")
            self._line, self._printed = rest, 0
            for text in self._decoder.explain(line) if self._decoder else ():
                self._write(f"{'':14}^ {text}\n")

    def flush(self) -> None:
        """Prints the line that has begun."""
        if self._line:
            self._show(self._line)

    def end_line(self) -> None:
        """Ends a partial line, because the following text is not the board's."""
        self.flush()
        if self._printed:
            self._write("\n")
        self._line, self._printed = "", 0

    def _show(self, line: str) -> None:
        if not self._printed:
            self._write(f"{self._now():%H:%M:%S.%f}"[:12] + "  ")
        self._write(printable(line[self._printed :]))
        self._printed = len(line)


def monitor(
    open_it: Callable[[], Channel],
    printer: LinePrinter,
    say: Callable[[str], object],
    *,
    reconnect: bool,
    seconds: float,
) -> None:
    """Shows a console until Ctrl-C, or for a while.

    Args:
        open_it: opens the console.
        printer: prints its output.
        say: prints the monitor's own messages.
        reconnect: whether to wait for a disconnected console, and open it again.
        seconds: ends after so many without a byte.

    Raises:
        UserError: it cannot be opened at first, or is disconnected and `reconnect` is not set.
    """
    channel = open_it()
    say(f"-- {channel.name}")
    last = time.monotonic()
    try:
        while time.monotonic() - last < seconds:
            try:
                data = channel.read(_IDLE)
                if data:
                    printer.feed(data)
                    last = time.monotonic()
                else:
                    printer.flush()
                _forward_input(channel)
            except ChannelClosed as error:
                printer.end_line()
                channel.close()
                if not reconnect:
                    raise UserError(f"the console is gone: {error}") from error
                say(f"-- the console is gone ({error}); waiting for it")
                channel = _wait_for(open_it)
                say(f"-- {channel.name}")
    finally:
        printer.end_line()
        channel.close()


def _wait_for(open_it: Callable[[], Channel]) -> Channel:
    while True:
        try:
            return open_it()
        except UserError:
            time.sleep(_RETRY)


def _forward_input(channel: Channel) -> None:
    """Sends a line that was typed, if one was."""
    if sys.stdin is not None and sys.stdin.isatty() and select.select([sys.stdin], [], [], 0)[0]:
        line = sys.stdin.readline()
        if line:
            channel.write(line.encode())


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("monitor", __doc__)
    add_arguments(parser)
    parser.add_argument("--addr2line", type=Path, help="GNU addr2line for the board's core, given by `bazel run`")
    parser.add_argument(
        "--quiet-for", type=float, default=float("inf"), metavar="SECONDS", help="end when nothing came for so long"
    )
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    def write(text: str) -> None:
        print(text, end="", flush=True)

    board = read_board(arguments.board)
    decoder = FaultDecoder(arguments.elf, arguments.addr2line) if arguments.addr2line else None
    monitor(
        lambda: open_channel(arguments, board),
        LinePrinter(decoder, write),
        print,
        # An emulated image that has ended would only start over.
        reconnect=(arguments.on or "port") == "port",
        seconds=arguments.quiet_for,
    )


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("monitor", _run, _parse(argv))
