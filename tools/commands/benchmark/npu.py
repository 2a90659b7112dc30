"""Measures images for boards with an NPU, and for the same core without, in an emulator with the modelled NPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import read_board
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.image_index.image_index import Image
from tools.artifacts.npu_report.npu_report import read_npu_report
from tools.artifacts.size_report.size_report import read_size_report
from tools.verify.emulate.emulate import run_golden
from tools.verify.environment.npu import QemuWithNpu
from tools.verify.environment.qemu import Qemu

# The head of the table in docs/ethos_u.md.
NPU_TABLE_HEAD = (
    "| model | on | delegated | flash | runtime and driver | RAM | NPU cycles (Vela) | instructions | bit-exact |"
)


@dataclass(frozen=True)
class NpuRow:
    """The sizes and counts of one image.

    Attributes:
      model, variant: the model.
      board, accelerator: where it runs; the latter is empty without an NPU.
      delegated: the number of the model's parts that the NPU computes, and the operators that it doesn't.
      flash, arena: bytes of flash, including weights and commands, and of the memory that runtime, kernels and NPU work
        in.
      code: bytes of runtime, driver and delegate.
      cycles: the NPU's cycles, estimated by Vela; None without one.
      inference: instructions of the core; None if it also computes beside the NPU, which is not counted.
      exact: whether the outputs equal the golden ones bit for bit.
    """

    model: str
    variant: str
    board: str
    accelerator: str
    delegated: str
    flash: int
    arena: int
    code: int
    cycles: int | None
    inference: int | None
    exact: bool


def measure_with_npu(image: Image, qemu: Path, timeout: float) -> NpuRow:
    """Runs an image on the first sample of its golden inputs, with the modelled NPU if its board has one."""
    golden = read_golden(image.golden).part([0])
    board = read_board(image.description)
    environment = QemuWithNpu(board, qemu, counts=True) if board.npu else Qemu(board, qemu)
    result, outputs = run_golden(environment, image.elf, golden, timeout, image.choice)
    sizes = read_size_report(image.report).flash
    parts, cycles = delegated(image.npu)
    return NpuRow(
        model=image.model,
        variant=image.variant,
        board=image.board,
        accelerator=board.npu or "",
        delegated=parts,
        flash=sizes.used,
        arena=result.report.method_used + result.report.planned_used + result.report.temp_used,
        code=sizes.parts.get("runtime", 0) + sizes.parts.get("NPU driver", 0),
        cycles=cycles,
        inference=result.execute,
        exact=all(
            np.array_equal(ours, theirs) for ours, theirs in zip(outputs, golden.outputs_in_memory(), strict=True)
        ),
    )


def delegated(path: Path | None) -> tuple[str, int | None]:
    """Describes the part of a program that an NPU computes, and returns its cycles."""
    if path is None:
        return "", None
    report = read_npu_report(path)
    delegates = report.delegates
    cycles = int(sum(delegate.summary["cycles_total"] for delegate in delegates)) if delegates else None
    core = [f"{entry.operators} ({entry.reason})" for entry in report.core]
    if not core:
        return "all", cycles
    parts = "1 part" if len(delegates) == 1 else f"{len(delegates)} parts"
    return f"{parts}; not " + "; ".join(dict.fromkeys(core)), cycles


def npu_table(rows: Sequence[NpuRow]) -> str:
    """Returns the rows as a Markdown table, as docs/ethos_u.md shows it."""
    lines = [NPU_TABLE_HEAD, "|---|---|---|--:|--:|--:|--:|--:|---|"]
    for row in rows:
        cells = [
            f"{row.model} {row.variant}",
            row.accelerator or row.board,
            row.delegated,
            *(f"{value:,}" for value in (row.flash, row.code, row.arena)),
            "" if row.cycles is None else f"{row.cycles:,}",
            "" if row.inference is None else f"{row.inference:,}",
            "yes" if row.exact else "no",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def update_npu_table(text: str, rows: Sequence[NpuRow]) -> str:
    """Returns a document in whose table the rows of these models are updated, and new ones appended."""
    lines = text.split("\n")
    start = lines.index(NPU_TABLE_HEAD)
    end = start
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    head, dashes, *now = npu_table(rows).split("\n")
    by_model: dict[str, list[str]] = {}
    # The line of dashes follows the head.
    for line in lines[start + 2 : end]:
        by_model.setdefault(_model(line), []).append(line)
    by_model |= {model: [line for line in now if _model(line) == model] for model in map(_model, now)}
    return "\n".join([*lines[:start], head, dashes, *sum(by_model.values(), []), *lines[end:]])


def _model(line: str) -> str:
    """Returns model and variant of a row."""
    return line.split(" | ")[0]
