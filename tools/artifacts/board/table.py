"""The table of the boards in firmware/boards/README.md, made from their definitions."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.board.board import Board, Region, read_board
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

_BEGIN = "<!-- Begin of the table that `bazel run //firmware/boards:update_readme` writes. -->\n"
_END = "<!-- End of the table. -->\n"


def _size(length: int) -> str:
    for unit, factor in (("MB", 1 << 20), ("KB", 1 << 10)):
        if length % factor == 0:
            return f"{length // factor} {unit}"
    return f"{length} bytes"


def _memory(region: Region) -> str:
    return f"{_size(region.length)} at {region.origin:#010x}"


def _emulators(board: Board) -> str:
    names = [f"QEMU `{board.emulator.machine}`"] if board.emulator else []
    names += [f"boardsim `{board.simulator['chip']}`"] if board.simulator else []
    return ", ".join(names) or "none"


def _row(board: Board) -> list[str]:
    console = board.console
    pins = f" on {console['pins']}" if "pins" in console else ""
    programmer = board.programmer or {}
    return [
        f"`{board.name}`",
        board.description,
        _memory(board.flash),
        _memory(board.ram),
        "; ".join(f"{_memory(region)}: {region.use}" for region in board.reserved) or "none",
        f"{console['uart']}{pins}, {console['baud']} 8N1: {console['description']}",
        f"pyOCD `{programmer['pyocd_target']}`, OpenOCD `{programmer['openocd_config']}`" if programmer else "none",
        _emulators(board),
    ]


def table(boards: Sequence[Board]) -> str:
    """A Markdown table with a row per board, by name."""
    head = ["board", "what it is", "flash", "RAM", "kept free", "console", "programmed with", "emulated by"]
    rows = [head, ["---"] * len(head), *(_row(board) for board in sorted(boards, key=lambda board: board.name))]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def update(text: str, boards: Sequence[Board]) -> str:
    """A document with its table replaced by that of the boards.

    Raises:
        UserError: the document has no place for it.
    """
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise UserError(f"the document lacks the lines between which the table stands:\n{_BEGIN}{_END}")
    return before + _BEGIN + table(boards) + _END + after


def _run(arguments: argparse.Namespace) -> None:
    # `bazel run` says where the workspace is.
    document = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), arguments.document)
    boards = [read_board(path) for path in arguments.boards]
    document.write_text(update(document.read_text(encoding="utf-8"), boards), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="table", description=__doc__)
    parser.add_argument("boards", type=Path, nargs="+", metavar="BOARD.json", help="definitions of the boards")
    parser.add_argument("--document", required=True, help="the document, from the root of the workspace")
    return run_tool("table", _run, parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
