"""NAME.golden.npz: inputs of a program and the outputs that PyTorch computes from them.

Arrays with a leading axis of samples: `input_<i>` and `output_<j>`; `eager_<j>` where a quantized program returns
something else than the module that the user wrote; `labels` of an evaluation set; `dim_order_input_<i>` and
`dim_order_output_<j>` where a dim order of one sample is not the default. `version` is that of this description.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tools.quiet.console import UserError
from tools.quiet.files import reading

_VERSION = 1
_ADVICE = "pass the .golden.npz of a torch_program"


@dataclass(frozen=True)
class Golden:
    """Inputs and expected outputs of a program, each with a leading axis of samples.

    Attributes:
        inputs, outputs: what the program gets and must return, in the shapes of the model.
        labels: of an evaluation set.
        eager: what the module returns that the user wrote, if the program is quantized and must return something else.
        input_orders, output_orders: dim orders of one sample; empty where all are the default.
        is_stream: whether each sample starts with the state that the one before left.
    """

    inputs: tuple[np.ndarray, ...]
    outputs: tuple[np.ndarray, ...]
    labels: np.ndarray | None
    eager: tuple[np.ndarray, ...] = ()
    input_orders: tuple[tuple[int, ...], ...] = ()
    output_orders: tuple[tuple[int, ...], ...] = ()
    is_stream: bool = False

    @property
    def samples(self) -> int:
        return self.outputs[0].shape[0]

    def part(self, samples: Sequence[int]) -> Golden:
        """Some of the samples, by their indices."""
        chosen = list(samples)
        return replace(
            self,
            inputs=tuple(array[chosen] for array in self.inputs),
            outputs=tuple(array[chosen] for array in self.outputs),
            labels=None if self.labels is None else self.labels[chosen],
            eager=tuple(array[chosen] for array in self.eager),
        )

    def inputs_in_memory(self) -> list[np.ndarray]:
        """The inputs with their dimensions in the order of memory."""
        return _transposed(self.inputs, self.input_orders)

    def outputs_in_memory(self) -> list[np.ndarray]:
        """The outputs with their dimensions in the order of memory."""
        return _transposed(self.outputs, self.output_orders)

    def outputs_from_memory(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Arrays like outputs_in_memory() with their dimensions in the order of the model."""
        return _transposed(arrays, tuple(tuple(np.argsort(order)) for order in self.output_orders))


def _transposed(arrays: Sequence[np.ndarray], orders: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Arrays with a leading axis of samples, the others in the given orders."""
    if not orders:
        return list(arrays)
    return [
        np.ascontiguousarray(array.transpose([0, *(axis + 1 for axis in order)]))
        for array, order in zip(arrays, orders, strict=True)
    ]


def read_golden(path: Path) -> Golden:
    """Reads a golden file.

    Raises:
        UserError: the file is missing or something else.
    """

    def numbered(prefix: str) -> tuple[np.ndarray, ...]:
        return tuple(arrays[f"{prefix}_{i}"] for i in range(sum(name.startswith(f"{prefix}_") for name in arrays)))

    def orders(kind: str, count: int) -> tuple[tuple[int, ...], ...]:
        names = [f"dim_order_{kind}_{i}" for i in range(count)]
        if not any(name in arrays for name in names):
            return ()
        default = {i: range(arrays[f"{kind}_{i}"].ndim - 1) for i in range(count)}
        return tuple(tuple(int(axis) for axis in arrays.get(name, default[i])) for i, name in enumerate(names))

    with reading("golden file", path, _ADVICE):
        arrays = load_arrays(path)
        version = arrays.get("version")
        if version is not None and version.tolist() != _VERSION:
            raise UserError(
                f"golden file {path} has version {version.tolist()!r}, and this is the tool for version {_VERSION}; "
                "build it anew"
            )
        inputs, outputs, eager = numbered("input"), numbered("output"), numbered("eager")
        dim_orders = orders("input", len(inputs)), orders("output", len(outputs))
        samples = {array.shape[0] for array in (*inputs, *outputs)}
        for arrays_of, orders_of in zip((inputs, outputs), dim_orders, strict=True):
            for array, order in zip(arrays_of, orders_of, strict=False):
                if sorted(order) != list(range(array.ndim - 1)):
                    raise ValueError(f"{order} is no dim order of {list(array.shape[1:])}")
    if version is None or not outputs:
        missing = "output_0" if version is not None else "version"
        raise UserError(f"golden file {path} has no array {missing}; {_ADVICE}")
    if samples == {0}:
        raise UserError(f"golden file {path} has no sample; {_ADVICE}")
    if len(samples) != 1:
        raise UserError(f"golden file {path}: its arrays differ in their number of samples")
    return Golden(inputs, outputs, arrays.get("labels"), eager, *dim_orders, is_stream="is_stream" in arrays)


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """Returns the arrays of an .npz by name, or that of an .npy as `input_0`; the caller knows what was wanted.

    Raises:
        ValueError: the file is neither, or has something else beside arrays.
    """
    data = np.load(path, allow_pickle=False)
    arrays = {"input_0": data} if isinstance(data, np.ndarray) else dict(data)
    for name, array in arrays.items():
        # NumPy returns the bytes of such members.
        if not isinstance(array, np.ndarray):
            raise ValueError(f"{name} is no array")
    return arrays


def golden_npz(golden: Golden) -> bytes:
    """The bytes of a golden file; equal data gives equal bytes."""
    arrays = {"version": np.array(_VERSION)}
    for kind, values in (("input", golden.inputs), ("output", golden.outputs), ("eager", golden.eager)):
        arrays |= {f"{kind}_{i}": array for i, array in enumerate(values)}
    for kind, orders in (("input", golden.input_orders), ("output", golden.output_orders)):
        arrays |= {
            f"dim_order_{kind}_{i}": np.array(order, dtype=np.uint8)
            for i, order in enumerate(orders)
            if list(order) != sorted(order)
        }
    if golden.labels is not None:
        arrays["labels"] = golden.labels
    if golden.is_stream:
        arrays["is_stream"] = np.array(True)
    # numpy's savez leaves room for sizes beyond 4 GB, which Python writes in another form since 3.11.4.
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, array in arrays.items():
            with file.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array)
    return buffer.getvalue()
