"""Inputs and outputs of firmware/runner.cpp: each a header and its bytes in memory order."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.abi.layouts.layouts import RUNNER_MAX_DIM
from tools.artifacts.program.program import DTYPES, ScalarType
from tools.verify.environment.hosted import pad

# RUNNER_VALUE: dtype, dim, sizes, dim order, nbytes.
_HEADER = struct.Struct(f"<iI{RUNNER_MAX_DIM}i{RUNNER_MAX_DIM}BI")

_BFLOAT16 = ScalarType.BFLOAT16

# ExecuTorch's ScalarType -> (its name, NumPy's dtype). NumPy has no bfloat16: its bits come as integers.
_OUTPUT_DTYPES = {
    ScalarType[name].value: (dtype.cpp, np.dtype("uint16" if name == "BFLOAT16" else dtype.pytorch))
    for name, dtype in DTYPES.items()
}
_DTYPES = {key: value for key, value in _OUTPUT_DTYPES.items() if not ScalarType(key).name.startswith("UINT")}


@dataclass(frozen=True)
class Value:
    """A tensor: ExecuTorch's name of its dtype, and its elements. BFloat16 has its elements as float32."""

    dtype: str
    array: np.ndarray


def dtype_name(scalar_type: int) -> str:
    """Returns ExecuTorch's name of a ScalarType."""
    return _DTYPES[scalar_type][0] if scalar_type in _DTYPES else f"dtype {scalar_type}"


def name_of(dtype: np.dtype) -> str:
    """Returns ExecuTorch's name of the dtype of an array."""
    return next(name for name, kind in _DTYPES.values() if dtype == kind)


def numpy_dtype(scalar_type: int) -> np.dtype | None:
    """Returns NumPy's dtype of an array of a ScalarType; None if there is none. For BFloat16, float32."""
    if scalar_type == _BFLOAT16:
        return np.dtype(np.float32)
    return np.dtype(_DTYPES[scalar_type][1]) if scalar_type in _DTYPES else None


def elements(array: np.ndarray, scalar_type: int, dim_order: Sequence[int]) -> bytes:
    """Returns the bytes of one input in memory order.

    Args:
        array: the elements, of numpy_dtype(scalar_type).
        scalar_type: ExecuTorch's ScalarType.
        dim_order: the dimensions from the outermost in memory to the innermost.
    """
    if scalar_type == _BFLOAT16:
        # Rounded to nearest, ties to even, as PyTorch does.
        bits = array.astype(np.float32).view(np.uint32)
        array = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    return np.ascontiguousarray(array.transpose(list(dim_order))).tobytes()


def encode(array: np.ndarray, scalar_type: int, dim_order: Sequence[int]) -> bytes:
    """Returns the header and bytes of one input, of what elements() takes."""
    data = elements(array, scalar_type, dim_order)
    sizes = [*array.shape, *[0] * (RUNNER_MAX_DIM - array.ndim)]
    order = [*dim_order, *[0] * (RUNNER_MAX_DIM - array.ndim)]
    return pad(_HEADER.pack(scalar_type, array.ndim, *sizes, *order, len(data))) + pad(data)


def read_value(data: bytes, position: int) -> tuple[Value, int]:
    """Returns the value at a position of the runner's outputs, and the position after it."""
    scalar_type, dim, *rest, nbytes = _HEADER.unpack_from(data, position)
    sizes, order = rest[:dim], rest[RUNNER_MAX_DIM : RUNNER_MAX_DIM + dim]
    position += _HEADER.size
    name, kind = _OUTPUT_DTYPES[scalar_type]
    stored = np.frombuffer(data[position : position + nbytes], dtype=kind).reshape([sizes[d] for d in order])
    array = stored.transpose(np.argsort(order)) if dim else stored
    if scalar_type == _BFLOAT16:
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return Value(name, np.ascontiguousarray(array).reshape(sizes)), position + nbytes
