"""Plots the outputs of a running image, live in the terminal or a window: on a board, in QEMU or on the board
simulator.

A program with one number as input is run over a range of it; others on the samples of --dataset, by default those of
its tests. For the model `sine`, sin(x) is drawn beside the outputs. .live draws in a window of the browser: the input,
the outputs beside those that the data set expects, the time of each inference, and the memory that the image takes.
--save writes the finished plot as a picture, --record inputs and outputs as a data set, which --dataset and .infer take
again.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tools.artifacts.board.board import read_board
from tools.artifacts.size_report.size_report import SizeReport, read_size_report
from tools.commands.console.options import add_arguments, add_model, open_channel, samples
from tools.commands.infer.infer import fit, load_samples
from tools.commands.infer.protocol import Client, Device
from tools.commands.plot.window import Window
from tools.quiet.console import UserError, user_path
from tools.quiet.files import replacing
from tools.quiet.tool import option_parser, run_tool

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Curves that a plot shows at most, points between two updates of the terminal, and seconds between two of a window.
_CURVES, _UPDATE, _SECONDS = 10, 8, 0.1
# Characters and lines below which nothing but the axes is left.
_LEAST_WIDTH, _LEAST_HEIGHT = 20, 8
_REFERENCES = {"sine": ("sin(x)", np.sin)}


@dataclass
class Curves:
    """The results so far.

    Attributes:
        title: the program and where it runs.
        label: the label of the x axis.
        x: inputs, or numbers of samples.
        outputs: the first output's elements for each point.
        milliseconds: the time of each point on the device.
        reference: name and values of the expected output; None if it is unknown.
        inputs: the inputs of the last point.
        expected: the first output that the data set has for each point, if it has any.
    """

    title: str
    label: str
    x: list[float] = field(default_factory=list)
    outputs: list[np.ndarray] = field(default_factory=list)
    milliseconds: list[float] = field(default_factory=list)
    reference: tuple[str, np.ndarray] | None = None
    inputs: Sequence[np.ndarray] = ()
    expected: np.ndarray | None = None

    def drawn(self) -> Curves:
        """The results to draw on paper: the elements of a single point's output instead of a dot each."""
        if len(self.x) > 1 or self.outputs[0].size == 1:
            return self
        (values,) = self.outputs
        expected = None if self.expected is None else ("expected", self.expected[0].reshape(-1))
        return Curves(
            self.title, "element", [*map(float, range(values.size))], list(values[:, None]), reference=expected
        )

    def lines(self) -> Iterator[tuple[str, list[float]]]:
        """Yields name and values of each curve of outputs."""
        for i in range(min(_CURVES, self.outputs[0].size)):
            name = "prediction" if self.outputs[0].size == 1 else f"output[{i}]"
            yield name, [float(values[i]) for values in self.outputs]


def text_plot(curves: Curves, width: int, height: int) -> str:
    """Returns the plot in characters, with ANSI colours. Points that are infinite or no number are left out, and
    counted.
    """
    import plotext

    figure = plotext.figure.clear()
    figure.theme("dusk").plot_size(width, height).title(curves.title).label(curves.label)
    drawn = list(curves.lines())
    if curves.reference:
        drawn.insert(0, (curves.reference[0], curves.reference[1][: len(curves.x)].tolist()))
    finite = [
        (name, [(x, y) for x, y in zip(curves.x, values, strict=True) if math.isfinite(y)]) for name, values in drawn
    ]
    finite = [(name, points) for name, points in finite if points]
    left_out = len(drawn) * len(curves.x) - sum(len(points) for _, points in finite)
    note = f"\n{left_out} values are infinite or no number" if left_out else ""
    if not finite:
        return f"{curves.title}{note}"
    for name, points in finite:
        figure.draw(figure.signal(*map(list, zip(*points, strict=True))).lines().label(name))
    # In the upper right corner, in the curves' units.
    figure.legend(x=max(curves.x), y=max(y for _, points in finite for _, y in points), ha="right", relative=True)
    return f"{figure.build()}{note}"


def _figure(curves: Curves) -> Figure:
    """Returns the plot as matplotlib has it."""
    import matplotlib
    from matplotlib.figure import Figure

    # The same curves give the same bytes.
    matplotlib.rcParams["svg.hashsalt"] = "torch_fusion"
    # A name is text, whatever it has.
    matplotlib.rcParams["text.parse_math"] = False
    figure = Figure(figsize=(7, 4), dpi=120, layout="tight")
    axes = figure.subplots()
    axes.set(title=curves.title, xlabel=curves.label)
    if curves.reference:
        name, values = curves.reference
        axes.plot(curves.x, values[: len(curves.x)], label=name, color="0.6", linewidth=3)
    for name, values in curves.lines():
        axes.plot(curves.x, values, label=name, linewidth=1.2)
    axes.grid(alpha=0.3)
    axes.legend()
    return figure


def save_plot(curves: Curves, path: Path) -> None:
    """Writes the plot as a picture, in the format that the file's name says.

    Raises:
        UserError: the format is unknown, or the file cannot be written.
    """
    try:
        with replacing(path) as file:
            # Omits the time and the library's version.
            kind = path.suffix[1:] or "png"
            _figure(curves.drawn()).savefig(file, format=kind, metadata={"Software": None} if kind == "png" else None)
    except ValueError as error:
        raise UserError(f"{path}: {error}; use a file name that ends in .png, .svg or .pdf") from error


def _numbers(values: np.ndarray) -> list[float | None]:
    """Returns values for JSON, which has no infinite ones and no NaN."""
    return [value if math.isfinite(value) else None for value in values.astype(np.float64).reshape(-1).tolist()]


def window_state(curves: Curves, sizes: SizeReport | None, total: int) -> dict[str, Any]:
    """Returns what a window shows of the results so far: window.js."""
    memories = sizes.memories if sizes else {}
    parts = [item for memory in memories.values() for item in memory.parts.items()]
    name, where = curves.title.split(": ", 1)
    done = len(curves.x)
    references = [curves.reference] if curves.reference else []
    return {
        "name": name,
        "where": where,
        "total": total,
        "label": curves.label,
        "x": curves.x,
        "ms": curves.milliseconds,
        "lines": [(name, _numbers(np.array(values))) for name, values in curves.lines()],
        "reference": [(name, _numbers(values[:done])) for name, values in references],
        "inputs": [
            {"dtype": str(array.dtype), "shape": array.shape, "values": _numbers(array)} for array in curves.inputs
        ],
        "output": _numbers(curves.outputs[-1]),
        "expected": None if curves.expected is None else _numbers(curves.expected[done - 1]),
        "memories": {name: {"used": memory.used, "limit": memory.limit} for name, memory in memories.items()},
        "arena": sum(count for part, count in parts if part.startswith("arena")) if parts else None,
    }


def points(
    device: Device, arguments: argparse.Namespace
) -> tuple[str, list[float], list[list[np.ndarray]], np.ndarray | None]:
    """Returns the points to run: the name of the x axis, x and inputs of every point, and the first output that the
    data set has of them.

    Raises:
        UserError: the data set does not fit, or is needed.
    """
    takes_a_number = len(device.inputs) == 1 and math.prod(device.inputs[0].shape) == 1
    dataset = arguments.dataset if takes_a_number else samples(arguments)
    if dataset:
        arrays, inputs, count = load_samples(dataset, device)
        count = min(arguments.points, count)
        each = [
            [fit(array[i], spec, f"{dataset}: sample {i}") for array, spec in zip(inputs, device.inputs, strict=True)]
            for i in range(count)
        ]
        expected = arrays.get("output_0", np.zeros(0))
        fits = len(expected) >= count and expected[0].size == math.prod(device.outputs[0].shape)
        return "sample", [float(i) for i in range(count)], each, expected if fits else None
    if not takes_a_number:
        raise UserError(f"{device.name} takes more than one number: give samples with --dataset FILE.npz")
    spec = device.inputs[0]
    x = np.linspace(arguments.start, arguments.stop, arguments.points)
    return "x", x.tolist(), [[np.full(spec.shape, value, spec.dtype)] for value in x], None


# Terminal codes, which are noise in a file.
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def save_record(path: Path, inputs: Sequence[Sequence[np.ndarray]], outputs: Sequence[Sequence[np.ndarray]]) -> None:
    """Writes inputs and outputs of all points as a data set: input_0, ..., output_0, ... with a leading axis."""
    arrays = {
        f"{kind}_{number}": np.stack(values)
        for kind, points_of in (("input", inputs), ("output", outputs))
        for number, values in enumerate(zip(*points_of, strict=True))
    }
    with replacing(path) as partial, partial.open("wb") as file:
        np.savez(file, **arrays)


def run(client: Client, arguments: argparse.Namespace, where: str, window: Window | None = None) -> Curves:
    """Runs all points, drawing progress if there is a terminal or a window."""
    label, x, each, expected = points(client.device, arguments)
    curves = Curves(f"{client.device.name}: {where}", label, expected=expected)
    sizes = read_size_report(arguments.report) if arguments.report else None
    if label == "x" and client.device.name in _REFERENCES:
        name, function = _REFERENCES[client.device.name]
        curves.reference = (name, function(np.array(x)))
    live = sys.stdout.isatty() and window is None
    results, shown = [], -math.inf
    for i, inputs in enumerate(each):
        result = client.infer(inputs)
        results.append(result.outputs)
        curves.outputs.append(result.outputs[0].reshape(-1).astype(np.float64))
        curves.milliseconds.append(1e3 * result.seconds)
        curves.x.append(x[i])
        curves.inputs = inputs
        if window is not None and (time.monotonic() > shown + _SECONDS or i == len(each) - 1):
            window.show(window_state(curves, sizes, len(each)), last=i == len(each) - 1)
            shown = time.monotonic()
        elif live and i % _UPDATE == _UPDATE - 1:
            # Moves to the top left corner, and clears the screen.
            print("\x1b[H\x1b[J" + text_plot(curves, arguments.width, arguments.height), flush=True)
    if window is None:
        text = text_plot(curves.drawn(), arguments.width, arguments.height)
        print("\x1b[H\x1b[J" + text if live else _COLOUR.sub("", text))
    print(f"{len(each)} inferences, {sum(curves.milliseconds) / len(each):.3f} ms each on the device")
    if arguments.record:
        save_record(arguments.record, each, results)
        print(f"recorded in {arguments.record}")
    if curves.reference:
        name, values = curves.reference
        error = np.abs(np.array([output[0] for output in curves.outputs]) - values)
        print(f"mean |prediction - {name}| {error.mean():.4f}, largest {error.max():.4f}")
    return curves


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("plot", __doc__)
    add_arguments(parser)
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--window", type=Path, action="append", help=argparse.SUPPRESS)
    add_model(parser)
    parser.add_argument("--start", type=float, default=0.0, help="first x; default 0")
    parser.add_argument("--stop", type=float, default=2 * math.pi, help="last x; default 2 pi")
    parser.add_argument("--points", type=int, default=64, help="points, or samples at most; default 64")
    parser.add_argument(
        "--dataset",
        type=user_path,
        help=".npz with input_0, ..., such as a .golden.npz; default: that of the image's model",
    )
    parser.add_argument("--save", type=user_path, help="where the finished plot goes: .png, .svg or .pdf")
    parser.add_argument("--record", type=user_path, help="where inputs and outputs go as a data set (.npz)")
    parser.add_argument("--width", type=int, default=80, help="characters in a line")
    parser.add_argument("--height", type=int, default=24, help="lines")
    arguments = parser.parse_args(argv)
    if arguments.points < 2:
        parser.error("--points must be at least 2")
    if arguments.record and arguments.record.suffix != ".npz":
        parser.error(f"--record {arguments.record}: its name must end in .npz")
    if not math.isfinite(arguments.start) or not math.isfinite(arguments.stop):
        parser.error(f"--start {arguments.start} --stop {arguments.stop}: give finite numbers")
    if arguments.width < _LEAST_WIDTH or arguments.height < _LEAST_HEIGHT:
        parser.error(f"--width must be at least {_LEAST_WIDTH}, --height at least {_LEAST_HEIGHT}")
    return arguments


def _run(arguments: argparse.Namespace) -> None:
    channel = open_channel(arguments, read_board(arguments.board))
    try:
        client = Client(channel, model=arguments.model)
        with Window(arguments.window) if arguments.window else contextlib.nullcontext() as window:
            curves = run(client, arguments, channel.name, window)
            client.close()
            if arguments.save:
                save_plot(curves, arguments.save)
                print(f"written to {arguments.save}")
    finally:
        channel.close()


def main(argv: Sequence[str] | None = None) -> int:
    arguments = _parse(argv)
    return run_tool("live" if arguments.window else "plot", _run, arguments)
