"""Kernel calls in files: cases that kernels/tests/case_runner.cpp reads, and the results that it writes.

Little-endian. A case file is a count (u32) and that many cases: name (u32 length, bytes), number of arguments (u32),
arguments. An argument is a kind and its value: `n` none, `i` i64, `d` f64, `b` u8, `s` string, `I`, `T` and `O` lists
of integers, tensors, and tensors or none (u32 count, arguments), `t` and `o` (an output) tensors: dtype (u8), whether
its shape is dynamic (u8), number of dims (u8), sizes (i32 each), dim order (u8 each), size in bytes (u32), elements
in memory order; `m` is a tensor that overlaps others, with its offset in their block (u32) after it. A result is an
error (u32), the last argument if it is a number (`i` and i64, or `d` and f64), number of outputs (u32), and per output
its dims (u8), sizes, bytes (u32), elements.
"""

import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from tools.pipeline.export.ir.scalar_types import CODES
from tools.verify.environment.hosted import error_name


@dataclass
class Out:
    """An output tensor before the call: its contents are arbitrary unless `initial` gives them."""

    dtype: torch.dtype
    sizes: tuple[int, ...]
    dim_order: tuple[int, ...] = ()
    is_dynamic: bool = False
    initial: torch.Tensor | None = None


@dataclass
class Case:
    """A call with its expected results.

    Attributes:
      operator: name in the registry.
      arguments: in the schema's order, outputs included as Out. Tuples are lists of integers or tensors, lists those of
        tensors or None.
      expected: contents of the outputs; None for one with arbitrary contents.
      error: name of the Error expected instead of results; "any" for any result except a crash.
      value: the expected value of the last argument, if it is a number.
    """

    operator: str
    arguments: list[Any]
    expected: list[torch.Tensor | None] = field(default_factory=list)
    error: str = "Ok"
    value: float | None = None

    def outs(self) -> list[Out]:
        """Returns the outputs, also those in lists."""
        items = [item for a in self.arguments for item in (a if isinstance(a, tuple) else (a,))]
        return [item for item in items if isinstance(item, Out)]


@dataclass
class Placed:
    """A tensor of a call at an offset in a block, which may overlap others there."""

    tensor: torch.Tensor | Out
    offset: int


@dataclass
class Result:
    """The result of a call."""

    error: int
    value: float
    outputs: list[tuple[tuple[int, ...], bytes]]


def dim_order(tensor: torch.Tensor) -> tuple[int, ...]:
    """Returns the dim order of a dense tensor, as ExecuTorch defines it."""
    return tuple(range(tensor.dim())) if tensor.is_contiguous() else tuple(tensor.dim_order())


def memory_bytes(tensor: torch.Tensor) -> bytes:
    """Returns the elements of a dense tensor in memory order."""
    ordered = tensor.permute(dim_order(tensor)) if tensor.dim() else tensor
    # NumPy has no bfloat16.
    return ordered.contiguous().flatten().view(torch.uint8).numpy().tobytes()


def _tensor(
    kind: bytes, dtype: torch.dtype, sizes: Sequence[int], order: Sequence[int], is_dynamic: bool, data: bytes
) -> bytes:
    head = struct.pack("<BBB", CODES[dtype], is_dynamic, len(sizes))
    return b"".join(
        [kind, head, struct.pack(f"<{len(sizes)}i", *sizes), bytes(order), struct.pack("<I", len(data)), data]
    )


def _argument(value: Any) -> bytes:
    if value is None:
        return b"n"
    if isinstance(value, bool):
        return b"b" + struct.pack("<B", value)
    if isinstance(value, int):
        return b"i" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, str):
        return b"s" + struct.pack("<I", len(value)) + value.encode()
    if isinstance(value, torch.Tensor):
        return _tensor(b"t", value.dtype, value.shape, dim_order(value), False, memory_bytes(value))
    if isinstance(value, Out):
        count = 1
        for size in value.sizes:
            count *= size
        data = b"\xa5" * (count * value.dtype.itemsize) if value.dtype != torch.bool else bytes(count)
        if value.initial is not None:
            data = memory_bytes(value.initial)
        order = value.dim_order or range(len(value.sizes))
        return _tensor(b"o", value.dtype, value.sizes, order, value.is_dynamic, data)
    if isinstance(value, Placed):
        return b"m" + _argument(value.tensor)[1:] + struct.pack("<I", value.offset)
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return b"D" + struct.pack(f"<I{len(value)}d", len(value), *value)
    if isinstance(value, tuple) and value and isinstance(value[0], bool):
        return b"B" + struct.pack(f"<I{len(value)}B", len(value), *value)
    if isinstance(value, tuple):
        kind = b"T" if value and isinstance(value[0], (torch.Tensor, Out, Placed)) else b"I"
        return kind + struct.pack("<I", len(value)) + b"".join(_argument(item) for item in value)
    if isinstance(value, list):
        return b"O" + struct.pack("<I", len(value)) + b"".join(_argument(item) for item in value)
    raise TypeError(f"no argument of type {type(value).__name__}")


def run_cases(runner: Path, cases: Sequence[Case], folder: Path) -> list[Result]:
    """Runs cases in one process and returns their results; raises with the process's output if it fails."""
    case_path, result_path = folder / "cases.bin", folder / "results.bin"
    with case_path.open("wb") as file:
        file.write(struct.pack("<I", len(cases)))
        for case in cases:
            name = case.operator.encode()
            file.write(struct.pack("<I", len(name)) + name + struct.pack("<I", len(case.arguments)))
            for argument in case.arguments:
                file.write(_argument(argument))
    process = subprocess.run([runner, case_path, result_path], capture_output=True, text=True, check=False)
    if process.returncode != 0:
        raise AssertionError(f"case_runner failed with {process.returncode}\n{process.stderr[:4000]}")
    data = result_path.read_bytes()
    results = []
    position = 0

    def read(layout: str) -> tuple[Any, ...]:
        nonlocal position
        values = struct.unpack_from("<" + layout, data, position)
        position += struct.calcsize("<" + layout)
        return values

    for _ in cases:
        error, kind = read("Ic")
        value, output_count = read("dI" if kind == b"d" else "qI")
        outputs = []
        for _ in range(output_count):
            (dims,) = read("B")
            sizes = read(f"{dims}i")
            (size,) = read("I")
            outputs.append((sizes, data[position : position + size]))
            position += size
        results.append(Result(error, value, outputs))
    return results


def output_tensor(out: Out, sizes: tuple[int, ...], data: bytes) -> torch.Tensor:
    """Returns an output as a tensor of its shape."""
    order = out.dim_order or tuple(range(len(sizes)))
    stored = torch.frombuffer(bytearray(data), dtype=out.dtype) if data else torch.empty(0, dtype=out.dtype)
    stored = stored.reshape([sizes[dim] for dim in order])
    inverse = [order.index(dim) for dim in range(len(sizes))]
    return stored.permute(inverse) if sizes else stored.reshape(())


def exact_difference(case: Case, result: Result) -> str:
    """Describes the difference of a result that must match bit for bit; empty if it does."""
    error = error_name(result.error) if result.error else "Ok"
    if error != case.error:
        return f"error {error}, expected {case.error}"
    outputs = zip(case.outs(), result.outputs, strict=False)
    return outputs_difference(case, (output_tensor(out, *output) for out, output in outputs))


def outputs_difference(case: Case, outputs: Iterable[torch.Tensor], tolerance: float = 0) -> str:
    """Describes the first difference of outputs from the expected ones, exact ones without a tolerance."""
    for actual, expected in zip(outputs, case.expected, strict=False):
        if expected is None:
            continue
        if actual.shape != expected.shape:
            return f"sizes {tuple(actual.shape)}, expected {tuple(expected.shape)}"
        near = torch.isclose(actual, expected, tolerance, tolerance, True) if tolerance else actual == expected
        if not near.all():
            return f"{int((~near).sum())} of {expected.numel()} elements differ"
    return ""
