"""Reports Vela's estimates of a program: cycles, multiply-accumulates and memory by layer, operators on the core."""

from collections.abc import Mapping
from typing import Any

from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import parse
from tools.artifacts.npu_report.npu_report import MEMORIES, Delegate, NpuReport, OnCore, layer_name
from tools.pipeline.export.backends.ethos_u.vela import Compiled
from tools.quiet.console import UserError
from tools.quiet.table import text_table

_HEADINGS = ("#", "operator", "layer", "cycles", "share", "NPU")
# The names of memories in the headings of cycle columns.
_BUSY = {"sram": "SRAM", "dram": "DRAM", "on_chip_flash": "flash", "off_chip_flash": "flash"}


def on_core(rejected: list[tuple[str, str, str]], in_float: list[tuple[str, str]]) -> list[OnCore]:
    """Lists the operators of the core, by location and reason, without quantization, which is no layer of the model.

    Args:
      rejected: operators that the NPU doesn't support, as (operator, location in the model, reason).
      in_float: operators of the lowered program in floating point, as (operator, location in the model).
    """
    found: dict[tuple[str, str, str], list[str]] = {}
    for operator, place, reason in rejected:
        if not operator.startswith("quantized_decomposed::"):
            numbers = "floating point" if (operator, place) in in_float else "int8"
            found.setdefault((place, reason, numbers), []).append(operator)
    return [
        OnCore(", ".join(operators), place, reason, numbers) for (place, reason, numbers), operators in found.items()
    ]


def make_report(name: str, compiled: list[Compiled], core: list[OnCore], npu: Npu) -> NpuReport:
    """Makes the report of a program.

    Args:
      compiled: the NPU's subgraphs.
      core: the core's operators.
    """
    delegates = []
    for item in compiled:
        payload = parse(item.payload)
        delegates.append(
            Delegate(
                len(item.payload),
                len(payload.commands),
                len(payload.weights),
                payload.scratch_size,
                item.summary,
                tuple(item.layers),
            )
        )
    return NpuReport(name, npu.accelerator, npu.memory_mode, npu.clock_hz, tuple(delegates), tuple(core))


def format_report(report: NpuReport) -> str:
    """Formats the report as text."""
    lines = [f"{report.name} on {report.accelerator} at {report.clock_hz / 1e6:g} MHz: Vela's estimates"]
    for index, delegate in enumerate(report.delegates):
        cycles = delegate.summary["cycles_total"]
        if len(report.delegates) > 1:
            lines.append(f"subgraph {index}")
        busy = [memory for memory in MEMORIES if delegate.summary[f"cycles_{memory}_access"]]
        rows = [
            (
                str(position),
                str(layer["operator"]),
                layer_name(layer),
                f"{layer['cycles']:,}",
                f"{layer['cycles'] / cycles if cycles else 0:.1%}",
                *(f"{layer[f'{part}_cycles']:,}" for part in ("npu", *busy)),
                f"{layer['macs']:,}" if layer["macs"] else "",
                f"{layer['sram_bytes']:,}",
            )
            for position, layer in enumerate(delegate.layers)
        ]
        parts = [delegate.summary["cycles_npu"], *(delegate.summary[f"cycles_{memory}_access"] for memory in busy)]
        totals = (f"{part:,}" for part in parts)
        total = ("", "total", "", f"{cycles:,}", "100.0%", *totals, f"{delegate.summary['nn_macs']:,}", "")
        headings = (*_HEADINGS, *(_BUSY[memory] for memory in busy), "MACs", "SRAM bytes")
        lines += text_table([headings, *rows, total], {1, 2})
        seconds = cycles / report.clock_hz
        lines.append(
            f"{seconds * 1e3:.3f} ms; {delegate.commands_bytes:,} bytes of commands, "
            f"{delegate.weights_bytes:,} of weights and scales, {delegate.arena_bytes:,} of memory to work in"
        )
        lines += [_moved(MEMORIES[memory], memory, delegate.summary, seconds) for memory in busy]
    if not report.delegates:
        lines.append("nothing of the model runs on the NPU")
    for entry in report.core:
        lines.append(f"on the core: {entry}")
    return "\n".join(lines) + "\n"


def _moved(name: str, memory: str, summary: Mapping[str, Any], seconds: float) -> str:
    """Formats the traffic of a memory in an inference."""
    read, written = (
        summary[f"{memory}_feature_map_{moved}_bytes"] + summary[f"{memory}_weight_{moved}_bytes"]
        for moved in ("read", "write")
    )
    rate = summary[f"{memory}_total_bytes"] / seconds / 1e6 if seconds else 0
    text = f"{name}: {read:,} bytes read"
    return f"{text}, {written:,} written; {rate:,.1f} MB/s" if written else f"{text}; {rate:,.1f} MB/s"


def check_memory(report: NpuReport, npu: Npu) -> None:
    """Raises UserError with the table if a subgraph needs more memory than the board gives the NPU."""
    most = max((delegate.arena_bytes for delegate in report.delegates), default=0)
    if most > npu.arena_bytes:
        raise UserError(
            f"{report.name}: the NPU needs {most:,} bytes of memory to work in, and the board has {npu.arena_bytes:,} "
            "for it (arena_bytes of its ethos_u()). Make the layers with the most SRAM smaller, or choose another "
            "board:\n" + format_report(report)
        )
