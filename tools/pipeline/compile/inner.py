"""Selects operators whose kernels' inner functions the generated C++ calls directly, with checks done at compile time.

All other operators are called by their kernels' outer functions, which check their tensors in each call.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tools.abi.layouts.layouts import MAX_PRELU_SHIFT, MOST_FLOATS
from tools.artifacts.packed_layer.packed_layer import (
    CONVOLUTION,
    DEPTHWISE,
    GROUPED,
    LINEAR,
    LINEAR_INT4,
    POINTWISE_INT4,
)
from tools.pipeline.compile.call import Call, are_placed, are_plain, flag, int_list, ints, is_factor, number, pointer
from tools.pipeline.compile.chain import Window
from tools.pipeline.compile.elementwise import ELEMENTWISE_CALLS
from tools.pipeline.compile.layout import Instruction, kind_of
from tools.pipeline.compile.program import Method, Shape
from tools.pipeline.compile.values import floating
from tools.pipeline.compile.window import WINDOW_CALLS, windows_name

# Inputs from which on a linear layer is worth the code of a longer loop.
_MANY_INPUTS = 128


def inner_call(method: Method, operator: str, arguments: Sequence[int]) -> Call | None:
    """Returns a call of the inner function, or None if there is none for these arguments."""
    make = _CALLS.get(operator)
    return make(method, arguments) if make is not None else None


def _linear(method: Method, arguments: Sequence[int]) -> Call | None:
    x, weight, bias, out = arguments
    has_bias = kind_of(method.value(bias)) == "Tensor"
    tensors = (x, weight, *((bias,) if has_bias else ()), out)
    if not are_plain(method, "FLOAT", *tensors):
        return None
    features = method.shapes[weight].sizes
    rows = method.shapes[out].numel // features[0] if features[0] else 0
    given = [
        pointer(method, x, "float"),
        pointer(method, weight, "float"),
        pointer(method, bias, "float") if has_bias else "nullptr",
        pointer(method, out, "float", is_out=True),
        f"{rows} /* rows */",
        f"{features[1]} /* in */",
        f"{features[0]} /* out */",
    ]
    return Call("kernels/portable/gemm.h", "linear", given, tensors)


def _softmax(method: Method, arguments: Sequence[int]) -> Call | None:
    x, dim, half_to_float, out = arguments
    axes = ints(method, dim)
    if not are_plain(method, "FLOAT", x, out) or axes is None or flag(method, half_to_float) is not False:
        return None
    sizes, axis = method.shapes[x].sizes, axes[0]
    if not -len(sizes) <= axis < len(sizes):
        return None
    inner = 1
    for size in sizes[axis % len(sizes) + 1 :]:
        inner *= size
    given = [
        pointer(method, x, "float"),
        pointer(method, out, "float", is_out=True),
        f"{method.shapes[x].numel} /* elements */",
        f"{sizes[axis]} /* of the softmax */",
        f"{inner} /* apart */",
    ]
    return Call("kernels/portable/softmax.h", "softmax", given, (x, out))


def _packed_linear(method: Method, arguments: Sequence[int]) -> Call | None:
    x, packed, _geometry, out = arguments
    return _linear_layer(method, "Linear", (x, packed, out), behind=[_linear_needs(method)])


def _packed_linear_table(method: Method, arguments: Sequence[int]) -> Call | None:
    x, packed, _geometry, table, out = arguments
    if not are_plain(method, "CHAR", x, table, out):
        return None
    given = [pointer(method, table, "int8_t")]
    return _linear_layer(method, "LinearTable", (x, packed, table, out), given, [_linear_needs(method)])


def _packed_rows(method: Method, arguments: Sequence[int]) -> Call | None:
    return _with_lanes(method, arguments, "packed_linear_rows")


def _packed_transposed(method: Method, arguments: Sequence[int]) -> Call | None:
    return _with_lanes(method, arguments, "packed_linear_transposed")


def _with_lanes(method: Method, arguments: Sequence[int], function: str) -> Call | None:
    x, packed, _geometry, scratch, out = arguments
    if not are_placed(method, scratch):
        return None
    behind = [pointer(method, scratch, "int8_t", is_out=True)]
    return _linear_layer(method, "LinearRows", (x, packed, scratch, out), behind=behind, function=function)


def _linear_layer(
    method: Method,
    kind: str,
    tensors: tuple[int, ...],
    before: Sequence[str] = (),
    behind: Sequence[str] = (),
    function: str = "",
) -> Call | None:
    """Returns the call of a packed linear layer.

    Args:
      kind: the kind of its function, such as Linear for a LinearFunction.
      tensors: its input, constant, others, and result; input and result are int8, or floating-point numbers.
      before, behind: arguments before the result and behind it.
      function: its name; by default that of its kind.
    """
    x, packed, *_, out = tensors
    types = {"FLOAT": "float", "CHAR": "int8_t"}
    in_type, out_type = (
        next((types[dtype] for dtype in types if are_plain(method, dtype, index)), None) for index in (x, out)
    )
    if in_type is None or out_type is None or packed not in method.packed or not are_plain(method, "CHAR", packed):
        return None
    if in_type == "float" and method.shapes[x].numel > MOST_FLOATS:
        return None
    features = method.shapes[x].sizes[-1]
    given = [
        pointer(method, packed, "int8_t"),
        pointer(method, x, in_type),
        f"{method.shapes[x].numel // features if features else 0} /* rows */",
        *before,
        pointer(method, out, out_type, is_out=True),
        *behind,
    ]
    name = f"cortex_m::{function or _LINEAR_FUNCTIONS[kind]}"
    if "float" in (in_type, out_type):
        name = f"cortex_m::packed_linear_floats<cortex_m::{kind}Function<const int8_t*>, {name}>"
    return Call("kernels/cortex_m/packed_layers.h", name, given, tensors)


_LINEAR_FUNCTIONS = {"Linear": "packed_linear", "LinearTable": "packed_linear_table"}


def _transposed(method: Method, arguments: Sequence[int]) -> Call | None:
    x, _sizes, _orders, *matrices, out = arguments
    shape = ints(method, *matrices)
    image, result = (method.shapes.get(index) for index in (x, out))
    if shape is None or image is None or result is None or not are_placed(method, x, out):
        return None
    if image.dtype != "CHAR" or result.dtype != "CHAR" or image.numel != result.numel or image.numel < 1:
        return None
    if min(shape) < 1 or image.numel % math.prod(shape):
        return None
    rows, columns, unit = shape
    given = [
        pointer(method, x, "int8_t"),
        f"{image.numel // math.prod(shape)} /* matrices */",
        f"{rows} /* rows */",
        f"{columns} /* columns */",
        f"{unit} /* bytes */",
        pointer(method, out, "int8_t", is_out=True),
    ]
    return Call("kernels/cortex_m/transpose.h", "cortex_m::transpose", given, (x, out))


def _linear_rows(method: Method, instruction: Instruction) -> int:
    """Returns the number of vectors that an instruction gives to packed_linear() or packed_linear_table()."""
    if instruction.kind != "KernelCall" or _CALLS.get(method.operator(instruction)) not in (
        _packed_linear, _packed_linear_table
    ):  # fmt: skip
        return 0
    x, packed, *_ = instruction.values
    head = method.packed.get(packed)
    return method.shapes[x].numel // head.inner if head is not None and head.inner else 0


def _linear_needs(method: Method) -> str:
    """Returns the needs of a method's packed linear layers: cortex_m::PackedNeeds of kernels/cortex_m/packed.h."""
    heads = [head for head in method.packed.values() if head.kind == LINEAR]
    singles = [head for head in heads if head.inner == 1 and not head.is_wide]
    needs = {
        "cortex_m::kNeedsWide": any(head.is_wide for head in heads),
        "cortex_m::kNeedsRange": any(head.min > -128 or head.max < 127 for head in heads),
        "cortex_m::kNeedsRest": any(head.inner % 8 for head in heads if head not in singles),
        "cortex_m::kNeedsLong": any(not head.has_short_sums for head in heads),
        "cortex_m::kNeedsSingle": bool(singles),
        "cortex_m::kNeedsMany": any(head.inner >= _MANY_INPUTS for head in heads),
        "cortex_m::kNeedsRows": any(_linear_rows(method, instruction) > 1 for instruction in method.layout.code),
    }
    return _joined(needs)


def _joined(needs: Mapping[str, bool]) -> str:
    return " | ".join(name for name, is_needed in needs.items() if is_needed) or "0 /* needs */"


def _linear_int4(method: Method, arguments: Sequence[int]) -> Call | None:
    x, packed, _channels, out = arguments
    if not are_plain(method, "CHAR", x, packed, out):
        return None
    return _packed_int4(method, arguments, LINEAR_INT4, -1)


def _pointwise_int4(method: Method, arguments: Sequence[int]) -> Call | None:
    x, packed, _channels, out = arguments
    shapes = [method.shapes.get(index) for index in (x, out)]
    if any(shape is None or shape.dtype != "CHAR" or not shape.is_channels_last for shape in shapes):
        return None
    return _packed_int4(method, arguments, POINTWISE_INT4, 1) if are_placed(method, x, packed, out) else None


def _packed_int4(method: Method, arguments: Sequence[int], kind: int, dim: int) -> Call | None:
    """Calls a packed layer with int4 weights and input channels in `dim`. problem_of() checks the constant."""
    x, packed, _channels, out = arguments
    head, sizes = method.packed.get(packed), method.shapes[x].sizes
    if head is None or head.kind != kind or not sizes or sizes[dim] != head.in_channels:
        return None
    expected = list(sizes)
    expected[dim] = head.channels
    if tuple(expected) != tuple(method.shapes[out].sizes):
        return None
    given = [
        pointer(method, packed, "int8_t"),
        pointer(method, x, "int8_t"),
        f"{method.shapes[x].numel // head.in_channels} /* rows */",
        pointer(method, out, "int8_t", is_out=True),
    ]
    return Call("kernels/cortex_m/int4.h", "cortex_m::packed_int4", given, (x, packed, out))


def _packed_convolution(method: Method, arguments: Sequence[int]) -> Call | None:
    heads = [head for head in method.packed.values() if head.kind == CONVOLUTION]
    others = [head for head in heads if not (head.kernel == head.stride == (1, 1) and head.padding == (0, 0))]
    needs = {
        "cortex_m::kNeedsPixels": len(others) < len(heads),
        "cortex_m::kNeedsWindows": any(head.in_channels % 4 == 0 for head in others),
        "cortex_m::kNeedsGathered": any(head.in_channels % 4 != 0 for head in others),
    }
    return _packed_images(method, arguments, CONVOLUTION, "cortex_m::packed_convolution", [_joined(needs)])


def _packed_depthwise(method: Method, arguments: Sequence[int]) -> Call | None:
    heads = [head for head in method.packed.values() if head.kind == DEPTHWISE]
    needs = {
        "cortex_m::kNeedsColumns": any(head.is_three_by_three for head in heads),
        "cortex_m::kNeedsOthers": not all(head.is_three_by_three or head.is_channelwise for head in heads),
        "cortex_m::kNeedsChannelwise": any(head.is_channelwise for head in heads),
    }
    function = "cortex_m::packed_depthwise"
    return _packed_images(method, arguments, DEPTHWISE, function, [_joined(needs)], "packed_depthwise")


def _packed_grouped(method: Method, arguments: Sequence[int]) -> Call | None:
    return _packed_images(method, arguments, GROUPED, "cortex_m::packed_grouped_convolution")


def _packed_images(
    method: Method,
    arguments: Sequence[int],
    kind: int,
    function: str,
    given: Sequence[str] = (),
    header: str = "packed_layers",
) -> Call | None:
    """Calls a packed layer on images; `given` are the last arguments of its function.

    The export ensures that the scratch memory suffices for the kernel.
    """
    x, packed, _geometry, scratch, out = arguments
    head = method.packed.get(packed)
    tensors = (x, packed, scratch, out)
    if head is None or head.kind != kind or not all(index in method.shapes for index in tensors):
        return None
    image, result = method.shapes[x], method.shapes[out]
    if not are_placed(method, *tensors) or {image.dtype, result.dtype} != {"CHAR"}:
        return None
    if not (image.is_channels_last and result.is_channels_last):
        return None
    windows = [
        Window(image.sizes[2 + i], head.kernel[i], head.stride[i], head.padding[i], head.dilation[i]) for i in range(2)
    ]
    sizes = (image.sizes[0], head.channels, *(window.out for window in windows))
    if image.sizes[1] != head.in_channels or result.sizes != sizes or min(*image.sizes, *sizes) < 1:
        return None
    name = f"k{image.sizes[0]}Images{windows_name(windows)}"
    images = f"constexpr cortex_m::PackedImages {name} = {{{image.sizes[0]}, {', '.join(w.text for w in windows)}}};"
    call = [
        pointer(method, packed, "int8_t"),
        name,
        pointer(method, x, "int8_t"),
        pointer(method, scratch, "int8_t", is_out=True),
        pointer(method, out, "int8_t", is_out=True),
        *given,
    ]
    return Call(f"kernels/cortex_m/{header}.h", function, call, tensors, {name: images})


def _image(shape: Shape) -> tuple[str, str]:
    """Returns the name and definition of cortex_m::Image of a shape of four dims."""
    batch, channels, height, width = shape.sizes
    order = "".join(map(str, shape.dim_order))
    name = f"kImage{'x'.join(map(str, shape.sizes))}{'' if order == '0123' else f'Order{order}'}"
    numbers = ", ".join(map(str, (batch, channels, height, width, *shape.strides)))
    return name, f"constexpr cortex_m::Image {name} = {{{numbers}}};"


@dataclass(frozen=True)
class _Pool:
    """The names of a pooling's windows, and of its images before and after it; and their definitions."""

    windows: str
    before: str
    after: str
    objects: dict[str, str]


def _avg_pool(method: Method, arguments: Sequence[int]) -> Call | None:
    # ExecuTorch 1.5 writes ceil_mode, earlier releases don't.
    if not 9 <= len(arguments) <= 10:
        return None
    x, kernel, stride, padding, *ceil_mode, zero_point, multiplier, shift, _scratch, out = arguments
    given = ints(method, zero_point, multiplier, shift)
    pool = _pool(method, x, kernel, stride, padding, out)
    if given is None or pool is None or any(flag(method, index) is not False for index in ceil_mode):
        return None
    offset, factor, power = given
    if not (-256 <= offset < 256 and factor > 0 and is_factor(factor, power)):
        return None
    scale = float(np.float32(factor) * np.ldexp(np.float32(1), power - 31))
    numbers = [f"{offset} /* zero point */", f"{floating(scale, True)} /* scale */"]
    return _pool_call(method, "cortex_m::avg_pool", pool, numbers, x, out)


def _max_pool(method: Method, arguments: Sequence[int]) -> Call | None:
    x, kernel, stride, padding, dilation, ceil_mode, before_zero, after_zero, least, greatest, out = arguments
    numbers = ints(method, before_zero, after_zero, least, greatest)
    pool = _pool(method, x, kernel, stride, padding, out)
    dilations = int_list(method, dilation)
    if numbers is None or pool is None or dilations is None or any(value != 1 for value in dilations):
        return None
    if flag(method, ceil_mode) is not False or numbers[0] != numbers[1] or not -128 <= numbers[2] <= numbers[3] <= 127:
        return None
    value_range = f"cortex_m::Range{{{numbers[2]}, {numbers[3]}}} /* least, greatest */"
    return _pool_call(method, "cortex_m::max_pool", pool, [value_range], x, out)


def _pool_call(method: Method, function: str, pool: _Pool, numbers: Sequence[str], x: int, out: int) -> Call:
    given = [pool.windows, *numbers, pool.before, pointer(method, x, "int8_t")]
    given += [pool.after, pointer(method, out, "int8_t", is_out=True)]
    return Call("kernels/cortex_m/pool.h", function, given, (x, out), pool.objects)


def _pool(method: Method, x: int, kernel: int, stride: int, padding: int, out: int) -> _Pool | None:
    """Returns the constants of a pooling, or None if it is not a pooling of int8 images."""
    if not all(index in method.shapes for index in (x, out)) or not are_placed(method, x, out):
        return None
    given, result = method.shapes[x], method.shapes[out]
    lists = [int_list(method, index) for index in (kernel, stride, padding)]
    if {given.dtype, result.dtype} != {"CHAR"} or len(given.sizes) != 4 or any(items is None for items in lists):
        return None
    pairs = []
    for items, default in zip(lists, (None, lists[0], [0]), strict=True):
        chosen = items or default
        if not chosen or len(chosen) > 2:
            return None
        pairs.append((chosen[0], chosen[-1]))
    windows = [
        Window(given.sizes[2 + i], kernel=pairs[0][i], stride=pairs[1][i], padding=pairs[2][i], dilation=1)
        for i in range(2)
    ]
    if min(given.sizes) < 1 or any(
        not (0 < w.kernel <= 0x7FFF and 0 < w.stride <= 0x7FFF and 0 <= 2 * w.padding <= w.kernel and w.out > 0)
        for w in windows
    ):
        return None
    if result.sizes != (*given.sizes[:2], windows[0].out, windows[1].out):
        return None
    name = f"kWindows{windows_name(windows)}"
    before, after = _image(given), _image(result)
    definition = f"constexpr cortex_m::PoolWindows {name} = {{{', '.join(window.text for window in windows)}}};"
    return _Pool(name, before[0], after[0], dict([(name, definition), before, after]))


_INTEGERS = {"CHAR": "int8_t", "SHORT": "int16_t"}


def _mapped(method: Method, x: int, out: int, integers: int) -> str | None:
    """Returns the C++ type of the quantized one of two tensors, if the other is float32 with the same layout."""
    floats = out if integers == x else x
    if not all(index in method.shapes for index in (x, out)):
        return None
    c_type = _INTEGERS.get(method.shapes[integers].dtype)
    if c_type is None or method.shapes[floats].dtype != "FLOAT":
        return None
    if method.shapes[x].sizes != method.shapes[out].sizes or not method.shapes[x].lies_as(method.shapes[out]):
        return None
    return c_type if are_placed(method, x, out) else None


def _scale_of(method: Method, index: int) -> float | None:
    """Returns a scale of a program, or None if it computes it, or float32 has it or its inverse not."""
    given = number(method, index)
    return given if given is not None and 2.0**-126 <= given <= 2.0**126 else None


def _quantization(method: Method, arguments: Sequence[int]) -> str | None:
    """Returns cortex_m::Quantization of scale, zero point, minimum and maximum; None if the program computes one of
    them.
    """
    scale, integers = _scale_of(method, arguments[1]), ints(method, *arguments[2:5])
    if scale is None or integers is None:
        return None
    text = ", ".join(floating(each, True) for each in (inverse(scale), *map(float, integers)))
    return f"cortex_m::Quantization{{{text}}} /* 1 / scale, zero point, range */"


def _quantize(method: Method, arguments: Sequence[int]) -> Call | None:
    x, out = arguments[0], arguments[-1]
    c_type = _mapped(method, x, out, out)
    quantization = _quantization(method, arguments)
    if c_type is None or quantization is None:
        return None
    given = [
        quantization,
        pointer(method, x, "float"),
        "1 /* step */",
        pointer(method, out, c_type, is_out=True),
        f"{method.shapes[x].numel} /* elements */",
    ]
    return Call("kernels/cortex_m/quantize.h", "cortex_m::quantize", given, (x, out))


def _dequantize(method: Method, arguments: Sequence[int]) -> Call | None:
    x, scale, out = arguments[0], _scale_of(method, arguments[1]), arguments[-1]
    c_type = _mapped(method, x, out, x)
    quantization = _quantization(method, arguments)
    if c_type is None or quantization is None or scale is None:
        return None
    given = [
        quantization,
        f"{floating(float(np.float32(scale)), True)} /* scale */",
        pointer(method, x, c_type),
        "1 /* step */",
        pointer(method, out, "float", is_out=True),
        f"{method.shapes[x].numel} /* elements */",
    ]
    return Call("kernels/cortex_m/quantize.h", "cortex_m::dequantize", given, (x, out))


def inverse(scale: float) -> float:
    """Returns the float32 nearest to 1 / scale, like inverse() of kernels/cortex_m/quantize.h."""
    exact = 1 / Fraction(scale)
    near = np.float32(1 / scale)
    around = (np.nextafter(near, np.float32(0)), near, np.nextafter(near, np.float32(np.inf)))
    return float(min(around, key=lambda number: abs(Fraction(float(number)) - exact)))


def _prelu(method: Method, arguments: Sequence[int]) -> Call | None:
    x, negative, *indices, out = arguments
    numbers, tensors = ints(method, *indices), (x, negative, out)
    if numbers is None or not all(index in method.shapes for index in tensors) or not are_placed(method, *tensors):
        return None
    image, slopes, result = (method.shapes[index] for index in tensors)
    positive, zero_point, output_zero_point, shift = numbers
    is_taken = (image.dtype, slopes.dtype, result.dtype) == ("CHAR", "INT", "CHAR") and image.numel > 0
    is_taken &= len(image.sizes) > 1 and image.sizes == result.sizes and image.lies_as(result)
    is_taken &= 0 <= shift <= MAX_PRELU_SHIFT and 0 <= positive <= 1 << MAX_PRELU_SHIFT
    is_taken &= all(-128 <= point < 128 for point in (zero_point, output_zero_point))
    if not is_taken or slopes.numel != image.sizes[1] or not (image.is_contiguous or image.is_channels_last):
        return None
    outer = image.sizes[0] if image.is_contiguous else image.numel // image.sizes[1]
    addend = (output_zero_point << shift) + (1 << shift >> 1)
    places = f"{outer}, {image.sizes[1]}, {image.numel // (outer * image.sizes[1])}"
    factors = f"{pointer(method, negative, 'int32_t')}, {positive}, {zero_point}, {addend}, {shift}"
    given = [
        f"cortex_m::Prelu{{{factors}, {places}}}",
        pointer(method, x, "int8_t"),
        pointer(method, out, "int8_t", is_out=True),
    ]
    return Call("kernels/cortex_m/prelu.h", "cortex_m::prelu", given, (negative, x, out))


_CALLS: dict[str, Callable[[Method, Sequence[int]], Call | None]] = {
    **ELEMENTWISE_CALLS,
    **WINDOW_CALLS,
    "aten::linear.out": _linear,
    "aten::_softmax.out": _softmax,
    "cortex_m::dequantize_per_tensor.out": _dequantize,
    "cortex_m::quantize_per_tensor.out": _quantize,
    "cortex_m::quantized_avg_pool2d.out": _avg_pool,
    "cortex_m::quantized_max_pool2d.out": _max_pool,
    "torch_fusion::convolution.out": _packed_convolution,
    "torch_fusion::depthwise_convolution.out": _packed_depthwise,
    "torch_fusion::grouped_convolution.out": _packed_grouped,
    "torch_fusion::linear.out": _packed_linear,
    "torch_fusion::linear_int4.out": _linear_int4,
    "torch_fusion::linear_rows.out": _packed_rows,
    "torch_fusion::linear_table.out": _packed_linear_table,
    "torch_fusion::linear_transposed.out": _packed_transposed,
    "torch_fusion::pointwise_int4.out": _pointwise_int4,
    "torch_fusion::quantized_prelu.out": _prelu,
    "torch_fusion::transposed.out": _transposed,
}
