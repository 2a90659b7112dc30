"""Shows the report of a quantized program as text."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.quantization_report.quantization_report import Layer, QuantizationReport, read_quantization_report
from tools.quiet.table import text_table
from tools.quiet.tool import run_tool


def text(report: QuantizationReport) -> str:
    """Returns a table with a line per layer, then accuracy, then the layers that stayed in floating point with the
    reasons.
    """
    rows = [("layer", "operator", "scheme", "weight", "scale", "zero", "SNR dB")]
    for layer in report.layers:
        output, weight = layer.output, layer.weight
        rows.append(
            (
                layer.place,
                layer.operator,
                layer.scheme,
                f"{weight.scheme} ({weight.scales})" if weight else "",
                f"{output.scale:.4g}" if output else "",
                f"{output.zero_point}" if output else "",
                _decibels(layer),
            )
        )
    if report.is_float:
        lines = [f"{report.name} in floating point for {report.core}"]
    else:
        lines = [f"{report.name} in int8 for {report.core}, compared on {report.samples} calibration samples"]
    lines += text_table(rows, range(4))
    accuracy = report.accuracy
    if accuracy:
        shares = f"float32 {accuracy.float32:.4f}"
        if not report.is_float:
            shares += f", int8 {accuracy.int8:.4f}"
        lines.append(f"accuracy over {accuracy.samples} samples: {shares}")
    lines += report.notes
    floating = [layer for layer in report.layers if layer.scheme == "float32"]
    lines += [f"in floating point: {layer.operator}, {layer.place}: {layer.reason}" for layer in floating]
    if not floating:
        lines.append("in floating point: nothing")
    return "\n".join(lines) + "\n"


def _decibels(layer: Layer) -> str:
    if layer.snr_db is None:
        return ""
    return "exact" if layer.snr_db == math.inf else f"{layer.snr_db:.1f}"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quantization_report", description=__doc__)
    parser.add_argument("--report", type=Path, required=True, help="the report that tools/pipeline/export wrote")
    parser.add_argument("--text", type=Path, required=True, help="where the text goes")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    arguments.text.write_text(text(read_quantization_report(arguments.report)), encoding="utf-8")


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("quantization_report", _run, _parse(argv))
