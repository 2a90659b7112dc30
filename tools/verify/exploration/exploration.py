"""Compares models on boards with a budget, by a page's numbers: a table, and the best of those that fit."""

import argparse
import json
import os
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.quiet.console import UserError
from tools.quiet.files import reading
from tools.quiet.table import markdown_table, text_table
from tools.quiet.tool import run_tool
from tools.verify.budget.budget import number_of

_FORMATS = {"flash": "{:,.0f}", "ram": "{:,.0f}", "instructions": "{:,.0f}", "ms": "{:,.2f}", "accuracy": "{:.1%}"}
_HEADINGS = {"ram": "RAM", "instructions": "instr."}
_AIMS = {
    "ms": "fastest",
    "instructions": "fewest instructions",
    "flash": "least flash",
    "ram": "least RAM",
    "accuracy": "most accurate",
}


@dataclass(frozen=True)
class Row:
    """A model on a board.

    Attributes:
        model: the program's name.
        board: the board's name.
        numbers: bytes of flash and of RAM, instructions and ms of an inference, accuracy as a share of 1; None for
            what is unknown.
        untimed: why ms are unknown; empty if they are known.
        reason: why there is no image; empty if there is one.
    """

    model: str
    board: str
    numbers: Mapping[str, float | None] = field(default_factory=dict)
    untimed: str = ""
    reason: str = ""

    def misses(self, budget: Mapping[str, float]) -> list[str]:
        """Returns the limits that are not kept, each with the difference, and what is unknown."""
        missed = []
        for name, limit in budget.items():
            number = self.numbers.get(name)
            if number is None:
                missed.append(f"{name} is unknown")
            elif number < limit if name == "accuracy" else number > limit:
                missed.append(f"{_HEADINGS.get(name, name)} by {_FORMATS[name].format(abs(number - limit))}")
        return missed


def parse_budget(text: str) -> dict[str, float]:
    """Returns the limits in a text such as `flash=256K,ram=64K,ms=20,accuracy=0.95`.

    Raises:
        UserError: it has another form.
    """
    budget = {}
    for part in filter(None, text.split(",")):
        name, _, given = part.partition("=")
        number = number_of(name, given) if name in _FORMATS else None
        if number is None:
            raise UserError(f"budget {part!r}: give {', '.join(_FORMATS)} as in flash=256K,ram=64K,ms=20,accuracy=0.95")
        budget[name] = number
    return budget


def rows_of(data: Mapping[str, Any]) -> list[Row]:
    """Returns a row for each image of a page's JSON; its times may be those of another board with the same core."""
    rows = []
    for image in data["images"]:
        if image["clock_hz"] <= 0:
            raise ValueError(f"a clock of {image['clock_hz']} Hz")
        counts = [instructions for instructions, _ in image["rows"]]
        cycles = [cycles for _, cycles in image["rows"]]
        numbers = {
            "flash": image["memories"]["flash"]["used"],
            "ram": image["memories"]["RAM"]["used"],
            "instructions": sum(counts) if counts else None,
            "ms": None if image["untimed"] else 1e3 * sum(cycles) / image["clock_hz"],
            "accuracy": image["accuracy"],
        }
        known = {name: None if number is None else float(number) for name, number in numbers.items()}
        name = str(data["programs"][image["program"]]["name"])
        rows.append(Row(name, str(image["board"]), known, str(image["untimed"])))
    return rows


def cells(rows: Sequence[Row], budget: Mapping[str, float]) -> list[list[str]]:
    """Returns the headings, and the cells of each row; of a model that fails on all boards for one reason just one.

    What is unknown of all rows, such as accuracy without an evaluation set, has no column.
    """
    known = [name for name in _FORMATS if any(row.numbers.get(name) is not None for row in rows)]
    lines = [["model", "board", *(_HEADINGS.get(name, name) for name in known), "fits"]]
    for row in rows:
        of_model = [other for other in rows if other.model == row.model]
        fails_alike = bool(row.reason) and len(of_model) > 1 and all(other.reason == row.reason for other in of_model)
        if fails_alike and row is not of_model[0]:
            continue
        board = "all" if fails_alike else row.board
        numbers = ["" if (number := row.numbers.get(name)) is None else _FORMATS[name].format(number) for name in known]
        missed = row.reason or ", ".join(row.misses(budget))
        lines.append([row.model, board, *numbers, f"no: {missed}" if missed else "yes"])
    return lines


def notes(rows: Sequence[Row]) -> list[str]:
    """Returns a line for each reason why ms are unknown."""
    boards: dict[str, list[str]] = {}
    for row in rows:
        if row.untimed and row.board not in boards.setdefault(row.untimed, []):
            boards[row.untimed].append(row.board)
    return [f"no ms on {', '.join(names)}: {reason}" for reason, names in boards.items()]


def table(rows: Sequence[Row], budget: Mapping[str, float]) -> str:
    """Returns a line per row for a terminal."""
    lines = cells(rows, budget)
    wrapped = (textwrap.fill(note, 80, subsequent_indent="  ") for note in notes(rows))
    return "\n".join([*text_table(lines, {0, 1, len(lines[0]) - 1}), *wrapped])


def markdown(rows: Sequence[Row], budget: Mapping[str, float]) -> str:
    """Returns the table for a pull request."""
    head, *lines = cells(rows, budget)
    return markdown_table(head, lines) + "".join(f"\n{note}\n" for note in notes(rows))


def best(rows: Sequence[Row], budget: Mapping[str, float]) -> list[str]:
    """Returns a line for each aim with the best of the rows that fit; empty if none fits."""
    fitting = [row for row in rows if not row.reason and not row.misses(budget)]
    lines = []
    for name, aim in _AIMS.items():
        sign = -1 if name == "accuracy" else 1
        known = [(sign * number, row) for row in fitting if (number := row.numbers[name]) is not None]
        if known:
            _, row = min(known, key=lambda entry: entry[0])
            lines.append(f"{aim}: {row.model} on {row.board}")
    return lines


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="exploration", description=__doc__)
    parser.add_argument("--page", type=Path, required=True, help="the page's JSON")
    parser.add_argument("--budget", required=True, help="limits, such as flash=256K,ram=64K,ms=20,accuracy=0.95")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    budget = parse_budget(arguments.budget)
    with reading("page", arguments.page, "build it anew"):
        rows = rows_of(json.loads(arguments.page.read_text(encoding="utf-8")))
    print(table(rows, budget))
    if folder := os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"):
        Path(folder, "exploration.md").write_text(markdown(rows, budget), encoding="utf-8")
    choices = best(rows, budget)
    print("\n".join(choices or [f"nothing fits {arguments.budget}; the last column says which limits are missed"]))
    return 0 if choices else 1


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("exploration", _run, _parse(argv))
