"""Writes the pictures of docs/: the output of flash, monitor, infer and plot on the simulated NUCLEO-WB55RG."""

import argparse
import contextlib
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tools.artifacts.board.board import read_board
from tools.commands.console.channel import simulate
from tools.commands.flash import flash, simulated_probe
from tools.commands.infer import infer
from tools.commands.monitor.decode import FaultDecoder
from tools.commands.monitor.monitor import LinePrinter, monitor
from tools.commands.plot import plot
from tools.quiet.console import UserError
from tools.quiet.files import replace_text
from tools.quiet.tool import run_tool

_WIDTH = 100
# rich refers to a font on the web; a document should not.
_WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
# When the simulated boards of the pictures are switched on.
_START = datetime(2026, 1, 1, 12, 0, 0)


class _Terminal(io.StringIO):
    """Captures a command's output like a terminal."""

    def isatty(self) -> bool:
        return True


@contextlib.contextmanager
def _captured() -> Iterator[_Terminal]:
    terminal = _Terminal()
    with contextlib.redirect_stdout(terminal), contextlib.redirect_stderr(terminal):
        yield terminal


def visible(text: str) -> str:
    """Returns the text that stays on the screen, without overwritten lines and cleared screens."""
    screen = text.rpartition("\x1b[H\x1b[J")[2]
    return "\n".join(line.rpartition("\r")[2] for line in screen.replace("\r\n", "\n").split("\n"))


def svg(command: str, output: str, name: str) -> str:
    """Returns a terminal with a command and its output as SVG; `name` makes its identifiers unique in a page."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(visible(output).rstrip("\n")))
    text = console.export_svg(title="Torch Fusion", theme=MONOKAI, unique_id=name)
    # Lines and the file end with one line break, as in every text file.
    return "\n".join(line.rstrip() for line in _WEB_FONT.sub("", text).splitlines()) + "\n"


def _printed(tool: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> str:
    with _captured() as terminal:
        status = tool(arguments)
    if status:
        raise UserError(f"a command ended with status {status}: {terminal.getvalue()}")
    return terminal.getvalue()


def capture_flash(image: Sequence[str]) -> str:
    """Returns the output of flashing an empty board, and its console."""
    try:
        return _printed(flash.main, [*image, "--simulate", "--follow"])
    finally:
        simulated_probe.disconnect_all()


def capture_monitor(elf: Path, board: Path, addr2line: Path) -> str:
    """Returns the console of an image that faults. Times are the simulated board's."""
    channel = simulate(elf, read_board(board))

    def now() -> datetime:
        return _START + timedelta(microseconds=channel.machine.clock.nanoseconds / 1000)

    with _captured() as terminal:
        printer = LinePrinter(FaultDecoder(elf, addr2line), terminal.write, now)
        monitor(lambda: channel, printer, print, reconnect=False, seconds=1)
    return terminal.getvalue()


def _file(files: Sequence[Path], suffix: str) -> str:
    (path,) = [file for file in files if str(file).endswith(suffix)]
    return str(path)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="capture", description=__doc__)
    parser.add_argument("--board", type=Path, required=True, help="board.json of the simulated board")
    parser.add_argument("--algorithm", type=Path, required=True, help="its flash algorithm")
    parser.add_argument("--addr2line", type=Path, required=True, help="GNU addr2line for its core")
    parser.add_argument("--sine", type=Path, nargs="+", required=True, help="files of the image with the model sine")
    parser.add_argument("--digits", type=Path, nargs="+", required=True, help="the same of the model digits")
    parser.add_argument("--dataset", type=Path, required=True, help="golden file of digits")
    parser.add_argument("--fault", type=Path, required=True, help="an image that faults (ELF)")
    parser.add_argument("--output", type=Path, required=True, help="folder of the pictures, from the workspace's root")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    folder = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), arguments.output)
    board = str(arguments.board)
    sine = ["--elf", _file(arguments.sine, ".elf"), "--board", board, "--on", "simulator"]
    digits = ["--elf", _file(arguments.digits, ".elf"), "--board", board, "--on", "simulator"]
    image = ["--hex", _file(arguments.sine, ".hex"), "--board", board, "--algorithm", str(arguments.algorithm)]
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "flash": ("bazel run //firmware:flash -- --follow", capture_flash(image)),
        "monitor": (
            "bazel run //firmware:monitor",
            capture_monitor(arguments.fault, arguments.board, arguments.addr2line),
        ),
        "infer": (
            "bazel run //firmware:infer -- --dataset digits.golden.npz",
            _printed(infer.main, [*digits, "--dataset", str(arguments.dataset)]),
        ),
    }
    _printed(plot.main, [*sine, "--save", str(folder / "plot.png")])
    for name, (command, output) in pictures.items():
        replace_text(folder / f"{name}.svg", svg(command, output, name))
        print(f"wrote {folder / name}.svg")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("capture", _run, _parse(argv))
