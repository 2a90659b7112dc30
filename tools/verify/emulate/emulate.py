"""Runs a firmware image in its board's emulator and sets its outputs beside PyTorch's."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.golden.golden import Golden, read_golden
from tools.artifacts.memory_plan.memory_plan import read_memory_plan
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool
from tools.verify.emulate.run import Result, emulate, join_inputs, split_outputs

# Bytes at the end of the planned arena that no kernel may write: int8 kernels read scratch memory by words, of which
# the last one may have padding.
_UNWRITTEN = 3

# Elements that the table shows at most.
_ROWS = 12


def differences(actual: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Absolute differences in float64; 0 where both are the same infinity or NaN, inf where only one is NaN."""
    a, b = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore"):
        result = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
    return np.where(np.isnan(result), np.inf, result)


def outside_tolerance(actual: np.ndarray, expected: np.ndarray, atol: float, rtol: float) -> np.ndarray:
    """Where |actual - expected| > atol + rtol * |expected|, elementwise."""
    magnitude = np.nan_to_num(np.abs(expected.astype(np.float64)), nan=0.0, posinf=0.0, neginf=0.0)
    return differences(actual, expected) > atol + rtol * magnitude


def accuracy(outputs: np.ndarray, labels: np.ndarray) -> float:
    """Share of samples whose largest output is at the label's index."""
    return float(np.mean(outputs.reshape(len(labels), -1).argmax(axis=1) == labels))


def run_golden(elf: Path, board: Board, qemu: Path, golden: Golden, timeout: float) -> tuple[Result, list[np.ndarray]]:
    """Runs an image on all golden inputs. Returns the run and the device's outputs, shaped as golden.outputs."""
    result = emulate(elf, board, qemu, join_inputs(golden.inputs_in_memory()), timeout)
    return result, golden.outputs_from_memory(split_outputs(result.outputs, golden.outputs_in_memory()))


def _table(name: str, actual: np.ndarray, expected: np.ndarray) -> Iterator[str]:
    yield f"{name}: {expected.dtype} {list(expected.shape[1:])}"
    yield f"  {'sample, index':<18}{'device':>14}{'PyTorch':>14}{'difference':>14}"
    difference = differences(actual, expected)
    for index in list(np.ndindex(expected.shape))[:_ROWS]:
        place = f"{index[0]}, {list(index[1:])}"
        yield f"  {place:<18}{actual[index]:>14.7g}{expected[index]:>14.7g}{difference[index]:>14.3g}"
    if expected.size > _ROWS:
        yield f"  ... {expected.size - _ROWS} more; largest difference {difference.max():.3g}"


def _measurements(result: Result) -> Iterator[str]:
    report = result.report
    yield f"load {result.load:,} instructions, inference {result.execute:,} instructions"
    yield f"arenas: method {report.method_used:,}, planned {report.planned_used:,}, temp {report.temp_used:,} bytes"
    yield f"stack: {report.stack_used:,} of {report.stack_size:,} bytes"


def compare(outputs: Sequence[np.ndarray], golden: Golden, atol: float, rtol: float) -> list[str]:
    """One message per output with elements outside the tolerance; empty if all are inside."""
    problems = []
    for i, (actual, expected) in enumerate(zip(outputs, golden.outputs, strict=True)):
        bad = outside_tolerance(actual, expected, atol, rtol)
        if bad.any():
            index = tuple(int(axis) for axis in np.argwhere(bad)[0])
            problems.append(
                f"output {i}: {int(bad.sum())} of {bad.size} elements differ from PyTorch by more than {atol:g} + "
                f"{rtol:g} * |PyTorch|, the first in sample {index[0]} at {list(index[1:])}: device {actual[index]}, "
                f"PyTorch {expected[index]}; the largest difference is {differences(actual, expected).max():.3g}"
            )
    return problems


def check_arenas(result: Result, plan: Path) -> list[str]:
    """One message per arena that is not used to the planned byte."""
    used = {
        "method": result.report.method_used,
        "planned": result.report.planned_used,
        "temp": result.report.temp_used,
    }
    return [
        f"arena {name}: {used[name]} bytes used, {planned} planned"
        for name, planned in read_memory_plan(plan).arenas.items()
        if not planned - (_UNWRITTEN if name == "planned" else 0) <= used[name] <= planned
    ]


def _timeout() -> float:
    """Seconds for one of the two runs: in a test of Bazel's, so few that a hang is reported before the test ends."""
    return 0.4 * float(os.environ.get("TEST_TIMEOUT", "600"))


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="emulate", description=__doc__)
    parser.add_argument("--elf", type=Path, required=True, help="the image")
    parser.add_argument("--board", type=Path, required=True, help="board.json of the board it is for")
    parser.add_argument("--qemu", type=Path, required=True, help="qemu-system-arm")
    parser.add_argument("--golden", type=Path, help="inputs and eager outputs (.npz)")
    parser.add_argument("--plan", type=Path, help="plan.json: the arenas must be used to the planned byte")
    parser.add_argument("--manifest", type=Path, help="manifest.json of the program")
    parser.add_argument("--atol", type=float, default=1e-5, help="absolute tolerance of an output element")
    parser.add_argument("--rtol", type=float, default=1e-5, help="relative tolerance of an output element")
    parser.add_argument(
        "--min-accuracy", type=float, help="least share of samples classified right, on device and in eager"
    )
    parser.add_argument(
        "--max-accuracy-drop",
        type=float,
        default=1.0,
        help="how far the accuracy of a quantized program may be below that of the module in floating point",
    )
    parser.add_argument("--timeout", type=float, default=_timeout(), help="seconds until a run counts as hung")
    parser.add_argument(
        "--test",
        action="store_true",
        help="fail on differences, on unused arena bytes and without the embedded example's PASS",
    )
    return parser.parse_args(argv)


def check_accuracy(device: float, expected: float, eager: float, minimum: float | None, drop: float) -> list[str]:
    """What is wrong with the accuracy of the device beside that of its expected outputs and of the user's module."""
    problems = []
    if device != expected:
        problems.append(f"accuracy on the device, {device:.4f}, is not that of the expected outputs, {expected:.4f}")
    if eager - device > drop:
        problems.append(f"accuracy on the device, {device:.4f}, is more than {drop:g} below PyTorch's, {eager:.4f}")
    if minimum is not None:
        problems += [
            f"accuracy {where} is {value:.4f}, below {minimum:g}"
            for where, value in (("on the device", device), ("in eager PyTorch", eager))
            if value < minimum
        ]
    return problems


def _run(arguments: argparse.Namespace) -> int:
    board = read_board(arguments.board)
    # The example that the image embeds: the image itself compares, and prints what a user sees on hardware.
    example = emulate(arguments.elf, board, arguments.qemu, timeout=arguments.timeout)
    print(f"{arguments.elf.stem} on {board.description}, emulated")
    if example.console:
        print("console:\n" + "\n".join(f"  | {line}" for line in example.console.rstrip().splitlines()))
    problems = check_arenas(example, arguments.plan) if arguments.plan and example.report.samples else []
    if arguments.golden:
        golden = read_golden(arguments.golden)
        result, outputs = run_golden(arguments.elf, board, arguments.qemu, golden, arguments.timeout)
        for i, (actual, expected) in enumerate(zip(outputs, golden.outputs, strict=True)):
            print("\n".join(_table(f"output {i}", actual, expected)))
        print("\n".join(_measurements(result)))
        problems += compare(outputs, golden, arguments.atol, arguments.rtol)
        if arguments.plan:
            problems += [problem for problem in check_arenas(result, arguments.plan) if problem not in problems]
        if golden.labels is not None:
            device, expected = (accuracy(array, golden.labels) for array in (outputs[0], golden.outputs[0]))
            eager = accuracy(golden.eager[0], golden.labels) if golden.eager else expected
            print(f"accuracy over {golden.samples} samples: device {device:.4f}, PyTorch {eager:.4f}")
            problems += check_accuracy(device, expected, eager, arguments.min_accuracy, arguments.max_accuracy_drop)
        elif arguments.min_accuracy is not None:
            raise UserError(
                f"golden file {arguments.golden} has no labels; --min-accuracy needs a model with evaluation_set()"
            )
    elif arguments.min_accuracy is not None:
        raise UserError("--min-accuracy needs --golden")
    for problem in problems:
        print(f"emulate: {'error' if arguments.test else 'warning'}: {problem}", file=sys.stderr)
    if not problems:
        print("PASS")
    return 1 if problems and arguments.test else 0


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("emulate", _run, _parse(argv))
