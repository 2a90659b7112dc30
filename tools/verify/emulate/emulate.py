"""Runs a firmware image in its board's emulator and sets its outputs beside PyTorch's."""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import Board
from tools.artifacts.golden.golden import Golden
from tools.artifacts.memory_plan.memory_plan import read_memory_plan
from tools.quiet.console import user_path
from tools.verify.environment.environment import Run, SampleRun, spread, verify_main
from tools.verify.environment.hosted import Hosted, Result, join_inputs, split_outputs
from tools.verify.environment.npu import QemuWithNpu
from tools.verify.environment.qemu import Qemu


def run_golden(
    environment: Hosted, elf: Path, golden: Golden, timeout: float, model: str = ""
) -> tuple[Result, list[np.ndarray]]:
    """Runs an image, one of several models in it, on all samples. Returns the run and its outputs, as
    golden.outputs_in_memory().
    """
    result = environment.run(elf, join_inputs(golden.inputs_in_memory()), timeout, model)
    return result, split_outputs(result.outputs, golden.outputs_in_memory())


def check_arenas(result: Result, plan: Path, has_npu: bool = False) -> list[str]:
    """Returns one message per arena whose use differs from the plan.

    Args:
      has_npu: whether the board has an NPU, which may work in the planned arena. Its last tensor may have room for 16
        channels per pixel, and missing channels are never written.
    """
    memory = read_memory_plan(plan)
    unwritten = {"planned": sys.maxsize if has_npu else memory.unwritten}
    used = {"method": result.report.method_used, "planned": result.report.planned_used, "temp": result.report.temp_used}
    return [
        f"arena {name}: {used[name]} bytes used, {planned} planned"
        for name, planned in memory.arenas.items()
        if not planned - unwritten.get(name, 0) <= used[name] <= planned
    ]


def _measurements(result: Result) -> Iterator[str]:
    report = result.report
    if result.load is not None and result.execute is not None:
        yield f"load {result.load:,} instructions, inference {result.execute:,} instructions"
    yield f"arenas: method {report.method_used:,}, planned {report.planned_used:,}, temp {report.temp_used:,} bytes"
    yield f"stack: {report.stack_used:,} of {report.stack_size:,} bytes"


@dataclass(frozen=True)
class HostedImage:
    """An image in an environment that gives it its inputs by files, all samples in one run.

    Attributes:
        environment: where it runs.
        elf: the image.
        plan: its plan.json, which the use of arenas must match exactly; None to skip the check.
        timeout: seconds until a run counts as hung.
        model: the model that runs, of several; empty for the only one.
        kind: see Environment.
    """

    environment: Hosted
    elf: Path
    plan: Path | None
    timeout: float
    model: str = ""
    kind: str = "emulated"

    def run_example(self) -> Run:
        """Runs the example, see Environment.run_example()."""
        result = self.environment.run(self.elf, timeout=self.timeout, model=self.model)
        # Without an embedded example there are no measurements.
        if not result.report.samples:
            return Run(result.console, (), ())
        return Run(result.console, tuple(_measurements(result)), self._problems(result))

    def run_samples(self, golden: Golden, most: int | None) -> SampleRun:
        """Runs samples, see Environment.run_samples(); without a limit it runs all."""
        samples = spread(golden, most)
        result, outputs = run_golden(self.environment, self.elf, golden.part(samples), self.timeout, self.model)
        return SampleRun(tuple(samples), tuple(outputs), tuple(_measurements(result)), self._problems(result))

    def _problems(self, result: Result) -> tuple[str, ...]:
        has_npu = isinstance(self.environment, QemuWithNpu)
        return tuple(check_arenas(result, self.plan, has_npu)) if self.plan else ()


def _timeout() -> float:
    """Seconds for one of the two runs: in a test of Bazel's, so few that a hang is reported before the test ends."""
    return 0.4 * float(os.environ.get("TEST_TIMEOUT", "600"))


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--qemu", type=user_path, required=True, help="qemu-system-arm")
    parser.add_argument("--timeout", type=float, default=_timeout(), help="seconds until a run counts as hung")


def _make(arguments: argparse.Namespace, board: Board, _golden: Golden | None) -> HostedImage:
    qemu = QemuWithNpu if board.npu else Qemu
    return HostedImage(qemu(board, arguments.qemu), arguments.elf, arguments.plan, arguments.timeout, arguments.model)


def main(argv: Sequence[str] | None = None) -> int:
    return verify_main("emulate", __doc__, _add_options, _make, argv)
