"""Formats images' use of flash and RAM as text: of one image, of several side by side, of one that doesn't fit."""

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.artifacts.size_report.size_report import Memory, SizeReport, read_size_report, size_reports_json
from tools.quiet.table import text_table
from tools.quiet.tool import run_tool
from tools.quiet.troubleshooting import more_about

_BAR = 24

_INT8 = 'int8 by backend = "cortex_m" of its torch_program, if it is in floating point (docs/quantize.md)'

_ADVICE = {
    "flash": f"Use {_INT8}, a smaller model, --//firmware:console=off, or a board with more flash.",
    "RAM": f'Use {_INT8}, memory = "smallest" beside that, a smaller model or input, a lower stack_size of the '
    "board, or a board with more RAM.",
}
_OTHER_ADVICE = "Use a smaller model or input, other arena_memories of the image, or another arena_memory of ethos_u()."


def _title(report: SizeReport) -> str:
    program = f": {report.program}" if report.program else ""
    return f"{report.image}{program} on {report.board} ({report.core})"


def _bar(used: int, limit: int) -> str:
    filled = min(_BAR, round(_BAR * used / limit))
    return "[" + "#" * filled + "." * (_BAR - filled) + "]"


def summary(report: SizeReport, elf: Path, engine: str = "") -> str:
    """Returns the report in four lines, one with the location of the image's files, and before them the engine that
    runs the model, if it is given with a reason.

    The location is needed because building images for two boards at once leaves no `bazel-bin` that has both.
    """
    lines = []
    width = max(5, *map(len, report.memories))
    for name, memory in report.memories.items():
        share = f"{100 * memory.used / memory.limit:.1f} %"
        bar = _bar(memory.used, memory.limit)
        lines.append(f"  {name:<{width}} {bar} {memory.used:>9,} of {memory.limit:,} bytes ({share})")
        lines.append(" " * (width + 3) + ", ".join(f"{part} {size:,}" for part, size in memory.parts.items()))
    if "," in engine:
        lines.append(f"  engine {engine}")
    return "\n".join([_title(report), *lines, f"  {elf.with_suffix('')}.*"]) + "\n"


def full_text(report: SizeReport, engine: str = "") -> str:
    """Returns the report with one line per part, and one with the engine that runs the model, if it is given."""
    lines = [_title(report), *([f"engine: {engine}"] if engine else [])]
    for name, memory in report.memories.items():
        used = max(memory.used, 1)
        lines += ["", f"{name}: {memory.used:,} of {memory.limit:,} bytes"]
        lines += [f"  {part:<18}{size:>10,}  {100 * size / used:5.1f} %" for part, size in memory.parts.items()]
    return "\n".join(lines) + "\n"


def over_limits(report: SizeReport) -> Iterator[str]:
    """Yields a message for each memory that the image does not fit into: by how many bytes, and its parts."""
    for name, memory in report.memories.items():
        if memory.used > memory.limit:
            parts = ", ".join(f"{part} {size:,}" for part, size in memory.parts.items())
            if 10 * memory.parts.get("example", 0) > memory.limit:
                parts += ", of which example = False leaves out the example"
            yield (
                f"{report.image} does not fit into the {name} of {report.board}: {memory.used:,} of "
                f"{memory.limit:,} bytes, {memory.used - memory.limit:,} too many. It goes to: {parts}. "
                f"{_ADVICE.get(name, _OTHER_ADVICE)}{more_about('DoesNotFit')}"
            )


def comparison(reports: Sequence[SizeReport]) -> str:
    """Compares several reports: a row per image, a column per part."""
    # All parts, in the order of first occurrence.
    columns = {
        name: list(dict.fromkeys(part for memory in memories for part in memory.parts))
        for name in dict.fromkeys(name for report in reports for name in report.memories)
        if (memories := [report.memories[name] for report in reports if name in report.memories])
    }
    rows = [["image", "board", *(cell for name, parts in columns.items() for cell in (name, *parts))]]
    for report in reports:
        row = [report.image, report.board]
        for name, parts in columns.items():
            memory = report.memories.get(name, Memory(0, 0, {}))
            row += [f"{memory.used:,}", *(f"{memory.parts.get(part, 0):,}" for part in parts)]
        rows.append(row)
    return "".join(f"{line}\n" for line in text_table(rows, {0, 1}))


def _run(arguments: argparse.Namespace) -> None:
    reports = [read_size_report(path) for path in arguments.compare]
    text = comparison(reports)
    arguments.text.write_text(text, encoding="utf-8")
    arguments.json.write_text(size_reports_json(reports), encoding="utf-8")
    # Bazel shows the standard output of a build action unchanged, so the table goes there.
    print(text, end="")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="report", description="Puts size reports of images side by side.")
    parser.add_argument(
        "--compare", type=Path, action="append", required=True, help=".report.json of an image; repeat for more"
    )
    parser.add_argument("--text", type=Path, required=True, help="table to write")
    parser.add_argument("--json", type=Path, required=True, help="reports to write, all in one file")
    return run_tool("report", _run, parser.parse_args(argv))
