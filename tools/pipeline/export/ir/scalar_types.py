"""Maps ExecuTorch's scalar types to names, sizes and torch's dtypes."""

import torch
from executorch.exir.scalar_type import ScalarType

_TYPES = {
    ScalarType.BYTE: ("Byte", torch.uint8),
    ScalarType.CHAR: ("Char", torch.int8),
    ScalarType.SHORT: ("Short", torch.int16),
    ScalarType.INT: ("Int", torch.int32),
    ScalarType.LONG: ("Long", torch.int64),
    ScalarType.HALF: ("Half", torch.float16),
    ScalarType.FLOAT: ("Float", torch.float32),
    ScalarType.DOUBLE: ("Double", torch.float64),
    ScalarType.BOOL: ("Bool", torch.bool),
    ScalarType.BFLOAT16: ("BFloat16", torch.bfloat16),
}
_NAMES = {dtype: name for name, dtype in _TYPES.values()}
# The numbers of types in programs.
CODES = {dtype: int(scalar_type) for scalar_type, (_, dtype) in _TYPES.items()}


def itemsize(scalar_type: ScalarType) -> int:
    """Returns the bytes per element."""
    return _TYPES[scalar_type][1].itemsize


def type_name(scalar_type: ScalarType) -> str:
    """Returns ExecuTorch's C++ name of a type: Float, Int, Char, ..."""
    return _TYPES[scalar_type][0]


def is_supported(dtype: torch.dtype) -> bool:
    """Whether a program can hold tensors of this dtype."""
    return dtype in _NAMES


def supported_names() -> str:
    """Lists all supported dtypes by torch's names."""
    return ", ".join(str(dtype).removeprefix("torch.") for dtype in _NAMES)
