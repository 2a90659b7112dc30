"""Compares what an image takes with limits, and says which parts and layers grew since a recorded baseline."""

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tools.artifacts.board.board import read_board
from tools.artifacts.document.document import from_json, to_json
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.profile.profile import read_profile
from tools.artifacts.quantization_report.quantization_report import read_quantization_report
from tools.artifacts.size_report.size_report import read_size_report
from tools.quiet.console import UserError
from tools.quiet.files import reading, replace_text
from tools.quiet.tool import run_tool

_FORMAT, _VERSION = "budget baseline", 1

_UNITS = {"flash": "bytes of flash", "ram": "bytes of RAM", "instructions": "instructions", "ms": "ms", "accuracy": ""}

# So many parts or layers of the growth are named.
_MOST = 5


@dataclass(frozen=True)
class Measures:
    """The sizes of an image: totals by the names of limits, and the parts or layers of each."""

    totals: dict[str, float]
    parts: dict[str, dict[str, float]] = field(default_factory=dict)


def number_of(name: str, text: str) -> float | None:
    """Returns the number of a limit, such as `64K` of `flash`; None for an unknown limit or another form."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([KM]?)", text)
    if name not in _UNITS or found is None or (found[2] and name not in ("flash", "ram")):
        return None
    return float(found[1]) * {"": 1, "K": 1024, "M": 1024 * 1024}[found[2]]


def parse_limit(text: str) -> tuple[str, float]:
    """Returns the name and the number of a limit such as `flash=64K`.

    Raises:
        UserError: it has another form.
    """
    name, _, given = text.partition("=")
    number = number_of(name, given)
    if number is None:
        raise UserError(f'{name} = "{given}" is no limit; give a number, of bytes with K or M if you like: "64K"')
    return name, number


def baseline_json(measures: Measures) -> str:
    """Returns the text of a baseline."""
    return to_json(_FORMAT, _VERSION, asdict(measures))


def read_baseline(path: Path, update: str) -> Measures:
    """Reads a baseline.

    Args:
        update: label of the target that writes it.

    Raises:
        UserError: it is something else, or of another version.
    """
    advice = f"write it anew with bazel run {update}"
    content = from_json(path, _FORMAT, _VERSION, advice)
    with reading(_FORMAT, path, advice):
        return Measures(
            {str(name): float(number) for name, number in content["totals"].items()},
            {
                str(name): {str(part): float(number) for part, number in parts.items()}
                for name, parts in content["parts"].items()
            },
        )


def _text(name: str, number: float) -> str:
    return f"{number:.1%}" if name == "accuracy" else f"{number:,.3f}" if name == "ms" else f"{number:,.0f}"


def grown(name: str, now: Measures, before: Measures) -> list[str]:
    """Returns what of a total became more since the baseline, most first: `weights +1,200`."""
    old = before.parts.get(name, {})
    changes = {part: number - old.get(part, 0) for part, number in now.parts.get(name, {}).items()}
    # An instruction more in some layer explains nothing beside a new layer.
    least = max([0, *changes.values()]) / 1000
    more = sorted((part for part in changes if changes[part] > least), key=lambda part: -changes[part])
    return [f"{part} +{_text(name, changes[part])}" for part in more[:_MOST]]


def over(limits: Mapping[str, float], now: Measures, before: Measures | None, update: str) -> list[str]:
    """Returns a message for each limit that is not kept."""
    messages = []
    for name, limit in limits.items():
        number = now.totals[name]
        if number >= limit if name == "accuracy" else number <= limit:
            continue
        if name == "accuracy":
            message = f"accuracy is {_text(name, number)}, and {_text(name, limit)} is the least"
        else:
            excess = _text(name, number - limit)
            message = f"{_text(name, number)} {_UNITS[name]}, {excess} over the limit of {_text(name, limit)}"
        if before is None:
            message += f"; there is no baseline to say what grew: bazel run {update} writes one"
        elif name != "accuracy":
            message += f"; since the baseline: {', '.join(grown(name, now, before)) or 'nothing grew'}"
        elif name in before.totals:
            message += f"; the baseline has {_text(name, before.totals[name])}"
        messages.append(message)
    return messages


def markdown(title: str, limits: Mapping[str, float], now: Measures, before: Measures | None) -> str:
    """Returns a table for a pull request."""
    lines = [f"### {title}", "", "| | now | baseline | change | limit | grew |", "|---|--:|--:|--:|--:|---|"]
    for name, number in now.totals.items():
        old = before.totals.get(name) if before else None
        change = "" if old is None else f"{'+' if number >= old else '-'}{_text(name, abs(number - old))}"
        limit = _text(name, limits[name]) if name in limits else ""
        parts = ", ".join(grown(name, now, before)) if before else ""
        cells = [name, _text(name, number), "" if old is None else _text(name, old), change, limit, parts]
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _measure(arguments: argparse.Namespace) -> tuple[str, Measures]:
    sizes = read_size_report(arguments.report)
    board = read_board(arguments.board)
    totals: dict[str, float] = {"flash": sizes.flash.used, "ram": sizes.ram.used}
    parts: dict[str, dict[str, float]] = {"flash": dict(sizes.flash.parts), "ram": dict(sizes.ram.parts)}
    if arguments.profile:
        rows = read_profile(arguments.profile)
        manifest = read_manifest(arguments.manifest)
        layers = [
            f"{call.place.partition(' at ')[0]}: {manifest.operators[call.operator].name.rpartition('::')[2]}"
            for call in manifest.calls
        ]
        totals["instructions"] = sum(row.instructions for row in rows)
        parts["instructions"] = _summed(layers, [row.instructions for row in rows])
        cycles = [row.cycles for row in rows if row.cycles is not None]
        if len(cycles) == len(rows):
            times = [1e3 * count / board.clock_hz for count in cycles]
            totals["ms"] = sum(times)
            parts["ms"] = _summed(layers, times)
        elif any(limit.startswith("ms=") for limit in arguments.limit):
            raise UserError(f"the manual of {board.core} has no cycle counts to estimate ms from; limit instructions")
    if arguments.quantization:
        accuracy = read_quantization_report(arguments.quantization).accuracy
        if accuracy is None:
            raise UserError("the model file has no evaluation_set(), by which accuracy is measured: docs/models.md")
        totals["accuracy"] = accuracy.int8
    return f"{sizes.image} on {board.name}", Measures(totals, parts)


def _summed(names: Sequence[str], numbers: Sequence[float]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, number in zip(names, numbers, strict=True):
        found[name] = found.get(name, 0) + number
    return found


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="budget", description=__doc__)
    parser.add_argument("--report", type=Path, required=True, help="the size report")
    parser.add_argument("--board", type=Path, required=True, help="the board's definition")
    parser.add_argument("--profile", type=Path, help="the rows of the profile")
    parser.add_argument("--manifest", type=Path, help="the program's manifest.json, with --profile")
    parser.add_argument("--quantization", type=Path, help="the quantization report")
    parser.add_argument("--limit", action="append", default=[], help="as in flash=64K; repeatable")
    parser.add_argument("--baseline", type=Path, help="what was recorded")
    parser.add_argument("--write", help="file of the workspace to record to, in place of a comparison")
    parser.add_argument("--update", required=True, help="label of the target that records")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> int:
    limits = dict(map(parse_limit, arguments.limit))
    title, now = _measure(arguments)
    if arguments.write:
        path = Path(os.environ.get("BUILD_WORKSPACE_DIRECTORY", "."), arguments.write)
        replace_text(path, baseline_json(now))
        print(f"{path}: recorded")
        return 0
    before = read_baseline(arguments.baseline, arguments.update) if arguments.baseline else None
    summary = markdown(title, limits, now, before)
    print(summary)
    if folder := os.environ.get("TEST_UNDECLARED_OUTPUTS_DIR"):
        Path(folder, "budget.md").write_text(summary, encoding="utf-8")
    messages = over(limits, now, before, arguments.update)
    for message in messages:
        print(f"{title}: {message}")
    return 1 if messages else 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("budget", _run, _parse(argv))
