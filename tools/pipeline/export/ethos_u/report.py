"""What Vela says of a program: cycles, multiply-accumulates and memory by layer, and what stays on the core."""

from __future__ import annotations

from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import parse
from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore, layer_name
from tools.pipeline.export.ethos_u.vela import Compiled
from tools.quiet.console import UserError
from tools.quiet.table import text_table

_HEADINGS = ("#", "operator", "layer", "cycles", "share", "MACs", "SRAM")


def on_core(rejected: list[tuple[str, str, str]], in_float: list[tuple[str, str]]) -> list[OnCore]:
    """What the core computes, by place and reason; without quantization, which is no layer of the model.

    Args:
      rejected: what the NPU doesn't take, as (operator, place in the model, reason).
      in_float: what of the lowered program computes in floating point, as (operator, place in the model).
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
    """The report of a program.

    Args:
      compiled: what the NPU computes.
      core: what the core does.
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
    """The report for people."""
    lines = [f"{report.name} on {report.accelerator} at {report.clock_hz / 1e6:g} MHz: Vela's estimates"]
    for index, delegate in enumerate(report.delegates):
        cycles = delegate.summary["cycles_total"]
        if len(report.delegates) > 1:
            lines.append(f"subgraph {index}")
        rows = [
            (
                str(position),
                str(layer["operator"]),
                layer_name(layer),
                f"{layer['cycles']:,}",
                f"{layer['cycles'] / cycles if cycles else 0:.1%}",
                f"{layer['macs']:,}" if layer["macs"] else "",
                f"{layer['sram_bytes']:,}",
            )
            for position, layer in enumerate(delegate.layers)
        ]
        total = ("", "total", "", f"{cycles:,}", "100.0%", f"{delegate.summary['nn_macs']:,}", "")
        lines += text_table([_HEADINGS, *rows, total], {1, 2})
        lines.append(
            f"{cycles / report.clock_hz * 1e3:.3f} ms; {delegate.commands_bytes:,} bytes of commands, "
            f"{delegate.weights_bytes:,} of weights and scales, {delegate.arena_bytes:,} of memory to work in"
        )
    if not report.delegates:
        lines.append("nothing of the model runs on the NPU")
    for entry in report.core:
        lines.append(f"on the core: {entry}")
    return "\n".join(lines) + "\n"


def check_memory(report: NpuReport, npu: Npu) -> None:
    """Raises UserError with the table if a subgraph needs more memory than the board gives the NPU."""
    most = max((delegate.arena_bytes for delegate in report.delegates), default=0)
    if most > npu.arena_bytes:
        raise UserError(
            f"{report.name}: the NPU needs {most:,} bytes of memory to work in, and the board has {npu.arena_bytes:,} "
            "for it (arena_bytes of its ethos_u()). Make the layers with the most SRAM smaller, or choose another "
            "board:\n"
            + format_report(report)
        )
