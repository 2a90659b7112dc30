"""Measures images: flash from the ELF, arenas, stack and instructions from a run in the board's emulator.

flash counts every programmed byte, weights included, in an image without console. arena is all the memory that runtime
and kernels allocate, stack the deepest use. load (Program::load, load_method) and inference (Method::execute) are
instructions, counted by QEMU with -icount. cycles are those of an inference, estimated for cores whose manuals document
the cycles of instructions. Images for boards with an NPU have a table of their own. --compare shows the ratio of each
number to that of an earlier run, and fails if one is worse by 1 % or more.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from tqdm import tqdm

from tools.artifacts.board.board import read_board
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.image_index.image_index import Image, read_image_index
from tools.artifacts.size_report.size_report import read_size_report
from tools.commands.benchmark.npu import NPU_TABLE_HEAD, NpuRow, measure_with_npu, npu_table, update_npu_table
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.tool import option_parser, run_tool
from tools.verify.cycles.cycles import MEANING, QemuWithCycles, qemu_with_cycles
from tools.verify.emulate.emulate import run_golden

# The heading of each column.
_COLUMNS = {
    "flash": "flash, bytes",
    "arena": "arena, bytes",
    "stack": "stack, bytes",
    "load": "load, instructions",
    "inference": "inference, instructions",
    "cycles": "inference, estimated cycles",
}

# The ratio from which on a number is worse than an earlier run's.
_WORSE = 1.01

# Model, variant and board of a row.
_Key = tuple[str, str, str]

# A row of the table, in a document.
_ROW = re.compile(r"^\| (\w+) \| (\w+) \| (\w+) \|" + r" ([\d,]*) \|" * len(_COLUMNS) + "$", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One image: bytes of flash, arena and stack, instructions of load and inference, and estimated cycles of an
    inference for cores with such estimates.
    """

    model: str
    variant: str
    board: str
    flash: int
    arena: int
    stack: int
    load: int
    inference: int
    cycles: int | None = None


@dataclass(frozen=True)
class Failed:
    """An image that could not be measured.

    Attributes:
      model, variant, board: of its row.
      failure: why not.
    """

    model: str
    variant: str
    board: str
    failure: str


Measured = TypeVar("Measured", Row, NpuRow)


def measure_all(
    images: Sequence[Image], measured: Callable[[Image], Measured]
) -> tuple[list[Measured | Failed], list[Measured]]:
    """Returns the rows of all images, and those of the images that could be measured."""
    rows: list[Measured | Failed] = []
    good: list[Measured] = []
    for image in tqdm(images, unit="image", disable=not sys.stderr.isatty()):
        try:
            good.append(measured(image))
        except UserError as error:
            rows.append(Failed(image.model, image.variant, image.board, str(error)))
        else:
            rows.append(good[-1])
    return rows, good


def measure(image: Image, qemu: Path, objdump: Path | None, timeout: float) -> Row:
    """Runs an image on the first sample of its golden inputs."""
    golden = read_golden(image.golden).part([0])
    environment = qemu_with_cycles(read_board(image.description), qemu, objdump)
    result, _ = run_golden(environment, image.elf, golden, timeout, image.choice)
    report = result.report
    assert result.load is not None and result.execute is not None
    return Row(
        model=image.model,
        variant=image.variant,
        board=image.board,
        flash=read_size_report(image.report).flash.used,
        arena=report.method_used + report.planned_used + report.temp_used,
        stack=report.stack_used,
        load=result.load,
        inference=result.execute,
        cycles=environment.estimate([result.execute])[0] if isinstance(environment, QemuWithCycles) else None,
    )


def table(rows: Sequence[Row | Failed]) -> str:
    """Formats the rows as a Markdown table for the README; a failed image's row says so instead of numbers."""
    lines = [f"| model | variant | board | {' | '.join(_COLUMNS.values())} |", "|---|---|---|" + "--:|" * len(_COLUMNS)]
    for row in rows:
        if isinstance(row, Failed):
            cells = ["failed", *[""] * (len(_COLUMNS) - 1)]
        else:
            numbers = (getattr(row, column) for column in _COLUMNS)
            cells = ["" if number is None else f"{number:,}" for number in numbers]
        values = " | ".join(cells)
        lines.append(f"| {row.model} | {row.variant} | {row.board} | {values} |")
    return "\n".join(lines)


def failures(rows: Sequence[Row | NpuRow | Failed]) -> list[str]:
    """Returns a line for each row that failed, with the reason."""
    return [f"{row.model} {row.variant} {row.board}: failed: {row.failure}" for row in rows if isinstance(row, Failed)]


def read_earlier(path: Path) -> dict[_Key, dict[str, int]]:
    """Returns the numbers of the rows that an earlier run wrote with --json.

    Raises:
      UserError: the file is none such.
    """
    with reading("list of rows", path, "name a file that --json wrote"):
        return {(row["model"], row["variant"], row["board"]): _numbers(row) for row in json.loads(path.read_text())}


def comparison(rows: Sequence[Row | NpuRow], earlier: Mapping[_Key, Mapping[str, int]]) -> tuple[str, list[str]]:
    """Returns a Markdown table of the ratios to an earlier run, and a line for each number that is worse."""
    columns = list(dict.fromkeys(column for row in rows for column in _numbers(asdict(row))))
    lines = [f"| model | variant | board | {' | '.join(columns)} |", "|---|---|---|" + "--:|" * len(columns)]
    worse = []
    for row in rows:
        before, now = earlier.get((row.model, row.variant, row.board), {}), _numbers(asdict(row))
        both = {column: (before[column], now[column]) for column in columns if column in before and column in now}
        ratios = {column: f"{new / old:.3f}" if old else "" for column, (old, new) in both.items()}
        cells = [ratios.get(column, "new" if column in now else "") for column in columns]
        lines.append(f"| {row.model} | {row.variant} | {row.board} | {' | '.join(cells)} |")
        worse += [
            f"{row.model} {row.variant} {row.board}: {column} {old:,} -> {new:,}"
            for column, (old, new) in both.items()
            if new > old and new >= _WORSE * old
        ]
    return "\n".join(lines), worse


def _numbers(row: Mapping[str, object]) -> dict[str, int]:
    return {name: value for name, value in row.items() if type(value) is int}


def documented(text: str) -> set[_Key]:
    """Returns model, variant and board of the rows that a document has."""
    return {(found[1], found[2], found[3]) for found in _ROW.finditer(text)}


def update(text: str, rows: Sequence[Row]) -> tuple[str, list[str]]:
    """Returns a document with updated rows, and a line for each number that has increased."""
    measured = {(row.model, row.variant, row.board): row for row in rows}
    higher = []

    def replace(found: re.Match[str]) -> str:
        row = measured.get((found[1], found[2], found[3]))
        if row is None:
            return found[0]
        for place, column in enumerate(_COLUMNS, 4):
            before, now = int(found[place].replace(",", "") or 0), getattr(row, column)
            if before and now is not None and now > before:
                higher.append(f"{row.model} {row.variant} {row.board}: {column} {before:,} -> {now:,}")
        return table([row]).splitlines()[-1]

    return _ROW.sub(replace, text), higher


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("benchmark", __doc__)
    parser.add_argument("--index", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--qemu", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--objdump", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--model", action="append", help="only this model; repeat for more")
    parser.add_argument("--json", type=user_path, help="file to write the rows to, as a list of objects")
    parser.add_argument("--compare", type=user_path, metavar="BASE", help="rows that --json wrote, to compare with")
    parser.add_argument(
        "--update",
        type=user_path,
        help="a document whose rows to measure, and to write anew; a table of NPUs gets all rows of measured models",
    )
    parser.add_argument(
        "--timeout", type=float, default=240, help="seconds until a run counts as hung (default: %(default)s)"
    )
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    earlier = read_earlier(arguments.compare) if arguments.compare else None
    images = read_image_index(arguments.index)
    if arguments.model:
        known = sorted({image.model for image in images})
        unknown = sorted(set(arguments.model) - set(known))
        if unknown:
            raise UserError(f"no model {', '.join(unknown)} among the images; there are {', '.join(known)}")
        images = [image for image in images if image.model in arguments.model]
    if any(image.npu for image in images):
        return _run_with_npu(arguments, images, earlier)
    text = _document(arguments)
    if arguments.update:
        wanted = documented(text)
        images = [image for image in images if (image.model, image.variant, image.board) in wanted]
        if not images:
            raise UserError(f"{arguments.update}: it has no row of these images")
    rows, good = measure_all(images, lambda image: measure(image, arguments.qemu, arguments.objdump, arguments.timeout))
    print(table(rows))
    if any(row.cycles is not None for row in good):
        print(f"\ncycles: {MEANING}")
    _write_json(arguments, rows)
    if arguments.update:
        text, higher = update(text, good)
        replace_text(arguments.update, text)
        print("\n".join(["", *higher] if higher else ["", "no number is higher than it was"]))
    return _status(rows, good, earlier)


def _run_with_npu(
    arguments: argparse.Namespace, images: Sequence[Image], earlier: Mapping[_Key, Mapping[str, int]] | None
) -> int:
    text = _document(arguments)
    if arguments.update and NPU_TABLE_HEAD not in text.split("\n"):
        raise UserError(f"{arguments.update}: it has no table of networks on NPUs, which begins with {NPU_TABLE_HEAD}")
    rows, good = measure_all(images, lambda image: measure_with_npu(image, arguments.qemu, arguments.timeout))
    print(npu_table(good))
    _write_json(arguments, rows)
    if arguments.update:
        replace_text(arguments.update, update_npu_table(text, good))
    return _status(rows, good, earlier)


def _status(
    rows: Sequence[Row | NpuRow | Failed],
    good: Sequence[Row | NpuRow],
    earlier: Mapping[_Key, Mapping[str, int]] | None,
) -> int:
    """Says how the rows compare with those of an earlier run, and which failed, and why; returns the exit status."""
    worse: list[str] = []
    if earlier is not None:
        text, worse = comparison(good, earlier)
        print("\n".join(["", text, "", *(worse or ["no number is worse by 1 % or more"])]))
    failed = failures(rows)
    if failed:
        print("\n".join(["", *failed]))
    return bool(failed or worse)


def _document(arguments: argparse.Namespace) -> str:
    """Returns the document to update; empty if there is none."""
    if not arguments.update:
        return ""
    with reading("document", arguments.update, "name a Markdown file with rows of this table"):
        return str(arguments.update.read_text(encoding="utf-8"))


def _write_json(arguments: argparse.Namespace, rows: Sequence[Row | NpuRow | Failed]) -> None:
    if arguments.json:
        replace_text(arguments.json, json.dumps([asdict(row) for row in rows], indent=2) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("benchmark", _run, _parse(argv))
