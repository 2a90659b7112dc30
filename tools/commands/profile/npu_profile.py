"""Compares the estimate of an NPU's compiler for each layer with the counts of the modelled NPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from npu.engine import Operation
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, layer_name
from tools.quiet.table import text_table

_DMA = "DMA_START"
_HEADINGS = (
    "#",
    "operator",
    "layer",
    "cycles (Vela)",
    "MACs (Vela)",
    "operations",
    "MACs",
    "read",
    "weights",
    "written",
)
# The region of weights and scales in a delegate's commands; the others are the NPU's working memory.
_WEIGHTS = 0


@dataclass
class NpuRow:
    """A layer, with Vela's estimates, and the operations that the NPU executed for it; either may be missing.

    Attributes:
      operator, layer: Vela's names; for an operation without a layer its own name, and an empty string.
      cycles, macs: Vela's estimates; None without a layer.
      operations: the number of executed operations, DMA included; None if they can't be assigned to layers.
      counted_macs: their multiply-accumulates.
      read: bytes read from working memory.
      weights: bytes of weights and scales.
      written: bytes written to working memory, and by DMA.
    """

    operator: str
    layer: str = ""
    cycles: int | None = None
    macs: int | None = None
    operations: int | None = None
    counted_macs: int = 0
    read: int = 0
    weights: int = 0
    written: int = 0

    def add(self, operations: Sequence[Operation]) -> None:
        """Counts executed operations."""
        self.operations = (self.operations or 0) + len(operations)
        for operation in operations:
            self.counted_macs += operation.macs
            for region, traffic in operation.regions.items():
                if region == _WEIGHTS:
                    self.weights += traffic.read
                else:
                    self.read += traffic.read
                self.written += traffic.written


def npu_rows(report: NpuReport, runs: Sequence[Sequence[Operation]]) -> list[NpuRow]:
    """Returns a row for each layer with its operations; if Vela has mixed a delegate's operations, separate rows for
    both.

    Args:
      runs: the executed operations of each delegate, in order.
    """
    rows = []
    for delegate, operations in zip(report.delegates, runs, strict=True):
        groups = operations_by_layer(delegate, operations)
        for index, layer in enumerate(delegate.layers):
            row = NpuRow(str(layer["operator"]), layer_name(layer), int(layer["cycles"]), int(layer["macs"]))
            if groups is not None:
                row.add(groups[index])
            rows.append(row)
        if groups is None:
            for operation in operations:
                row = NpuRow(operation.name)
                row.add([operation])
                rows.append(row)
    return rows


def operations_by_layer(delegate: Delegate, operations: Sequence[Operation]) -> list[list[Operation]] | None:
    """Splits executed operations by layer.

    Vela splits a layer into several operations, which have its multiply-accumulates together, and fuses a layer without
    any into the previous operation, or makes one of its name. DMA belongs to the following operation.

    Returns:
      The operations of each layer, or None if they don't add up, such as for interleaved layers.
    """
    groups: list[list[Operation]] = []
    rest = list(operations)
    for layer in delegate.layers:
        group: list[Operation] = []
        macs = int(layer["macs"])
        while rest and sum(operation.macs for operation in group) < macs:
            group.append(rest.pop(0))
        if sum(operation.macs for operation in group) != macs:
            return None
        if not macs:
            following = next((index for index, operation in enumerate(rest) if operation.name != _DMA), None)
            if following is not None and str(layer["operator"]).upper() in rest[following].name.upper():
                group, rest = rest[: following + 1], rest[following + 1 :]
        groups.append(group)
    return None if rest else groups


def npu_table(rows: Sequence[NpuRow]) -> str:
    """Returns a line per row, and the total."""
    total = NpuRow("total", "", sum(row.cycles or 0 for row in rows), sum(row.macs or 0 for row in rows))
    for row in rows:
        total.operations = (total.operations or 0) + (row.operations or 0)
        total.counted_macs += row.counted_macs
        total.read += row.read
        total.weights += row.weights
        total.written += row.written
    lines: list[tuple[str, ...]] = [_HEADINGS]
    for index, row in enumerate([*rows, total]):
        counted = (row.operations, row.counted_macs, row.read, row.weights, row.written)
        lines.append(
            (
                str(index) if row is not total else "",
                row.operator,
                row.layer,
                *("" if value is None else f"{value:,}" for value in (row.cycles, row.macs)),
                *("" if row.operations is None else f"{value:,}" for value in counted),
            )
        )
    return "\n".join(text_table(lines, {1, 2}))


def npu_json(rows: Sequence[NpuRow]) -> list[dict[str, Any]]:
    """Returns the rows as a list of objects."""
    return [vars(row) for row in rows]
