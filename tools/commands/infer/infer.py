"""Runs the program of a running image on inputs of your own: on a board, in QEMU, or on the board simulator.

--input runs it on one sample and prints the outputs; --dataset on every sample of a file with labels, or with the
outputs that are expected, by default on the golden inputs of the image's first model, with PyTorch's outputs.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tools.artifacts.board.board import read_board
from tools.artifacts.golden.golden import load_arrays
from tools.commands.console.options import add_arguments, add_model, open_channel, samples
from tools.commands.infer.protocol import Client, Device, TensorSpec
from tools.quiet.console import UserError, user_path
from tools.quiet.files import reading, replacing
from tools.quiet.tool import option_parser, run_tool


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns load_arrays() of a file.

    Raises:
        UserError: the file is missing or another one.
    """
    with reading("file of arrays (.npy, .npz)", path, "write it with numpy.save or numpy.savez"):
        return load_arrays(path)


def numbered(arrays: dict[str, np.ndarray], prefix: str) -> list[np.ndarray]:
    """Returns the arrays `<prefix>_0`, `<prefix>_1`, ..."""
    result: list[np.ndarray] = []
    while f"{prefix}_{len(result)}" in arrays:
        result.append(arrays[f"{prefix}_{len(result)}"])
    return result


def load_samples(path: Path, device: Device) -> tuple[dict[str, np.ndarray], list[np.ndarray], int]:
    """Loads a data set: its arrays by name, the samples of each input, and their number.

    Raises:
        UserError: the file does not fit the device's program.
    """
    arrays = read_arrays(path)
    inputs = numbered(arrays, "input")
    if len(inputs) != len(device.inputs) or any(array.ndim == 0 for array in inputs):
        raise UserError(
            f"{path} needs an array input_<i> with a leading axis of samples for each of the {len(device.inputs)} "
            f"inputs of {device.name}; it has {', '.join(arrays) or 'nothing'}"
        )
    count = min(len(array) for array in inputs)
    if any(len(array) != count for array in inputs):
        raise UserError(f"{path}: its arrays differ in their number of samples")
    if count == 0:
        raise UserError(f"{path} has no samples; write some with numpy.savez")
    return arrays, inputs, count


def fit(array: np.ndarray, spec: TensorSpec, what: str) -> np.ndarray:
    """Returns an array as an input wants it: cast where no value changes by more than rounding, a missing batch axis
    added.

    Raises:
        UserError: shape or values do not fit.
    """
    if array.shape != spec.shape:
        if array.size != int(np.prod(spec.shape)) or tuple(n for n in array.shape if n > 1) != tuple(
            n for n in spec.shape if n > 1
        ):
            raise UserError(f"{what} has shape {list(array.shape)}; the program takes {list(spec.shape)}")
        array = array.reshape(spec.shape)
    if not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
        raise UserError(f"{what} is {array.dtype}; the program takes {spec.dtype}")
    if array.dtype != spec.dtype:
        converted = array.astype(spec.dtype)
        exact = np.issubdtype(spec.dtype, np.floating) or np.array_equal(converted.astype(array.dtype), array)
        if not exact:
            raise UserError(f"{what} is {array.dtype} with values that {spec.dtype}, which the program takes, has not")
        array = converted
    return array


def confusion_matrix(labels: np.ndarray, predictions: np.ndarray) -> np.ndarray:
    """Counts [label, prediction]."""
    classes = int(max(labels.max(), predictions.max())) + 1
    matrix = np.zeros((classes, classes), dtype=np.int64)
    np.add.at(matrix, (labels, predictions), 1)
    return matrix


def matrix_text(matrix: np.ndarray) -> str:
    """Formats a confusion matrix as a table; the diagonal counts correct predictions."""
    width = max(len(str(matrix.max())), len(str(len(matrix) - 1))) + 2
    lines = ["label \\ predicted" + "".join(f"{i:>{width}}" for i in range(len(matrix)))]
    for i, row in enumerate(matrix):
        lines.append(f"{i:>17}" + "".join(f"{count or '.':>{width}}" for count in row))
    return "\n".join(lines)


def describe(device: Device) -> str:
    """Describes the device's program in one line."""

    def shapes(specs: Sequence[TensorSpec]) -> str:
        return ", ".join(f"{spec.dtype}{list(spec.shape)}" for spec in specs)

    return (
        f"{device.name}, {device.program_size:,} bytes (CRC-32 {device.program_crc:08x}): "
        f"{shapes(device.inputs)} -> {shapes(device.outputs)}"
    )


def run_input(client: Client, path: Path, output: Path | None) -> None:
    """Runs one sample: prints the outputs, or writes them as .npy or .npz."""
    named = read_arrays(path)
    arrays = numbered(named, "input")
    specs = client.device.inputs
    if output and output.suffix == ".npy" and len(client.device.outputs) != 1:
        raise UserError(f"--output {output}: {client.device.name} has several outputs; use a file name with .npz")
    if len(arrays) != len(specs):
        wanted = ", ".join(f"input_{i}" for i in range(len(specs)))
        raise UserError(f"{path} has {', '.join(named) or 'nothing'}; {client.device.name} takes {wanted}")
    inputs = [fit(array, spec, f"{path}: input {i}") for i, (array, spec) in enumerate(zip(arrays, specs, strict=True))]
    result = client.infer(inputs)
    for i, array in enumerate(result.outputs):
        print(f"output {i}: {array.dtype} {list(array.shape)}")
        print(np.array2string(array, precision=7, threshold=200))
    print(f"{1000 * result.seconds:.3f} ms on the device")
    if output:
        with replacing(output) as partial, partial.open("wb") as file:
            if output.suffix == ".npy":
                np.save(file, result.outputs[0])
            else:
                np.savez(file, **{f"output_{i}": array for i, array in enumerate(result.outputs)})
        print(f"written to {output}")


def run_dataset(client: Client, path: Path, limit: int | None) -> None:
    """Runs every sample of a file: prints accuracy and confusion matrix, or the largest difference from expected
    outputs.
    """
    device = client.device
    arrays, inputs, count = load_samples(path, device)
    expected, labels = numbered(arrays, "output"), arrays.get("labels")
    if not expected and labels is None:
        raise UserError(f"{path} has no labels and no output_0 to compare with; it has {', '.join(arrays)}")
    if any(array.shape[:1] != (count,) for array in [*expected, *([] if labels is None else [labels])]):
        raise UserError(f"{path}: its arrays differ in their number of samples")
    for i, (array, spec) in enumerate(zip(expected, device.outputs, strict=False)):
        if array[0].size != int(np.prod(spec.shape)):
            raise UserError(f"{path}: output_{i} has samples of shape {list(array.shape[1:])}, not {list(spec.shape)}")
    if labels is not None:
        classes = int(np.prod(device.outputs[0].shape))
        if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
            raise UserError(
                f"{path}: labels must be integers with one dimension, not {labels.dtype} {list(labels.shape)}"
            )
        if labels.min() < 0 or labels.max() >= classes:
            raise UserError(
                f"{path}: labels {labels.min()} to {labels.max()}; {device.name} has {classes} classes, the first is 0"
            )
    count = min(count, limit or count)
    predictions = np.zeros(count, dtype=np.int64)
    difference, seconds = 0.0, 0.0
    try:
        for sample in range(count):
            result = client.infer(
                [
                    fit(array[sample], spec, f"{path}: sample {sample}")
                    for array, spec in zip(inputs, device.inputs, strict=True)
                ]
            )
            seconds += result.seconds
            predictions[sample] = int(result.outputs[0].argmax())
            for i, array in enumerate(expected[: len(result.outputs)]):
                gap = np.abs(
                    result.outputs[i].astype(np.float64)
                    - array[sample].astype(np.float64).reshape(result.outputs[i].shape)
                )
                difference = max(difference, float(gap.max(initial=0.0)))
            _progress(sample + 1, count)
    finally:
        # An error has a line of its own.
        if sys.stderr.isatty():
            print(file=sys.stderr)
    print(f"{count} samples, {1000 * seconds / count:.3f} ms each on the device, {client.repeated} requests repeated")
    if expected:
        print(f"largest difference from the outputs in {path.name}: {difference:.3g}")
    if labels is not None:
        right = int((predictions == labels[:count]).sum())
        print(f"accuracy {right / count:.4f} ({right} of {count})")
        print(matrix_text(confusion_matrix(labels[:count], predictions)))


def _progress(done: int, count: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done} of {count}", end="", file=sys.stderr, flush=True)


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = option_parser("infer", __doc__)
    add_arguments(parser)
    add_model(parser)
    parser.add_argument("--input", type=user_path, help="one sample: .npy, or .npz with input_0, input_1, ...")
    parser.add_argument("--output", type=user_path, help="where the outputs of --input go (.npy or .npz)")
    parser.add_argument(
        "--dataset",
        type=user_path,
        help=".npz with input_0, ... with a leading axis of samples, and labels or output_0, ...: a .golden.npz is one",
    )
    parser.add_argument("--limit", type=int, help="run on so many samples of the data set at most")
    parser.add_argument("--patience", type=float, default=30.0, help="seconds without an answer until giving up")
    arguments = parser.parse_args(argv)
    if arguments.input and arguments.dataset:
        parser.error("give either --input or --dataset")
    if not arguments.input and not samples(arguments):
        parser.error("give --input, or --dataset")
    if arguments.limit is not None and arguments.limit < 1:
        parser.error(f"--limit {arguments.limit}: give a number of samples")
    if arguments.output and (not arguments.input or arguments.output.suffix not in (".npy", ".npz")):
        parser.error(f"--output {arguments.output}: it goes with --input, and its name ends in .npy or .npz")
    return arguments


def _run(arguments: argparse.Namespace) -> None:
    channel = open_channel(arguments, read_board(arguments.board))
    try:
        client = Client(channel, arguments.patience, model=arguments.model)
        print(describe(client.device))
        if dataset := None if arguments.input else samples(arguments):
            run_dataset(client, dataset, arguments.limit)
        else:
            run_input(client, arguments.input, arguments.output)
        client.close()
    finally:
        channel.close()


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("infer", _run, _parse(argv))
