"""Reports what takes an image's flash and RAM, and holds it to its board's limits.

The JSON: {"image", "program", "board", "core", "flash", "ram"}, where program is the name of the .pte or null, and
flash and ram are {"used", "limit", "parts"}: bytes in all, what the board has, and bytes by part, largest first. Parts
of flash: runtime, kernels, libc, weights, program metadata, example, application, board, strings, alignment; of ram:
arena method, arena planned, arena temp, stack, data, alignment. A part of no bytes is left out.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.program.program import constant_bytes
from tools.pipeline.report.image import Image, measure
from tools.quiet.files import reading
from tools.quiet.tool import run_tool

_BAR = 24
_MEMORIES = {"flash": "flash", "ram": "RAM"}


def as_json(name: str, program: str | None, board: Board, image: Image) -> dict[str, Any]:
    """The report as it is written to the JSON file."""
    return {
        "image": name,
        "program": program,
        "board": board.name,
        "core": board.core,
        "flash": {"used": image.flash.used, "limit": board.flash.length, "parts": image.flash.parts},
        "ram": {"used": image.ram.used, "limit": board.ram.length, "parts": image.ram.parts},
    }


def _title(report: dict[str, Any]) -> str:
    program = f": {report['program']}" if report["program"] else ""
    return f"{report['image']}{program} on {report['board']} ({report['core']})"


def _bar(used: int, limit: int) -> str:
    filled = min(_BAR, round(_BAR * used / limit))
    return "[" + "#" * filled + "." * (_BAR - filled) + "]"


def summary(report: dict[str, Any], elf: Path) -> str:
    """The report in four lines, and one that says where the image's files are.

    Building images for two boards at once leaves no `bazel-bin` that has both.
    """
    lines = []
    for memory, name in _MEMORIES.items():
        usage = report[memory]
        share = f"{100 * usage['used'] / usage['limit']:.1f} %"
        bar = _bar(usage["used"], usage["limit"])
        lines.append(f"  {name:<5} {bar} {usage['used']:>9,} of {usage['limit']:,} bytes ({share})")
        lines.append("        " + ", ".join(f"{part} {size:,}" for part, size in usage["parts"].items()))
    return "\n".join([_title(report), *lines, f"  {elf.with_suffix('')}.*"]) + "\n"


def full_text(report: dict[str, Any]) -> str:
    """The report with one line per part."""
    lines = [_title(report)]
    for memory, name in _MEMORIES.items():
        usage = report[memory]
        used = max(usage["used"], 1)
        lines += ["", f"{name}: {usage['used']:,} of {usage['limit']:,} bytes"]
        lines += [f"  {part:<18}{size:>10,}  {100 * size / used:5.1f} %" for part, size in usage["parts"].items()]
    return "\n".join(lines) + "\n"


def over_limits(report: dict[str, Any]) -> Iterator[str]:
    """A message per memory that the image does not fit into: by how much, and what takes it."""
    advice = {
        "flash": "use a smaller model, --//firmware:console=off, or a board with more flash",
        "ram": "use a smaller model or input, a lower stack_size of the board, or a board with more RAM",
    }
    for memory, name in _MEMORIES.items():
        usage = report[memory]
        if usage["used"] > usage["limit"]:
            parts = ", ".join(f"{part} {size:,}" for part, size in usage["parts"].items())
            yield (
                f"{report['image']} does not fit into the {name} of {report['board']}: {usage['used']:,} of "
                f"{usage['limit']:,} bytes, {usage['used'] - usage['limit']:,} too many. It goes to: {parts}. "
                f"{advice[memory][0].upper()}{advice[memory][1:]}."
            )


def comparison(reports: Sequence[dict[str, Any]]) -> str:
    """Several reports side by side: a row per image, a column per part."""
    rows = [["image", "board"]]
    rows[0] += ["flash", *_parts(reports, "flash"), "RAM", *_parts(reports, "ram")]
    for report in reports:
        row = [report["image"], report["board"]]
        for memory in _MEMORIES:
            row.append(f"{report[memory]['used']:,}")
            row += [f"{report[memory]['parts'].get(part, 0):,}" for part in _parts(reports, memory)]
        rows.append(row)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        + "\n"
        for row in rows
    )


def _parts(reports: Sequence[dict[str, Any]], memory: str) -> list[str]:
    """All parts that occur, in the order of first occurrence."""
    return list(dict.fromkeys(part for report in reports for part in report[memory]["parts"]))


def read_report(path: Path) -> dict[str, Any]:
    """Reads the JSON of an earlier report.

    Raises:
        UserError: the file is missing or something else.
    """
    with reading("size report", path, "pass the .report.json of a torch_firmware"):
        report = json.loads(path.read_text(encoding="utf-8"))
        for memory in _MEMORIES:
            int(report[memory]["used"])
            dict(report[memory]["parts"])
        str(report["image"]), str(report["board"])
    return report


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="report", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--elf", type=Path, help="the image")
    parser.add_argument("--map", type=Path, help="the linker's map")
    parser.add_argument("--board", type=Path, help="board.json of the board it is for")
    parser.add_argument(
        "--program",
        type=Path,
        action="append",
        default=[],
        help="a .pte in the image, for the size of its constants; repeat for more",
    )
    parser.add_argument(
        "--compare", type=Path, action="append", default=[], help="earlier report (JSON); repeat to compare images"
    )
    parser.add_argument("--text", type=Path, help="text report to write")
    parser.add_argument("--json", type=Path, help="JSON report to write")
    parser.add_argument("--quiet", action="store_true", help="do not print the summary")
    arguments = parser.parse_args(argv)
    if not arguments.compare and not (arguments.elf and arguments.map and arguments.board):
        parser.error("give --elf, --map and --board, or --compare")
    return arguments


def _write(arguments: argparse.Namespace, text: str, data: object) -> None:
    if arguments.text:
        arguments.text.write_text(text, encoding="utf-8")
    if arguments.json:
        arguments.json.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _run(arguments: argparse.Namespace) -> int:
    # Standard output of a build action is shown by Bazel as it is; the summary belongs there.
    if arguments.compare:
        reports = [read_report(path) for path in arguments.compare]
        text = comparison(reports)
        _write(arguments, text, reports)
        if not arguments.quiet:
            print(text, end="")
        return 0
    board = read_board(arguments.board)
    constants = sum(map(constant_bytes, arguments.program))
    image = measure(arguments.elf, arguments.map, board.flash, board.ram, constants)
    program = ", ".join(path.stem for path in arguments.program) or None
    report = as_json(arguments.elf.stem, program, board, image)
    problems = list(over_limits(report))
    _write(arguments, full_text(report), report)
    if problems:
        for problem in problems:
            print(f"report: error: {problem}", file=sys.stderr)
        return 1
    if not arguments.quiet:
        print(summary(report, arguments.elf), end="")
    return 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("report", _run, _parse(argv))
