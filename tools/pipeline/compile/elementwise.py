"""Makes calls of elementwise inner functions: operations on one tensor or two, with or without broadcast, and
reductions.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tools.pipeline.compile.call import Call, are_placed, are_plain, int_list, ints, is_factor, number, pointer
from tools.pipeline.compile.layout import kind_of
from tools.pipeline.compile.program import Method, Shape
from tools.pipeline.compile.values import floating

# Equals kMulOffsets in kernels/cortex_m/elementwise.h.
_MUL_OFFSETS = 0x7FFF
# The largest number of dimensions of a walk; code with more nested loops is rarely worth its size.
_MAX_DIMS = 4
_ARITHMETIC = {"FLOAT": "float", "INT": "int32_t"}
_FLOAT_MAX = (2 - 2**-23) * 2.0**127

# Names in kernels/portable/op_unary.h; the operators' names only differ in case.
_UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Exp", "Expm1", "Floor",
    "HardSigmoid", "HardSwish", "Log", "Log10", "Log1p", "Log2", "Neg", "Reciprocal", "Round", "Rsqrt", "Sigmoid",
    "Silu", "Sin", "Sinh", "Sqrt", "Tan", "Tanh", "Trunc",
)  # fmt: skip


@dataclass(frozen=True)
class Dim:
    """A dimension of a walk: the number of elements, and their stride in each array."""

    size: int
    strides: tuple[int, ...]


def walk(sizes: Sequence[int], order: Sequence[int], strides: Sequence[Sequence[int]]) -> list[Dim]:
    """Returns a walk over arrays of those strides with as few dimensions as possible, innermost first. It is the order
    of LoopNest in kernels/util/loop_nest.h, in which elements are summed.

    Args:
        order: the dims, outermost first.
    """
    dims: list[Dim] = []
    for dim in reversed(order):
        if sizes[dim] == 1:
            continue
        steps = tuple(of_array[dim] for of_array in strides)
        last = dims[-1] if dims else None
        if last and steps == tuple(stride * last.size for stride in last.strides):
            dims[-1] = Dim(last.size * sizes[dim], last.strides)
        else:
            dims.append(Dim(sizes[dim], steps))
    return dims


def broadcast_walk(out: Shape, inputs: Sequence[Shape]) -> list[Dim] | None:
    """Returns the walk over an output in memory order and inputs that broadcast to it, or None if there is none."""
    rank = len(out.sizes)
    if min(out.sizes, default=1) < 1 or any(len(shape.sizes) > rank for shape in inputs):
        return None
    strides = []
    for shape in inputs:
        missing = rank - len(shape.sizes)
        if any(size not in (1, of_out) for size, of_out in zip(shape.sizes, out.sizes[missing:], strict=True)):
            return None
        own = [0 if size == 1 else stride for size, stride in zip(shape.sizes, shape.strides, strict=True)]
        strides.append([0] * missing + own)
    return walk(out.sizes, out.dim_order, strides) or [Dim(1, (1,) * len(inputs))]


def _binary_walk(method: Method, dtype: str, a: int, b: int, out: int) -> list[Dim] | None:
    tensors = (a, b, out)
    if not all(index in method.shapes and method.shapes[index].dtype == dtype for index in tensors):
        return None
    if not are_placed(method, *tensors):
        return None
    return broadcast_walk(method.shapes[out], [method.shapes[a], method.shapes[b]])


# ---- float32 and int32


def _binary(operation: str, dtypes: Sequence[str], method: Method, arguments: Sequence[int]) -> Call | None:
    """Calls out = operation(self, other), with an optional factor for other, which must be 1."""
    a, b, *alpha, out = arguments
    dtype = method.shapes[out].dtype if out in method.shapes else ""
    if dtype not in dtypes or any(number(method, index) != 1 for index in alpha):
        return None
    dims = _binary_walk(method, dtype, a, b, out)
    if dims is None or len(dims) > _MAX_DIMS:
        return None
    c_type = _ARITHMETIC[dtype]
    given = [f"operation::{operation}()", pointer(method, a, c_type), pointer(method, b, c_type)]
    given.append(pointer(method, out, c_type, is_out=True))
    if dims == [Dim(method.shapes[out].numel, (1, 1))]:
        given.append(f"{method.shapes[out].numel} /* elements */")
        return Call("kernels/portable/op_binary.h", "map", given, (a, b, out))
    sizes = ", ".join(str(dim.size) for dim in dims)
    strides = [[dim.strides[array] for dim in dims] for array in range(2)]
    name = f"kWalk{'x'.join(str(dim.size) for dim in dims)}Strides" + "And".join(
        "x".join(map(str, of_array)) for of_array in strides
    )
    listed = ", ".join("{" + ", ".join(map(str, of_array)) + "}" for of_array in strides)
    definition = f"constexpr Walk<{len(dims)}> {name} = {{{{{sizes}}}, {{{listed}}}}};"
    return Call("kernels/portable/op_binary.h", "map", [*given, name], (a, b, out), {name: definition})


def _is_map(method: Method, dtype: str, x: int, out: int) -> bool:
    """Whether each element of an output depends only on the input element at the same offset, with one dtype."""
    if not all(index in method.shapes and method.shapes[index].dtype == dtype for index in (x, out)):
        return False
    shapes = method.shapes[x], method.shapes[out]
    return are_placed(method, x, out) and shapes[0].sizes == shapes[1].sizes and shapes[0].lies_as(shapes[1])


def _unary_call(
    header: str, function: str, objects: Mapping[str, str], method: Method, x: int, out: int
) -> Call | None:
    """Calls a function on all float32 elements; the objects are its constants, each with a name and a definition."""
    if not _is_map(method, "FLOAT", x, out):
        return None
    given = [
        *objects,
        pointer(method, x, "float"),
        pointer(method, out, "float", is_out=True),
        f"{method.shapes[out].numel} /* elements */",
    ]
    return Call(header, function, given, (x, out), objects)


def _relu(method: Method, arguments: Sequence[int]) -> Call | None:
    return _unary_call("kernels/portable/relu.h", "relu", {}, method, *arguments)


def _unary(header: str, operation: str, method: Method, arguments: Sequence[int]) -> Call | None:
    """Calls an operation without parameters."""
    return _unary_call(f"kernels/portable/{header}", f"map_floats<operation::{operation}>", {}, method, *arguments)


def _gelu(method: Method, arguments: Sequence[int]) -> Call | None:
    x, approximate, out = arguments
    value = method.value(approximate)
    operation = {"none": "Gelu", "tanh": "GeluTanh"}.get(value.val.string_val) if kind_of(value) == "String" else None
    return _unary("op_activation.h", operation, method, (x, out)) if operation else None


def _with_parameters(operation: str, parameters: Sequence[str], method: Method, x: int, out: int) -> Call | None:
    """Calls an operation with parameters, which are C++ expressions."""
    name = f"k{method.layer}"
    text = f"constexpr operation::{operation}<float> {name} = {{{', '.join(parameters)}}};"
    return _unary_call("kernels/portable/op_activation.h", "map_floats", {name: text}, method, x, out)


def _clamp(method: Method, arguments: Sequence[int]) -> Call | None:
    """Calls clamp, whose bounds may be missing."""
    x, *bounds, out = arguments
    limits = [None if kind_of(method.value(bound)) == "Null" else _single(method, bound) for bound in bounds]
    given = [kind_of(method.value(bound)) != "Null" for bound in bounds]
    if any(limit is None and is_given for limit, is_given in zip(limits, given, strict=True)):
        return None
    parameters = [*(str(is_given).lower() for is_given in given), *(limit or "0.0f" for limit in limits)]
    return _with_parameters("Clamp", parameters, method, x, out)


def _leaky_relu(method: Method, arguments: Sequence[int]) -> Call | None:
    x, slope, out = arguments
    given = _single(method, slope)
    return None if given is None else _with_parameters("LeakyRelu", [given], method, x, out)


def _single(method: Method, index: int) -> str | None:
    """Returns a number of a program as a float32 literal, or None if it is computed or exceeds float32."""
    given = number(method, index)
    if given is None or (math.isfinite(given) and abs(given) > _FLOAT_MAX):
        return None
    return floating(given, True)


def _reduction(operation: str, method: Method, arguments: Sequence[int]) -> Call | None:
    """Calls a float32 reduction over contiguous dims; other dims are kept, or of size 1."""
    x, dims, _keepdim, *_dtype, out = arguments
    chosen = [] if kind_of(method.value(dims)) == "Null" else int_list(method, dims)
    if chosen is None or not are_plain(method, "FLOAT", x, out):
        return None
    sizes = method.shapes[x].sizes
    if min(sizes, default=0) < 1 or any(not -len(sizes) <= dim < len(sizes) for dim in chosen):
        return None
    gone = [dim % len(sizes) for dim in chosen] or list(range(len(sizes)))
    if len(set(gone)) < len(gone):
        return None
    # The bounds of the reduced dims; dims of size 1 don't matter.
    places = [dim for dim in gone if sizes[dim] > 1]
    first, end = (min(places), max(places) + 1) if places else (0, 0)
    if any(sizes[dim] > 1 and dim not in gone for dim in range(first, end)):
        return None
    times, apart = math.prod(sizes[:first]), math.prod(sizes[end:])
    if method.shapes[out].numel != times * apart:
        return None
    given = [
        f"{operation}()",
        pointer(method, x, "float"),
        pointer(method, out, "float", is_out=True),
        f"{times} /* times */",
        f"{math.prod(sizes[first:end])} /* of each result */",
        f"{apart} /* apart */",
    ]
    return Call("kernels/portable/reduce.h", "reduce_dim", given, (x, out))


# ---- int8


def _rows(dims: Sequence[Dim]) -> tuple[str, str] | None:
    """Returns the name and definition of cortex_m::Rows of a walk, or None if it has too many dims."""
    if len(dims) > 2:
        return None
    inner = dims[0]
    outer = dims[1] if len(dims) > 1 else Dim(1, (0, 0))
    name = f"k{f'{outer.size}RowsOf' if outer.size > 1 else ''}{inner.size}Elements"
    if (inner.strides, outer.strides) != ((1, 1), (0, 0)):
        name += f"Steps{'x'.join(map(str, inner.strides))}RowSteps{'x'.join(map(str, outer.strides))}"
    steps, row_steps = (f"{{{', '.join(map(str, dim.strides))}}}" for dim in (inner, outer))
    name = f"{name[0]}Rows{name[1:]}" if outer.size == 1 else name
    return name, (
        f"constexpr cortex_m::Rows {name} = {{{{0, 0}}, {steps}, {row_steps}, 0, {inner.size}, {outer.size}}};"
    )


def _int8_call(
    method: Method, function: str, parameters: tuple[str, str] | None, a: int, b: int, out: int
) -> Call | None:
    """Calls an inner function on rows of two inputs; its parameters have a name and definition."""
    dims = _binary_walk(method, "CHAR", a, b, out)
    rows = _rows(dims) if dims is not None else None
    if rows is None:
        return None
    objects = dict([parameters, rows] if parameters else [rows])
    given = [*objects, pointer(method, a, "int8_t"), pointer(method, b, "int8_t")]
    given.append(pointer(method, out, "int8_t", is_out=True))
    return Call("kernels/cortex_m/elementwise.h", f"cortex_m::{function}", given, (a, b, out), objects)


def _quantized_add(method: Method, arguments: Sequence[int]) -> Call | None:
    a, b, out = arguments[0], arguments[4], arguments[13]
    numbers = ints(method, *arguments[1:4], *arguments[5:13])
    if numbers is None:
        return None
    triples = [numbers[0:3], numbers[3:6], numbers[6:9]]
    zero, factor, shift = triples[1]
    if factor < 0:
        # The device does the same in take_sign().
        triples[1] = [~zero, -factor, shift]
    least, greatest = numbers[9:11]
    if not all(-256 <= zero < 256 and is_factor(each, shift) for zero, each, shift in triples):
        return None
    if not -128 <= least <= greatest <= 127:
        return None
    zeros = ", ".join(str(triple[0]) for triple in triples)
    factors = ", ".join(f"{{{each}, {shift}}}" for _, each, shift in triples)
    name = f"k{method.layer}"
    text = f"constexpr cortex_m::AddParameters {name} = {{{{{zeros}}}, {{{factors}}}, {{{least}, {greatest}}}}};"
    dims = _binary_walk(method, "CHAR", a, b, out) or []
    function = "add_broadcast" if any(0 in dim.strides for dim in dims[:1]) else "add"
    function = f"subtract<cortex_m::{function}>" if factor < 0 else function
    return _int8_call(method, function, (name, text), a, b, out)


def _quantized_mul(method: Method, arguments: Sequence[int]) -> Call | None:
    a, a_zero, b, b_zero, out_zero, factor, shift, out = arguments
    numbers = ints(method, a_zero, b_zero, out_zero, factor, shift)
    if numbers is None or any(not -_MUL_OFFSETS <= zero < _MUL_OFFSETS for zero in numbers[:2]):
        return None
    if not -256 <= numbers[2] < 256 or not is_factor(*numbers[3:]):
        return None
    zeros = ", ".join(map(str, numbers[:3]))
    name = f"k{method.layer}"
    text = f"constexpr cortex_m::MulParameters {name} = {{{{{zeros}}}, {{{numbers[3]}, {numbers[4]}}}}};"
    return _int8_call(method, "mul", (name, text), a, b, out)


def _quantized_extreme(is_max: bool, method: Method, arguments: Sequence[int]) -> Call | None:
    a, b, out = arguments
    return _int8_call(method, f"choose<{'true' if is_max else 'false'}>", None, a, b, out)


def _quantized_activation(method: Method, arguments: Sequence[int]) -> Call | None:
    x, table, out = arguments
    if not _is_map(method, "CHAR", x, out) or not are_placed(method, table) or table not in method.shapes:
        return None
    if method.shapes[table].dtype != "CHAR" or method.shapes[table].numel != 256:
        return None
    given = [
        pointer(method, table, "int8_t"),
        pointer(method, x, "int8_t"),
        "1 /* step */",
        pointer(method, out, "int8_t", is_out=True),
        f"{method.shapes[out].numel} /* elements */",
    ]
    return Call("kernels/cortex_m/elementwise.h", "cortex_m::look_up", given, (table, x, out))


ELEMENTWISE_CALLS: Mapping[str, Callable[[Method, Sequence[int]], Call | None]] = {
    **{f"aten::{operation.lower()}.out": partial(_unary, "op_unary.h", operation) for operation in _UNARY},
    "aten::add.out": partial(_binary, "Add", ("FLOAT", "INT")),
    "aten::amax.out": partial(_reduction, "Extreme<true, float>"),
    "aten::amin.out": partial(_reduction, "Extreme<false, float>"),
    "aten::clamp.out": _clamp,
    "aten::div.out": partial(_binary, "Div", ("FLOAT",)),
    "aten::gelu.out": _gelu,
    "aten::hardtanh.out": _clamp,
    "aten::leaky_relu.out": _leaky_relu,
    "aten::maximum.out": partial(_binary, "Maximum", ("FLOAT", "INT")),
    "aten::mean.out": partial(_reduction, "Mean<float>"),
    "aten::minimum.out": partial(_binary, "Minimum", ("FLOAT", "INT")),
    "aten::mish.out": partial(_unary, "op_activation.h", "Mish"),
    "aten::mul.out": partial(_binary, "Mul", ("FLOAT", "INT")),
    "aten::relu.out": _relu,
    "aten::sub.out": partial(_binary, "Sub", ("FLOAT", "INT")),
    "aten::sum.IntList_out": partial(_reduction, "Sum<float>"),
    "cortex_m::maximum.out": partial(_quantized_extreme, True),
    "cortex_m::minimum.out": partial(_quantized_extreme, False),
    "cortex_m::quantized_activation.out": _quantized_activation,
    "cortex_m::quantized_add.out": _quantized_add,
    "cortex_m::quantized_mul.out": _quantized_mul,
}
