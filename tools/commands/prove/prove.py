"""Proves an image on a board: programs it, runs the model's golden inputs and compares with PyTorch.

It writes what it found, with the cycles of each operator call and the deepest stack, to a report and a page. --simulate
does the same with the board simulator. The report is written when all has run; its status is 1 if anything is wrong.
"""

import argparse
import binascii
import hashlib
import importlib.metadata
import json
import re
import time
from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import repeat
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.board_report.board_report import BoardReport, Item, Layer, board_report_json
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.artifacts.golden.golden import Golden, read_golden
from tools.artifacts.manifest.manifest import read_manifest
from tools.commands.console.channel import Channel, MachineChannel
from tools.commands.flash.flash import add_arguments, program_with_console, refuse_when_simulated
from tools.commands.infer.protocol import Client
from tools.commands.profile.profile import parse
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replace_text
from tools.quiet.tool import run_tool
from tools.verify.environment.comparison import compare, differences
from tools.verify.environment.environment import spread

_BANNER = "Torch Fusion: "
_VERDICT = re.compile(r"^(PASS|FAIL.*)$", re.MULTILINE)
_INFERENCE = re.compile(r"^execute: (\d+) (\w+),", re.MULTILINE)
_STACK = re.compile(r"^stack: (\d+) of (\d+)$", re.MULTILINE)
# The tolerance of firmware_test, for programs that compute in floating point.
_TOLERANCE = 1e-5
# firmware/application.h reads at most so much from the console (kMaxConsoleInput).
_MOST_INPUT = 32768


def read_start(channel: Channel, patience: float) -> str:
    """Reads what an image prints from its start until it asks for input.

    Args:
        channel: the board's console.
        patience: seconds without a byte until the image counts as stuck.

    Raises:
        UserError: it doesn't get that far.
    """
    text, last = "", time.monotonic()
    while True:
        try:
            data = channel.read(min(0.5, patience))
        except UserError as error:
            raise UserError(f"the board was lost before its image asked for input: {error}") from error
        text += data.decode("utf-8", "replace").replace("\r", "")
        # An older image may have printed something before.
        start = text[max(0, text.rfind(_BANNER)) :]
        if _VERDICT.search(start) and start.endswith("> "):
            return start
        if data:
            last = time.monotonic()
        elif time.monotonic() - last > patience:
            said = text.strip().splitlines()
            raise UserError(
                f"the image on {channel.name} printed nothing for {patience:g} s and doesn't ask for input; "
                + (f"its last line is: {said[-1]}" if said else "is this port its console (--port)?")
            )


def run_samples(client: Client, golden: Golden) -> list[np.ndarray]:
    """Runs the device's program on all samples; returns an array per output, as Golden.outputs_in_memory().

    Raises:
        UserError: the device stops answering.
    """
    inputs = golden.inputs_in_memory()
    results = []
    for sample in range(golden.samples):
        arrays = [
            array[sample].astype(spec.dtype, copy=False).reshape(spec.shape)
            for array, spec in zip(inputs, client.device.inputs, strict=True)
        ]
        try:
            results.append(client.infer(arrays).outputs)
        except UserError as error:
            reason = str(error).splitlines()[0]
            raise UserError(f"the board was lost at sample {sample + 1} of {golden.samples}: {reason}") from error
    return [
        np.stack([result[i] for result in results]).reshape(expected.shape)
        for i, expected in enumerate(golden.outputs_in_memory())
    ]


def compare_samples(outputs: Sequence[np.ndarray], golden: Golden) -> Item:
    """Compares outputs, as run_samples() returns them, with PyTorch's."""
    expected = golden.outputs_in_memory()
    equal = sum(
        all(a[sample].tobytes() == e[sample].tobytes() for a, e in zip(outputs, expected, strict=True))
        for sample in range(golden.samples)
    )
    found = f"{equal} of {golden.samples} samples equal PyTorch to the bit"
    if equal < golden.samples:
        largest = max(differences(a, e).max(initial=0.0) for a, e in zip(outputs, expected, strict=True))
        found += f", the largest difference is {largest:.3g}"
    problems = compare(golden.outputs_from_memory(outputs), golden, _TOLERANCE, _TOLERANCE)
    return Item("golden inputs", not problems, "; ".join([found, *problems]))


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


def _count(arguments: argparse.Namespace, board: Board) -> Sequence[int | None]:
    """Counts the instructions of each operator call on the simulator, of whose counter a cycle is an instruction."""
    if board.simulator is None:
        return ()
    from boardsim.boardsim import Simulation

    console = Simulation(ElfImage(arguments.elf), board).run().console.replace("\r", "")
    return [row.count for row in parse(console, arguments.manifest, board.name).rows]


def _find(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    found = pattern.search(text)
    if found is None:
        raise UserError(f"the image's output has no line {pattern.pattern}; run an image with the usual application")
    return found


def prove(arguments: argparse.Namespace, board: Board) -> BoardReport:
    """Programs a board, runs its image and returns what was found.

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
    golden = golden.part(spread(golden.samples, arguments.samples))
    channel, programmed = program_with_console(arguments, board)
    if isinstance(channel, MachineChannel):
        # The notes are about a board that has no image yet.
        channel.machine.notes.clear()
    items = [Item("flash", True, programmed.summary)]
    with closing(channel):
        start = read_start(channel, arguments.patience)
        verdict = _find(_VERDICT, start)[1]
        items.append(Item("example", verdict == "PASS", verdict))
        client = Client(channel, arguments.patience)
        _check_program(client, arguments.program)
        # Its state after some inferences is not that of the golden inputs.
        if not manifest.keeps_state:
            items.append(compare_samples(run_samples(client, golden), golden))
        if isinstance(channel, MachineChannel):
            notes = channel.machine.notes
            items.append(Item("simulated hardware", not notes, channel.machine.explain().replace("\n", "; ")))
    inference, stack = _find(_INFERENCE, start), _find(_STACK, start)
    used, available = int(stack[1]), int(stack[2])
    items.append(Item("stack", used < available, f"{used:,} of {available:,} bytes at its deepest"))
    rows = parse(start, arguments.manifest, board.name).rows
    total = sum(row.count for row in rows)
    items.append(Item("layers", total > 0, f"{total:,} {inference[2]} in {len(rows)} operator calls"))
    return BoardReport(
        board=board.name,
        description=board.description,
        place="simulator" if arguments.simulate else "board",
        chip=programmed.chip,
        revision=programmed.revision,
        model=manifest.name,
        image=hashlib.sha256(arguments.hex.read_bytes()).hexdigest(),
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        versions=versions,
        unit=inference[2],
        clock_hz=board.clock_hz,
        inference=int(inference[1]),
        stack_used=used,
        stack_size=available,
        items=tuple(items),
        layers=tuple(
            Layer(row.operator, row.origin, row.macs, row.count, instructions)
            for row, instructions in zip(rows, _count(arguments, board) or repeat(None), strict=False)
        ),
    )


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="prove", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    image = add_arguments(parser)
    image.add_argument("--golden", type=Path, required=True, help="the model's golden inputs and PyTorch's outputs")
    image.add_argument("--manifest", type=Path, required=True, help="manifest.json of the model's program")
    image.add_argument("--program", type=Path, required=True, help="the .pte in the image")
    image.add_argument("--spdx", type=Path, required=True, help="what the image consists of")
    parser.add_argument(
        "--report",
        type=user_path,
        default=user_path("board_report.json"),
        help="the report to write, .json (default: %(default)s)",
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
    replace_text(arguments.report, board_report_json(report))
    for item in report.items:
        print(f"{'PASS' if item.passed else 'FAIL'}  {item.name}: {item.found}")
    print(f"report: {arguments.report}")
    return 0 if report.passed else 1


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("prove", _run, _parse(argv))
