"""Writes one HTML file that shows models on boards, from the JSON reports of a build."""

import argparse
import html
import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.graph.graph import Graph, read_graph
from tools.artifacts.npu_report.npu_report import NpuReport, layer_name, read_npu_report
from tools.artifacts.profile.profile import Row, read_profile
from tools.artifacts.quantization_report.quantization_report import QuantizationReport, read_quantization_report
from tools.artifacts.size_report.size_report import SizeReport, read_size_report
from tools.pipeline.page.memory import peak_of, results_of, sources_of, spans_of
from tools.quiet.tool import run_tool

_FOLDER = Path(__file__).parent

# `layer (Class) at file:line`, of which one half may be missing; what is neither names no place of the user's.
_PLACE = re.compile(r"(?:(?P<module>\S+) \((?P<kind>[^()]*)\))?(?: at )?(?P<line>\S+:\d+)?")

# A script element ends at the first of these; in JavaScript it can only be part of a string or a regular expression.
_ENDS_SCRIPT = re.compile(r"</(?=script)", re.IGNORECASE)


@dataclass(frozen=True)
class Image:
    """Holds what a build says of a model on a board."""

    sizes: SizeReport
    board: Board
    graph: Graph
    quantization: QuantizationReport | None = None
    profile: tuple[Row, ...] = ()
    npu: NpuReport | None = None


def page_data(title: str, images: Sequence[Image]) -> dict[str, Any]:
    """All that the page shows; docs/page.md describes it.

    Programs are listed once, whichever boards run them.
    """
    programs: list[dict[str, Any]] = []
    shown = []
    for image in images:
        program = _program(image.graph, image.quantization) | {"npu": _npu(image.npu) if image.npu else None}
        if program not in programs:
            programs.append(program)
        shown.append((programs.index(program), image))
    return {
        "title": title,
        "programs": programs,
        "images": [_image(number, image, shown) | {"accuracy": _accuracy(image, images)} for number, image in shown],
    }


def _accuracy(image: Image, images: Sequence[Image]) -> float | None:
    """The share of an evaluation set that a model gets right; one in float32 has it from another one's report."""
    known = [other.quantization.accuracy for other in images if other.quantization and other.quantization.accuracy]
    if image.quantization is not None:
        return image.quantization.accuracy.int8 if image.quantization.accuracy else None
    return known[0].float32 if known and len({accuracy.float32 for accuracy in known}) == 1 else None


def _image(number: int, image: Image, images: Sequence[tuple[int, Image]]) -> dict[str, Any]:
    measured = image
    if not image.profile:
        # Another board with the same core counts the same; only its clock differs.
        same = [
            other
            for program, other in images
            if program == number and other.profile and other.board.core == image.board.core
        ]
        measured = same[0] if same else image
    return {
        "program": number,
        "board": image.board.name,
        "description": image.board.description,
        "core": image.board.core,
        "clock_hz": image.board.clock_hz,
        "memories": {name: asdict(memory) for name, memory in image.sizes.memories.items()},
        "measured_on": measured.board.name if measured.profile else None,
        "rows": [[row.instructions, row.cycles] for row in measured.profile],
        "untimed": _untimed(measured),
    }


def _untimed(image: Image) -> str:
    """Returns why the time of an inference is unknown, and what helps; empty if it is known."""
    if image.npu and not image.profile:
        return "the core's share is not measured; the page has the NPU's, as its compiler estimates it"
    if not image.profile:
        return f"none of these boards emulates a {image.board.core}"
    if any(row.cycles is None for row in image.profile):
        return f"the manual of {image.board.core} has no cycle counts to estimate from; compare instructions"
    return ""


def _npu(report: NpuReport) -> dict[str, Any]:
    """Returns an NPU compiler's estimates of each layer, and the operators that stay on the core."""
    layers = [layer for delegate in report.delegates for layer in delegate.layers]
    return {
        "accelerator": report.accelerator,
        "clock_hz": report.clock_hz,
        "layers": [
            {"name": layer_name(layer), "operator": str(layer["operator"])}
            | {key: int(layer[key]) for key in ("cycles", "macs", "sram_bytes")}
            for layer in layers
        ],
        "core": [str(part) for part in report.core],
    }


def _place(text: str) -> dict[str, str]:
    found = _PLACE.fullmatch(text)
    parts = found.groupdict() if found else {}
    return {key: parts.get(key) or "" for key in ("module", "kind", "line")}


def _program(graph: Graph, quantization: QuantizationReport | None) -> dict[str, Any]:
    layers = [_layer(layer) for layer in asdict(quantization)["layers"]] if quantization else []
    by_place: dict[str, list[dict[str, Any]]] = {}
    result = None
    for layer, entry in reversed(list(zip(layers, quantization.layers if quantization else (), strict=True))):
        # A layer that is computed together with the next one has the result of that one.
        result = layer["snr"] if entry.scheme != "fused" else result
        by_place.setdefault(entry.place, []).insert(0, {"snr": result, "reason": layer["reason"]})
    seen: set[int] = set()
    steps = []
    for step, sources in zip(graph.steps, sources_of(graph), strict=True):
        constants = [index for index in step.reads if graph.tensors[index].data is not None]
        stored = 0
        for index in constants:
            tensor = graph.tensors[index]
            # Data that several calls read counts to the first.
            if tensor.data is not None and tensor.data not in seen:
                seen.add(tensor.data)
                stored += tensor.stored
        found = by_place.get(step.place, []) if step.place else []
        ratios = [layer["snr"] for layer in found if layer["snr"] is not None]
        reasons = [layer["reason"] for layer in found if layer["reason"]]
        steps.append(
            _place(step.place)
            | {
                "operator": step.operator,
                "macs": step.macs,
                "made_by": step.made_by,
                "row": step.row,
                "sources": sources,
                "reads": [index for index in step.reads if index not in constants],
                "writes": list(step.writes),
                "scratch": list(step.scratch),
                "constants": constants,
                "weights": stored,
                "snr": ratios[-1] if ratios else None,
                "reasons": list(dict.fromkeys(reasons)),
            }
        )
    _place_between(steps)
    return {
        "name": graph.name,
        "core": graph.core,
        "tensors": {
            str(index): {
                "dtype": value.dtype,
                "shape": list(value.shape),
                "nbytes": value.nbytes,
                "parameter": value.parameter,
            }
            for index, value in graph.tensors.items()
        },
        "inputs": list(graph.inputs),
        "outputs": list(graph.outputs),
        "results": results_of(graph),
        "steps": steps,
        "planned": graph.planned,
        "spans": [asdict(span) for span in spans_of(graph)],
        "peak": asdict(peak_of(graph)),
        "layers": layers,
        "accuracy": asdict(quantization.accuracy) if quantization and quantization.accuracy else None,
        "notes": list(quantization.notes) if quantization else [],
        "is_quantized": quantization is not None,
    }


def _place_between(steps: list[dict[str, Any]]) -> None:
    """Counts steps of unknown place, such as those that passes insert, to the module whose steps are around them."""
    modules = [step["module"] if step["module"] or step["line"] else None for step in steps]
    before = None
    for number, (step, module) in enumerate(zip(steps, modules, strict=True)):
        if module is not None:
            before = module
        elif before and before == next((later for later in modules[number:] if later is not None), None):
            step["module"] = before


def _layer(layer: dict[str, Any]) -> dict[str, Any]:
    ratio = layer["snr_db"]
    return _place(layer["place"]) | {
        "operator": layer["operator"],
        "scheme": layer["scheme"],
        "reason": layer["reason"] or "",
        "weight": layer["weight"]["scheme"] if layer["weight"] else "",
        "snr": "exact" if ratio == float("inf") else ratio,
    }


def page_html(
    data: dict[str, Any], libraries: Sequence[str] = (), licences: Sequence[str] = (), page: Path = _FOLDER / "page"
) -> str:
    """The page: its data and scripts are inside.

    Args:
        data: what page_data() returns.
        libraries: texts of the scripts that the page's script uses.
        licences: theirs, which are in the page's source.
        page: the page's .html and .js, without suffix.
    """
    # The user's names are data, which the page shows as text; no character with a meaning in HTML remains in them.
    content = json.dumps(data, separators=(",", ":"), ensure_ascii=True).replace("<", "\\u003c").replace("&", "\\u0026")
    own = (_FOLDER / "common.js", page.with_suffix(".js"))
    scripts = [*libraries, *(path.read_text(encoding="utf-8") for path in own)]
    texts = [("", text) for text in scripts] + [(' type="text/plain"', text) for text in licences]
    parts = {
        "title": html.escape(data["title"]),
        "style": (_FOLDER / "page.css").read_text(encoding="utf-8"),
        "data": content,
        "scripts": "\n".join(f"<script{kind}>{_in_script(text)}</script>" for kind, text in texts),
    }
    template = page.with_suffix(".html").read_text(encoding="utf-8")
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], template)


def write_page(output: Path, data: dict[str, Any], libraries: Sequence[Path], licences: Sequence[Path]) -> None:
    """Writes page_html() of the files of libraries and licences."""
    scripts, texts = ([path.read_text(encoding="utf-8") for path in paths] for paths in (libraries, licences))
    output.write_text(page_html(data, scripts, texts), encoding="utf-8")


def _in_script(text: str) -> str:
    return _ENDS_SCRIPT.sub(r"<\\/", text)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="page", description=__doc__)
    parser.add_argument("--title", required=True, help="the page's title")
    parser.add_argument(
        "--image",
        nargs=6,
        action="append",
        required=True,
        metavar=("REPORT", "BOARD", "GRAPH", "QUANTIZATION", "PROFILE", "NPU"),
        help="JSON reports of an image; the last three are empty where there is none; repeatable",
    )
    parser.add_argument("--library", type=Path, action="append", default=[], help="a script to include; repeatable")
    parser.add_argument("--licence", type=Path, action="append", default=[], help="a library's licence; repeatable")
    parser.add_argument("--json", type=Path, required=True, help="file for what the page shows")
    parser.add_argument("--output", type=Path, required=True, help="the page to write")
    return parser.parse_args(argv)


def read_image(files: Sequence[str]) -> Image:
    """Reads the reports of an image: size report, board, graph, quantization, profile and NPU.

    The last three may be empty.

    Raises:
        UserError: one of them is missing or something else.
    """
    report, board, graph, quantization, profile, npu = files
    return Image(
        read_size_report(Path(report)),
        read_board(Path(board)),
        read_graph(Path(graph)),
        read_quantization_report(Path(quantization)) if quantization else None,
        read_profile(Path(profile)) if profile else (),
        read_npu_report(Path(npu)) if npu else None,
    )


def _run(arguments: argparse.Namespace) -> None:
    data = page_data(arguments.title, [read_image(files) for files in arguments.image])
    arguments.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    write_page(arguments.output, data, arguments.library, arguments.licence)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("page", _run, _parse(argv))
