"""Operators whose kernels' inner functions generated C++ calls itself, with constants for what the outer ones check.

Any other operator is called by its kernel's outer function, which checks its tensors at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tools.pipeline.compile.program import Method
from tools.pipeline.link.layout import is_constant, kind_of


@dataclass(frozen=True)
class Call:
    """A call of an inner function.

    Attributes:
        header: where it is declared.
        function: its name.
        arguments: C++ expressions.
        tensors: the tensors that these name.
    """

    header: str
    function: str
    arguments: list[str]
    tensors: tuple[int, ...]


def inner_call(method: Method, operator: str, arguments: Sequence[int]) -> Call | None:
    """A call of the inner function; None if there is none for such arguments."""
    make = _CALLS.get(operator)
    return make(method, arguments) if make is not None else None


def _pointer(method: Method, index: int, c_type: str, is_out: bool = False) -> str:
    """The address of a tensor's elements."""
    if is_constant(method.value(index)):
        return method.constants[method.value(index).val.data_buffer_idx]
    const = "" if is_out else "const "
    return f"at<{const}{c_type}>(model, {method.names[index]}Offset)"


def _are_plain(method: Method, dtype: str, *tensors: int) -> bool:
    """Whether tensors are of a dtype, contiguous, and at a place that is known when the program is compiled."""
    return all(
        index in method.shapes
        and method.shapes[index].dtype == dtype
        and method.shapes[index].is_contiguous
        and (is_constant(method.value(index)) or (index in method.offsets and index not in method.kept))
        for index in tensors
    )


def _linear(method: Method, arguments: Sequence[int]) -> Call | None:
    x, weight, bias, out = arguments
    has_bias = kind_of(method.value(bias)) == "Tensor"
    tensors = (x, weight, *((bias,) if has_bias else ()), out)
    if not _are_plain(method, "FLOAT", *tensors):
        return None
    features = method.shapes[weight].sizes
    rows = method.shapes[out].numel // features[0] if features[0] else 0
    given = [
        _pointer(method, x, "float"),
        _pointer(method, weight, "float"),
        _pointer(method, bias, "float") if has_bias else "nullptr",
        _pointer(method, out, "float", is_out=True),
        str(rows),
        str(features[1]),
        str(features[0]),
    ]
    return Call("kernels/portable/gemm.h", "linear", given, tensors)


def _relu(method: Method, arguments: Sequence[int]) -> Call | None:
    x, out = arguments
    if not _are_plain(method, "FLOAT", x, out):
        return None
    given = [
        _pointer(method, x, "float"),
        _pointer(method, out, "float", is_out=True),
        str(method.shapes[out].numel),
    ]
    return Call("kernels/portable/relu.h", "relu", given, (x, out))


def _softmax(method: Method, arguments: Sequence[int]) -> Call | None:
    x, dim, half_to_float, out = arguments
    value = method.value(dim)
    if not _are_plain(method, "FLOAT", x, out) or kind_of(value) != "Int" or method.value(half_to_float).val.bool_val:
        return None
    sizes = method.shapes[x].sizes
    axis = value.val.int_val
    if dim in method.values or not -len(sizes) <= axis < len(sizes):
        return None
    inner = 1
    for size in sizes[axis % len(sizes) + 1 :]:
        inner *= size
    given = [
        _pointer(method, x, "float"),
        _pointer(method, out, "float", is_out=True),
        str(method.shapes[x].numel),
        str(sizes[axis]),
        str(inner),
    ]
    return Call("kernels/portable/softmax.h", "softmax", given, (x, out))


_CALLS: dict[str, Callable[[Method, Sequence[int]], Call | None]] = {
    "aten::linear.out": _linear,
    "aten::relu.out": _relu,
    "aten::_softmax.out": _softmax,
}
