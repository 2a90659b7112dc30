"""Measures images for boards with an NPU, and for the same core without, in an emulator with the modelled NPU."""

from __future__ import annotations

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

# Of the table in docs/ethos_u.md.
NPU_TABLE_HEAD = (
    "| model | on | delegated | flash | runtime and driver | RAM | NPU cycles (Vela) | instructions | bit-exact |"
)


@dataclass(frozen=True)
class NpuRow:
    """One image.

    Attributes:
      model, variant: what it is.
      board, accelerator: where it runs; the latter is empty without an NPU.
      delegated: how many of the model's parts the NPU computes, and what not.
      flash, arena: bytes, weights and commands included, and memory that runtime, kernels and NPU work in.
      code: bytes of runtime, driver and delegate.
      cycles: the NPU's, as Vela estimates; None without one.
      inference: instructions of the core; None where it computes, too, beside the NPU, which is not counted.
      exact: whether the outputs are the golden ones, to the bit.
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
    """What an NPU computes of a program, for people, and in how many cycles."""
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
    """The rows as a Markdown table, as docs/ethos_u.md shows it."""
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
    """A document with the table's head, in which the rows of these models are as they are now, new ones at its end."""
    lines = text.split("\n")
    start = lines.index(NPU_TABLE_HEAD)
    end = start
    while end < len(lines) and lines[end].startswith("|"):
        end += 1
    head, dashes, *now = npu_table(rows).split("\n")
    by_model: dict[str, list[str]] = {}
    # After the head comes the line of dashes.
    for line in lines[start + 2 : end]:
        by_model.setdefault(_model(line), []).append(line)
    by_model |= {model: [line for line in now if _model(line) == model] for model in map(_model, now)}
    return "\n".join([*lines[:start], head, dashes, *sum(by_model.values(), []), *lines[end:]])


def _model(line: str) -> str:
    """Model and variant of a row."""
    return line.split(" | ")[0]
