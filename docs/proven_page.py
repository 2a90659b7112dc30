"""Writes docs/proven.md from the reports in firmware/boards/*/proofs/."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from docs.update_page import update_page
from tools.artifacts.board_report.board_report import BoardReport, read_board_report
from tools.quiet.console import UserError

_HEAD = """# Runs on real boards

`bazel run //docs:update_proven` writes this page from the reports in the folder `proofs` of each board in
`firmware/boards`, which [`.prove`](firmware.md#on-the-board) wrote on real boards. Those of the simulator don't count.

"""

_NONE = """There is no report yet: no image of this project is known to have run on a real board.
"""

_TABLE = """| report | chip, revision | model | passed | an inference | stack |
| --- | --- | --- | --- | --- | --- |
"""

_SEND = """
## To send one

Connect the board, NUCLEO-WB55RG here, and open a pull request with what these lines make:

<!-- commands: board: nucleo_wb55rg.prove; yours: update_proven -->

    ./bazelw run //firmware:nucleo_wb55rg.prove --//firmware:model=//models/digits:digits_int8
    install -D -m 644 board_report.json firmware/boards/nucleo_wb55rg/proofs/my_digits_int8.json
    ./bazelw run //docs:update_proven

A report with failures is as welcome. It has no serial numbers and no paths.
"""


def _row(path: Path, report: BoardReport) -> str:
    failed = [item.name for item in report.items if not item.passed]
    passed = f"no: {', '.join(failed)}" if failed else "yes"
    milliseconds = 1e3 * report.inference / report.clock_hz
    chip = ", ".join(filter(None, [report.chip, report.revision]))
    cells = [
        f"[{report.board}, {report.date}](../{path.as_posix()})",
        chip,
        report.model,
        passed,
        f"{report.inference:,} {report.unit}, {milliseconds:.3g} ms",
        f"{report.stack_used:,} of {report.stack_size:,} bytes",
    ]
    # Texts of others must neither end a cell nor begin markup.
    return "| " + " | ".join([cells[0], *(cell.replace("|", "/").replace("<", "&lt;") for cell in cells[1:])]) + " |\n"


def page(root: Path = Path()) -> str:
    """The whole page.

    Args:
        root: the tree with the reports.

    Raises:
        UserError: a report is none of the board whose folder it is in.
    """
    rows = []
    for path in sorted(root.glob("firmware/boards/*/proofs/*.json")):
        report = read_board_report(path)
        if report.place != "board":
            raise UserError(f"{path} is of the simulator; run .prove without --simulate, with a board")
        if report.board != path.parent.parent.name:
            raise UserError(f"{path} is of {report.board!r}; move it to the folder of that board")
        rows.append(_row(path.relative_to(root), report))
    return _HEAD + (_TABLE + "".join(rows) if rows else _NONE) + _SEND


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="update_proven", description="Writes the page of what ran on boards.")
    return update_page(parser, lambda _: page(), argv)
