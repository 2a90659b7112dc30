"""Shows the report of a quantized program as text and as a picture."""

import argparse
import logging
import math
from collections.abc import Sequence
from pathlib import Path

from tools.artifacts.quantization_report.quantization_report import Layer, QuantizationReport, read_quantization_report
from tools.quiet.table import text_table
from tools.quiet.tool import run_tool

# Colours that are distinct with any colour vision (Okabe and Ito, 2008).
_COLORS = {"int8": "#0072B2", "float32": "#D55E00", "view": "#999999"}

# Layers above this are practically exact; the bar ends here.
_MOST_DECIBELS = 80.0


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


def picture(report: QuantizationReport, path: Path) -> None:
    """Draws a bar per layer, as long as its signal-to-noise ratio, into a PNG; the same report gives the same bytes."""
    # It warns that its cache is not in the home folder, to which an action cannot write.
    logging.getLogger("matplotlib").setLevel(logging.ERROR)
    # Imported here: it takes a second, and only the picture needs it.
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    compared = [(layer, layer.snr_db) for layer in report.layers if layer.snr_db is not None]
    layers = [layer for layer, _ in compared]
    figure, axes = pyplot.subplots(figsize=(8, 1.6 + 0.24 * len(layers)), layout="constrained")
    lengths = [min(max(decibels, 0.0), _MOST_DECIBELS) for _, decibels in compared]
    axes.barh(range(len(layers)), lengths, color=[_COLORS[layer.scheme] for layer in layers], height=0.7)
    for index, (layer, length) in enumerate(zip(layers, lengths, strict=True)):
        axes.text(length + 0.5, index, _decibels(layer), va="center", fontsize=7)
    axes.set_yticks(range(len(layers)), [_label(layer) for layer in layers], fontsize=7)
    axes.invert_yaxis()
    axes.set_xlabel("signal-to-noise ratio against float32, dB")
    axes.spines[["top", "right"]].set_visible(False)
    accuracy = report.accuracy
    shares = f": accuracy {accuracy.float32:.1%} in float32" if accuracy else ""
    if accuracy and not report.is_float:
        shares += f", {accuracy.int8:.1%} in int8"
    axes.set_title(f"{report.name}, {'float32' if report.is_float else 'int8'}{shares}", fontsize=9)
    schemes = sorted({layer.scheme for layer in layers})
    if schemes:
        handles = [Patch(color=_COLORS[scheme], label=scheme) for scheme in schemes]
        figure.legend(handles=handles, loc="outside lower right", ncols=len(handles), fontsize=7, frameon=False)
    figure.savefig(path, format="png", dpi=120, metadata={"Software": None})
    pyplot.close(figure)


def _decibels(layer: Layer) -> str:
    if layer.snr_db is None:
        return ""
    return "exact" if layer.snr_db == math.inf else f"{layer.snr_db:.1f}"


def _label(layer: Layer) -> str:
    operator = layer.operator.partition("::")[2]
    place = layer.place.partition(" at ")[0]
    return f"{place}: {operator}"


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="quantization_report", description=__doc__)
    parser.add_argument("--report", type=Path, required=True, help="the report that tools/pipeline/export wrote")
    parser.add_argument("--text", type=Path, required=True, help="where the text goes")
    parser.add_argument("--picture", type=Path, required=True, help="where the picture (.png) goes")
    return parser.parse_args(argv)


def _run(arguments: argparse.Namespace) -> None:
    report = read_quantization_report(arguments.report)
    arguments.text.write_text(text(report), encoding="utf-8")
    picture(report, arguments.picture)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("quantization_report", _run, _parse(argv))
