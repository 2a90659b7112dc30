"""Measures each operator of an image that was built with //firmware:profiling=on.

In an emulator the numbers are instructions, with estimated cycles for cores whose manuals document the cycles of
instructions. For a program of an NPU they are its compiler's estimates, and the counts of the modelled NPU. On hardware
they are cycles of the core's counter: flash an image with --//firmware:profiling=on, save its console output, and pass
it to --console.
"""

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from tools.artifacts.board.board import read_board
from tools.artifacts.image_index.image_index import Image, read_image_index
from tools.artifacts.manifest.manifest import read_manifest
from tools.artifacts.npu_report.npu_report import read_npu_report
from tools.commands.profile.npu_profile import npu_json, npu_rows, npu_table
from tools.quiet.console import UserError, printable, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.table import text_table
from tools.quiet.tool import option_parser, run_tool
from tools.verify.cycles.cycles import MEANING, QemuWithCycles, qemu_with_cycles
from tools.verify.environment.npu import QemuWithNpu

_LINE = re.compile(r"^profile (?P<index>\d{1,9}): (?P<count>\d{1,19}) (?P<unit>\w+),", re.MULTILINE)


@dataclass(frozen=True)
class Row:
    """One operator call: its index in the program, operator, location in the model, count, multiply-accumulates and
    estimated cycles.
    """

    index: int
    operator: str
    origin: str
    count: int
    macs: int
    cycles: int | None = None


@dataclass(frozen=True)
class Profile:
    """An image's measurements: a row per operator call, in `unit` (instructions or cycles)."""

    name: str
    board: str
    unit: str
    rows: list[Row]

    @property
    def total(self) -> int:
        return sum(row.count for row in self.rows)

    @property
    def cycles(self) -> int | None:
        """Returns none| Estimated cycles of all."""
        cycles = [row.cycles for row in self.rows if row.cycles is not None]
        return sum(cycles) if cycles else None


def parse(console: str, manifest: Path, board: str) -> Profile:
    """Parses the profile in an image's output, with the locations from the manifest of its program.

    Raises:
        UserError: there is none, or it is another program's.
    """
    content = read_manifest(manifest)
    found = list(_LINE.finditer(console))
    if not found:
        raise UserError(
            "the console shows no line 'profile ...'; build the image with --//firmware:profiling=on and its console on"
        )
    counts = {int(match["index"]): int(match["count"]) for match in found}
    if sorted(counts) != list(range(len(content.calls))):
        raise UserError(
            f"the image measured {len(counts)} operator calls, manifest {manifest} has {len(content.calls)}; it is "
            "another program's"
        )
    rows = [
        Row(index, content.operators[call.operator].name, call.place, counts[index], call.macs)
        for index, call in enumerate(content.calls)
    ]
    return Profile(content.name, board, found[0]["unit"], rows)


def table(profile: Profile) -> str:
    """Returns a line per operator call, and the total."""
    unit = profile.unit
    lines = [["#", "operator", "module", unit, "share", "MACs", "per MAC"]]
    macs = sum(row.macs for row in profile.rows)
    rows = [(str(row.index), row.operator, row.origin, row.count, row.macs, row.cycles) for row in profile.rows]
    for index, operator, origin, count, count_of_macs, cycles in [
        *rows,
        ("", "total", "", profile.total, macs, profile.cycles),
    ]:
        cells = [index, operator, origin, f"{count:,}", f"{count / max(profile.total, 1):.1%}"]
        cells += [f"{count_of_macs:,}", f"{count / count_of_macs:.2f}"] if count_of_macs else ["", ""]
        if cycles is not None:
            cells += [f"{cycles:,}", f"{cycles / count_of_macs:.2f}" if count_of_macs else ""]
        lines.append(cells)
    if profile.cycles is not None:
        lines[0] += ["est. cycles", "per MAC"]
    return "\n".join(text_table(lines, {1, 2}))


def _parse_arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("profile", __doc__)
    parser.add_argument("--index", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--qemu", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--objdump", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--board", help="which of the boards' images to measure (default: the first)")
    parser.add_argument("--model", help="which of an image's several models to measure (default: the first)")
    parser.add_argument(
        "--console", type=user_path, help="what the console of a board printed, instead of running an emulator"
    )
    parser.add_argument("--json", type=user_path, help="file to write the rows to, as a list of objects")
    parser.add_argument(
        "--clock-mhz", type=float, help="clock at which to give the time of estimated cycles (default: the board's)"
    )
    parser.add_argument("--quiet", action="store_true", help="print no table")
    parser.add_argument("--timeout", type=float, default=600, help="seconds until the run counts as hung")
    arguments = parser.parse_args(argv)
    if arguments.clock_mhz is not None and not arguments.clock_mhz > 0:
        parser.error(f"--clock-mhz {arguments.clock_mhz:g}: give a frequency above 0")
    return arguments


def _choose(images: list[Image], board: str | None, model: str | None) -> Image:
    of_board = [image for image in images if board in (None, image.board)]
    if not of_board:
        known = dict.fromkeys(image.board for image in images)
        raise UserError(f"--board {board}: there is no image for it; there are {', '.join(known)}")
    for image in of_board:
        if model in (None, image.choice):
            return image
    known = dict.fromkeys(image.choice for image in of_board if image.choice)
    has = f"it has {', '.join(known)}" if known else "it has one, leave --model out"
    raise UserError(f"--model {model}: the image for {of_board[0].board} has no such model; {has}")


def _of_model(console: str, name: str) -> str:
    """Returns the part of an image's output for one of several models; all of it for an image with one model."""
    sections = re.split(r"^model (\w+)$", console, flags=re.MULTILINE) if name else []
    return next((text for title, text in zip(sections[1::2], sections[2::2], strict=True) if title == name), console)


def _profile_npu(image: Image, report: Path, arguments: argparse.Namespace) -> None:
    content = read_npu_report(report)
    environment = QemuWithNpu(read_board(image.description), arguments.qemu)
    environment.run(image.elf, timeout=arguments.timeout, model=image.choice)
    rows = npu_rows(content, environment.runs[: len(content.delegates)])
    print(f"{content.name} on {image.board}, {content.accelerator} at {content.clock_hz / 1e6:g} MHz")
    print(npu_table(rows))
    for entry in content.core:
        print(f"on the core: {entry}")
    if arguments.json:
        replace_text(arguments.json, json.dumps(npu_json(rows), indent=2) + "\n")


def _emulate(image: Image, arguments: argparse.Namespace) -> tuple[Profile, str]:
    """Returns the profile of an image in its board's emulator, and a note on its estimates."""
    board = read_board(image.description)
    environment = qemu_with_cycles(board, arguments.qemu, arguments.objdump)
    console = environment.run(image.elf, timeout=arguments.timeout, model=image.choice).console
    profile = parse(_of_model(console, image.choice), image.manifest, image.board)
    if not isinstance(environment, QemuWithCycles):
        return profile, ""
    cycles = environment.estimate([row.count for row in profile.rows])
    rows = [replace(row, cycles=estimate) for row, estimate in zip(profile.rows, cycles, strict=True)]
    clock_hz = arguments.clock_mhz * 1e6 if arguments.clock_mhz else board.clock_hz
    return replace(profile, rows=rows), (
        f"\nest. cycles: {MEANING}; {environment.timing.source}\n"
        f"{sum(cycles):,} cycles are {sum(cycles) / clock_hz * 1e3:,.3f} ms at {clock_hz / 1e6:g} MHz"
    )


def _run(arguments: argparse.Namespace) -> None:
    image = _choose(read_image_index(arguments.index), arguments.board, arguments.model)
    if image.npu and not arguments.console:
        _profile_npu(image, image.npu, arguments)
        return
    if arguments.console:
        with reading("console output", arguments.console, "save the board's output there"):
            console = arguments.console.read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
        profile = parse(_of_model(console, image.choice), image.manifest, "the board")
        note = ""
    else:
        profile, note = _emulate(image, arguments)
    if not arguments.quiet:
        print(printable(f"{profile.name} on {profile.board}"))
        print(table(profile) + note)
    if arguments.json:
        rows: list[dict[str, Any]] = [asdict(row) | {"unit": profile.unit} for row in profile.rows]
        replace_text(arguments.json, json.dumps(rows, indent=2) + "\n")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("profile", _run, _parse_arguments(argv))
