"""Proves an image on a board: programs it, runs the model's golden inputs and compares with PyTorch.

Images with a layer of each kind follow. It writes what it found, with the cycles of each operator call and the deepest
stack, to a report and a page. --simulate does the same with the board simulator. One run at a time uses a probe. The
report is written when all has run; its status is 1 if anything is wrong.
"""

import argparse
import binascii
import hashlib
import importlib.metadata
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.board_report.board_report import BoardReport, Item, Layer, board_report_json
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.golden.golden import Golden, read_golden
from tools.artifacts.manifest.manifest import read_manifest
from tools.commands.console.channel import MachineChannel
from tools.commands.flash.flash import add_arguments, chosen_tool, program_with_console, refuse_when_simulated
from tools.commands.flash.pyocd_tool import Programmed, Selection, change_bits, find_probe
from tools.commands.infer.protocol import Client
from tools.commands.on_board.on_board import SIMULATED, VERDICT, inputs_of, read_start, reserve, run_samples, talk
from tools.commands.profile.profile import parse
from tools.pipeline.page.page import page_data, read_image, write_page
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replacing
from tools.quiet.tool import option_parser, run_tool
from tools.verify.cycles.cycles import estimate_stretches
from tools.verify.cycles.disassembly import disassemble
from tools.verify.cycles.timing import timing_of
from tools.verify.environment.comparison import compare, differences
from tools.verify.environment.environment import spread

_INFERENCE = re.compile(r"^execute: (\d+) (\w+),", re.MULTILINE)
_STACK = re.compile(r"^stack: (\d+) of (\d+)$", re.MULTILINE)
# The tolerance of firmware_test, for programs that compute in floating point.
_TOLERANCE = 1e-5
# The instructions of recorded blocks may differ from a count by so many.
_TOLERATED_INSTRUCTIONS = 1
# firmware/application.h reads at most so much from the console (kMaxConsoleInput).
_MOST_INPUT = 32768


def compare_samples(outputs: Sequence[np.ndarray], golden: Golden) -> Item:
    """Compares outputs, as run_samples() returns them, with PyTorch's."""
    expected = golden.outputs_in_memory()
    equal = sum(
        all(a[sample].tobytes() == e[sample].tobytes() for a, e in zip(outputs, expected, strict=True))
        for sample in range(golden.samples)
    )
    found = f"{equal} of {golden.samples} equal PyTorch to the bit"
    if equal < golden.samples:
        largest = max(differences(a, e).max(initial=0.0) for a, e in zip(outputs, expected, strict=True))
        found += f", the largest difference is {largest:.3g}"
    problems = compare(golden.outputs_from_memory(outputs), golden, _TOLERANCE, _TOLERANCE)
    return Item("golden inputs", not problems, "; ".join([found, *problems]))


def _change_settings(client: Client, golden: Golden, board: Board, selection: Selection, unit: str) -> Iterator[Item]:
    """Yields what the first sample takes by each of the board's `prove_settings`, and whether its outputs stay."""
    inputs = inputs_of(client, golden.inputs_in_memory(), 0)

    def run() -> tuple[int, list[bytes]]:
        result = client.infer(inputs)
        return round(result.seconds * client.device.ticks_per_second), [each.tobytes() for each in result.outputs]

    usual, expected = run()
    for name, changes in board.prove_settings.items():
        undo = change_bits(board, selection, changes)
        try:
            ticks, outputs = run()
        finally:
            change_bits(board, selection, undo)
        same = outputs == expected
        found = f"{ticks:,} {unit}, {usual:,} by the usual setting; {'the same' if same else 'other'} outputs"
        yield Item(f"inference {name}", same, found)


def _check_program(client: Client, program: Path) -> None:
    with reading("program", program, "build the image anew"):
        content = program.read_bytes()
    device = client.device
    if (device.program_size, device.program_crc) != (len(content), binascii.crc32(content)):
        raise UserError(
            f"the console is another board's: it runs {device.name}, {device.program_size:,} bytes with CRC-32 "
            f"{device.program_crc:08x}, and not the program that was flashed; choose the board's console with --port"
        )


def _read_versions(spdx: Path) -> dict[str, str]:
    with reading("bill of materials", spdx, "pass the .spdx.json of a torch_firmware"):
        packages = json.loads(spdx.read_text(encoding="utf-8"))["packages"]
        versions = {str(each["name"]): str(each["versionInfo"]) for each in packages if "versionInfo" in each}
    return versions | {"pyocd": importlib.metadata.version("pyocd")}


def _count(arguments: argparse.Namespace, board: Board) -> Iterator[tuple[int | None, int | None]]:
    """Yields instructions and estimated cycles of each operator call on the simulator, as far as they are known."""
    if board.simulator is None:
        yield from repeat((None, None))
    from boardsim.boardsim import Simulation
    from boardsim.executed import Recorder

    simulation = Simulation(ElfImage(arguments.elf), board)
    timing = timing_of(board.core)
    recorder = Recorder(simulation.machine) if timing else None
    console = simulation.run().console.replace("\r", "")
    # A cycle of the simulator's counter is an instruction.
    counts = [row.count for row in parse(console, arguments.manifest, board.name).rows]
    estimate = None
    if timing and recorder:
        parts = recorder.parts(disassemble(arguments.elf, arguments.objdump), timing)
        estimate = estimate_stretches(parts, counts, _TOLERATED_INSTRUCTIONS)
    yield from zip(counts, estimate or repeat(None), strict=False)


def page_of(report: BoardReport, files: Sequence[str]) -> dict[str, Any]:
    """The data of a page about a report, as the page's script reads it: a model's page with a proof.

    Args:
        report: the report.
        files: the image's, as read_image() of the page takes them.
    """
    data = page_data(f"{report.model} on {report.board}", [read_image(files)])
    rows = [[layer.instructions, layer.estimate, layer.measured] for layer in report.layers]
    data["images"][0] |= {"rows": rows, "measured_on": report.board}
    return data | {"proof": asdict(replace(report, layers=()))}


def _find(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        raise UserError(f"the image's output has no line {pattern.pattern}; run an image with the usual application")
    return found


@dataclass(frozen=True)
class _Ran:
    """An image that was programmed and ran: what it printed from its start, and what was found."""

    programmed: Programmed
    start: str
    items: list[Item]


def _run_image(arguments: argparse.Namespace, board: Board, golden: Golden, *, settings: bool) -> _Ran:
    """Programs an image, and runs its example and golden inputs.

    Args:
        arguments: those of the command, with the image's files.
        board: the board.
        golden: the golden inputs.
        settings: whether the first one is repeated by the board's `prove_settings`.
    """
    # The simulator's probe has programmed the model's image, and would do the same for those of layers.
    channel, programmed = program_with_console(arguments, board, loads=None if settings else ElfImage(arguments.elf))
    if isinstance(channel, MachineChannel):
        # The notes are about a board that has no image yet.
        channel.machine.notes.clear()
    items = [Item("flash", True, programmed.summary)]
    with closing(channel):
        start = read_start(channel, arguments.patience)
        verdict = _find(VERDICT, start)[1]
        items.append(Item("example", verdict == "PASS", verdict))
        client = talk(channel, arguments.patience)
        _check_program(client, arguments.program)
        # Its state after some inferences is not that of the golden inputs.
        if not read_manifest(arguments.manifest).keeps_state:
            items.append(compare_samples(run_samples(client, golden), golden))
            if settings and arguments.tool in (None, "pyocd"):
                selection = Selection(arguments.probe, arguments.pack, arguments.algorithm)
                items += _change_settings(client, golden, board, selection, _find(_INFERENCE, start)[2])
        if isinstance(channel, MachineChannel):
            notes = channel.machine.notes
            items.append(Item("simulated hardware", not notes, channel.machine.explain().replace("\n", "; ")))
    return _Ran(programmed, start, items)


def _prove_layers(arguments: argparse.Namespace, board: Board) -> tuple[list[Item], list[Layer]]:
    """Runs images of layers; returns an item for each, and the layers as they were measured."""
    items, layers = [], []
    for elf, hex_file, golden_file, manifest, program, *uf2 in arguments.layers:
        files = {"elf": elf, "hex": hex_file, "manifest": manifest, "program": program, "uf2": (uf2 or [None])[0]}
        image = argparse.Namespace(**vars(arguments) | files)
        golden = read_golden(golden_file)
        ran = _run_image(image, board, golden.part(spread(golden, arguments.samples)), settings=False)
        profile = parse(ran.start, manifest, board.name)
        problems = [f"{item.name}: {item.found}" for item in ran.items if not item.passed]
        (found,) = [item.found for item in ran.items if item.name == "golden inputs"]
        text = f"golden inputs: {found}; {profile.total:,} {profile.unit} in {len(profile.rows)} operator calls"
        items.append(Item(f"layers of {profile.name}", not problems, "; ".join([text, *problems])))
        layers += [Layer(row.operator, f"{profile.name}: {row.origin}", row.macs, row.count) for row in profile.rows]
    return items, layers


def prove(arguments: argparse.Namespace, board: Board) -> BoardReport:
    """Programs a board, runs its images and returns what was found.

    Raises:
        UserError: the board can't be programmed, or is lost on the way.
    """
    golden, manifest = read_golden(arguments.golden), read_manifest(arguments.manifest)
    size = sum(array[0].nbytes for array in golden.inputs)
    if size > _MOST_INPUT:
        raise UserError(
            f"the inputs of {manifest.name} take {size:,} bytes, and a console gives {_MOST_INPUT:,} at the most; "
            "prove a model with smaller ones"
        )
    versions = _read_versions(arguments.spdx)
    if arguments.simulate:
        probe = SIMULATED
    elif chosen_tool(arguments) == "pyocd":
        probe = arguments.probe = find_probe(arguments.probe, uf2=arguments.uf2 is not None).unique_id
    else:
        probe = arguments.probe or chosen_tool(arguments)
    with reserve([probe]):
        ran = _run_image(arguments, board, golden.part(spread(golden, arguments.samples)), settings=True)
        layer_items, kinds = _prove_layers(arguments, board)
    inference, stack = _find(_INFERENCE, ran.start), _find(_STACK, ran.start)
    used, available = int(stack[1]), int(stack[2])
    rows = parse(ran.start, arguments.manifest, board.name).rows
    total = sum(row.count for row in rows)
    return BoardReport(
        board=board.name,
        description=board.description,
        place="simulator" if arguments.simulate else "board",
        chip=ran.programmed.chip,
        revision=ran.programmed.revision,
        model=manifest.name,
        image=hashlib.sha256(arguments.hex.read_bytes()).hexdigest(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        versions=versions,
        unit=inference[2],
        clock_hz=board.clock_hz,
        inference=int(inference[1]),
        stack_used=used,
        stack_size=available,
        items=(
            *ran.items,
            Item("stack", used < available, f"{used:,} of {available:,} bytes at its deepest"),
            Item("layers", total > 0, f"{total:,} {inference[2]} in {len(rows)} operator calls"),
            *layer_items,
        ),
        layers=tuple(
            Layer(row.operator, row.origin, row.macs, row.count, *counted)
            for row, counted in zip(rows, _count(arguments, board), strict=False)
        ),
        kinds=tuple(kinds),
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("prove", __doc__)
    image = add_arguments(parser)
    image.add_argument("--golden", type=Path, required=True, help="the model's golden inputs and PyTorch's outputs")
    image.add_argument("--manifest", type=Path, required=True, help="manifest.json of the model's program")
    image.add_argument("--program", type=Path, required=True, help="the .pte in the image")
    image.add_argument("--spdx", type=Path, required=True, help="what the image consists of")
    image.add_argument("--objdump", type=Path, required=True, help="the Arm GNU toolchain's objdump")
    image.add_argument("--sizes", required=True, help="size report of the image")
    image.add_argument("--graph", required=True, help="graph.json of the program")
    image.add_argument("--quantization", default="", help="quantization report of the program, if there is one")
    image.add_argument("--library", type=Path, action="append", default=[], help="a script of the page; repeatable")
    image.add_argument("--licence", type=Path, action="append", default=[], help="a library's licence; repeatable")
    parser.add_argument(
        "--report",
        type=user_path,
        default=user_path("board_report.json"),
        help="the report to write, .json; the page is beside it, .html (default: %(default)s)",
    )
    image.add_argument(
        "--layers",
        type=Path,
        action="append",
        default=[],
        nargs="+",
        metavar="FILE",
        help="ELF, Intel HEX, golden inputs, manifest and program of an image of layers, and its UF2 if there is one; "
        "repeatable",
    )
    parser.add_argument("--samples", type=int, default=100, help="the most golden inputs (default: %(default)s)")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds without an answer until giving up")
    arguments = parser.parse_args(argv)
    if arguments.samples < 1:
        parser.error(f"--samples {arguments.samples}: give how many")
    if arguments.report.suffix != ".json":
        parser.error(f"--report {arguments.report}: its name ends in .json")
    return arguments


def _run(arguments: argparse.Namespace) -> int:
    if arguments.simulate:
        refuse_when_simulated(arguments, "probe", "tool", "pack", "port")
    report = prove(arguments, read_board(arguments.board))
    files = [arguments.sizes, str(arguments.board), arguments.graph, arguments.quantization, "", ""]
    page = arguments.report.with_suffix(".html")
    with replacing(arguments.report) as written, replacing(page) as html:
        written.write_text(board_report_json(report), encoding="utf-8")
        write_page(html, page_of(report, files), arguments.library, arguments.licence)
    for item in report.items:
        print(f"{'PASS' if item.passed else 'FAIL'}  {item.name}: {item.found}")
    print(f"report: {arguments.report}, page: {page}")
    return 0 if report.passed else 1


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("prove", _run, _parse(argv))
