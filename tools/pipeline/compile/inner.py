"""Operators whose kernels' inner functions generated C++ calls itself, with constants for what the outer ones check.

Any other operator is called by its kernel's outer function, which checks its tensors at each call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tools.artifacts.packed_layer.packed_layer import LINEAR
from tools.pipeline.compile.program import Method
from tools.pipeline.compile.values import floating
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
        index in method.shapes and method.shapes[index].dtype == dtype and method.shapes[index].is_contiguous
        for index in tensors
    ) and _are_placed(method, *tensors)


def _are_placed(method: Method, *tensors: int) -> bool:
    """Whether tensors are at places that are known when the program is compiled, and of static shape."""
    return all(
        is_constant(method.value(index)) or (index in method.offsets and index not in method.kept) for index in tensors
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
        f"{rows} /* rows */",
        f"{features[1]} /* in */",
        f"{features[0]} /* out */",
    ]
    return Call("kernels/portable/gemm.h", "linear", given, tensors)


def _relu(method: Method, arguments: Sequence[int]) -> Call | None:
    x, out = arguments
    if not _are_plain(method, "FLOAT", x, out):
        return None
    given = [
        _pointer(method, x, "float"),
        _pointer(method, out, "float", is_out=True),
        f"{method.shapes[out].numel} /* elements */",
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
        f"{method.shapes[x].numel} /* elements */",
        f"{sizes[axis]} /* of the softmax */",
        f"{inner} /* apart */",
    ]
    return Call("kernels/portable/softmax.h", "softmax", given, (x, out))


def _packed_linear(method: Method, arguments: Sequence[int]) -> Call | None:
    x, packed, _geometry, out = arguments
    if not _are_plain(method, "CHAR", x, packed, out) or packed not in method.packed:
        return None
    features = method.shapes[x].sizes[-1]
    given = [
        _pointer(method, packed, "int8_t"),
        _pointer(method, x, "int8_t"),
        f"{method.shapes[x].numel // features if features else 0} /* rows */",
        _pointer(method, out, "int8_t", is_out=True),
        _linear_needs(method),
    ]
    return Call("kernels/cortex_m/packed_layers.h", "cortex_m::packed_linear", given, (x, packed, out))


def _linear_needs(method: Method) -> str:
    """What one of a method's packed linear layers needs: cortex_m::PackedNeeds of kernels/cortex_m/packed_layers.h."""
    heads = [head for head in method.packed.values() if head.kind == LINEAR]
    needs = {
        "cortex_m::kNeedsWide": any(head.is_wide for head in heads),
        "cortex_m::kNeedsRange": any(head.min > -128 or head.max < 127 for head in heads),
    }
    return " | ".join(name for name, is_needed in needs.items() if is_needed) or "0 /* needs */"


_INTEGERS = {"CHAR": "int8_t", "SHORT": "int16_t"}


def _mapped(method: Method, x: int, out: int, integers: int) -> str | None:
    """The C++ type of one of two tensors, the other being float32, that lie alike and at known places; else None."""
    floats = out if integers == x else x
    if not all(index in method.shapes for index in (x, out)):
        return None
    c_type = _INTEGERS.get(method.shapes[integers].dtype)
    if c_type is None or method.shapes[floats].dtype != "FLOAT":
        return None
    if method.shapes[x].sizes != method.shapes[out].sizes or not method.shapes[x].lies_as(method.shapes[out]):
        return None
    return c_type if _are_placed(method, x, out) else None


def _quantization(method: Method, arguments: Sequence[int]) -> str | None:
    """cortex_m::Quantization of scale, zero point, least and greatest value; None if the program computes one."""
    scale, *integers = arguments[1:5]
    if any(index in method.values for index in (scale, *integers)):
        return None
    numbers = [inverse(method.value(scale).val.double_val)]
    numbers += [float(method.value(index).val.int_val) for index in integers]
    text = ", ".join(floating(number, True) for number in numbers)
    return f"cortex_m::Quantization{{{text}}} /* 1 / scale, zero point, least, greatest */"


def _quantize(method: Method, arguments: Sequence[int]) -> Call | None:
    x, out = arguments[0], arguments[-1]
    c_type = _mapped(method, x, out, out)
    quantization = _quantization(method, arguments)
    if c_type is None or quantization is None:
        return None
    given = [
        quantization,
        _pointer(method, x, "float"),
        "1 /* step */",
        _pointer(method, out, c_type, is_out=True),
        f"{method.shapes[x].numel} /* elements */",
    ]
    return Call("kernels/cortex_m/quantize.h", "cortex_m::quantize", given, (x, out))


def _dequantize(method: Method, arguments: Sequence[int]) -> Call | None:
    x, scale, out = arguments[0], arguments[1], arguments[-1]
    c_type = _mapped(method, x, out, x)
    quantization = _quantization(method, arguments)
    if c_type is None or quantization is None:
        return None
    given = [
        quantization,
        f"{floating(float(np.float32(method.value(scale).val.double_val)), True)} /* scale */",
        _pointer(method, x, c_type),
        "1 /* step */",
        _pointer(method, out, "float", is_out=True),
        f"{method.shapes[x].numel} /* elements */",
    ]
    return Call("kernels/cortex_m/quantize.h", "cortex_m::dequantize", given, (x, out))


def inverse(scale: float) -> float:
    """The number of single precision nearest to 1 / scale, as inverse() of kernels/cortex_m/quantize.h."""
    exact = 1 / Fraction(scale)
    near = np.float32(1 / scale)
    around = (np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf)))
    return float(min(around, key=lambda number: abs(Fraction(float(number)) - exact)))


_CALLS: dict[str, Callable[[Method, Sequence[int]], Call | None]] = {
    "aten::linear.out": _linear,
    "aten::relu.out": _relu,
    "aten::_softmax.out": _softmax,
    "cortex_m::dequantize_per_tensor.out": _dequantize,
    "cortex_m::quantize_per_tensor.out": _quantize,
    "torch_fusion::linear.out": _packed_linear,
}
