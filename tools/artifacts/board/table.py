"""The tables of boards in README.md and firmware/boards/README.md, made from the boards' definitions.

A document is given with the lines between which its table stands.
"""

import argparse
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from tools.artifacts.board.board import Board, Region, read_board
from tools.quiet.files import replace_text
from tools.quiet.table import markdown_table, replace_table
from tools.quiet.tool import run_tool

_BEGIN = "<!-- Begin of the table that `bazel run //firmware/boards:update_readme` writes. -->\n"
_END = "<!-- End of the table. -->\n"


def size_text(length: int) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if length % factor == 0:
            return f"{length // factor} {unit}"
    return f"{length} bytes"


def _memory(region: Region) -> str:
    return f"{size_text(region.length)} at {region.origin:#010x}"


def _emulators(board: Board) -> str:
    names = [f"QEMU `{board.emulator.machine}`"] if board.emulator else []
    names += [f"boardsim `{board.simulator['chip']}`"] if board.simulator else []
    return ", ".join(names) or "none"


def _console(board: Board) -> str:
    console = board.console
    pins = f" on {console['pins']}" if "pins" in console else ""
    return f"{console['uart']}{pins}, {console['baud']} 8N1: {console['description']}"


def _programmer(board: Board) -> str:
    tools = {"pyocd_target": "pyOCD", "openocd_config": "OpenOCD"}
    named = [f"{tools[key]} `{value}`" for key, value in (board.programmer or {}).items() if key in tools]
    return ", ".join(named) or "none"


def _kept_free(board: Board) -> str:
    return "; ".join(f"{_memory(region)}: {region.use}" for region in board.reserved) or "none"


#: Columns of a table: heading, and what stands below it for a board.
Columns = dict[str, Callable[[Board], str]]

#: What README.md says of each board.
BRIEF: Columns = {
    "target": lambda board: f"`//firmware:{board.name}`",
    "board": lambda board: board.description,
    "console": lambda board: board.console["description"],
}

#: What firmware/boards/README.md does; a board's folder may have a README of its own.
FULL: Columns = {
    "board": lambda board: f"[{board.name}]({board.name})",
    "what it is": lambda board: board.description,
    "flash": lambda board: _memory(board.flash),
    "RAM": lambda board: _memory(board.ram),
    "kept free": _kept_free,
    "console": _console,
    "programmed with": _programmer,
    "emulated by": _emulators,
}


def table(boards: Sequence[Board], columns: Columns) -> str:
    """A Markdown table with a row per board: those of hardware, then those that only an emulator has, by name."""
    ordered = sorted(boards, key=lambda board: (board.programmer is None, board.name))
    return markdown_table(list(columns), [[cell(board) for cell in columns.values()] for board in ordered])


def update(text: str, boards: Sequence[Board], columns: Columns) -> str:
    """A document with its table replaced by that of the boards.

    Raises:
        UserError: the document has no place for it.
    """
    return replace_table(text, _BEGIN, _END, table(boards, columns))


def _run(arguments: argparse.Namespace) -> None:
    # `bazel run` says where the workspace is.
    root = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."))
    boards = [read_board(path) for path in arguments.boards]
    written = {}
    for name, columns in ((arguments.brief, BRIEF), (arguments.full, FULL)):
        if name:
            written[root / name] = update((root / name).read_text(encoding="utf-8"), boards, columns)
    for document, text in written.items():
        replace_text(document, text)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="table", description=__doc__)
    parser.add_argument("boards", type=Path, nargs="+", metavar="BOARD.json", help="definitions of the boards")
    parser.add_argument("--brief", help="document with the short table, from the root of the workspace")
    parser.add_argument("--full", help="document with the table of all that definitions say")
    return run_tool("table", _run, parser.parse_args(argv))
