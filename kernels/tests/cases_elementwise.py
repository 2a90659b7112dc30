"""Cases of the elementwise operators, with the results of eager PyTorch."""

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import (
    BITS,
    BROADCASTS,
    EVERY,
    FLOATINGS,
    INTEGERS,
    NUMBERS,
    SHAPES,
    case,
    channels_last,
    values,
)


def unary_cases() -> Iterator[Case]:
    """Yields elementwise operators of one tensor."""
    table: list[tuple[str, list[torch.dtype]]] = [
        ("abs ceil floor neg relu round trunc", NUMBERS),
        ("sign isnan isinf logical_not", EVERY),
        ("acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log1p log2 reciprocal rsqrt", EVERY),
        ("sigmoid sin sinh sqrt tan tanh", EVERY),
        ("hardsigmoid hardswish silu", FLOATINGS),
        ("bitwise_not", BITS),
    ]
    for names, dtypes in table:
        for name in names.split():
            function = getattr(functional, name, None) or getattr(torch, name)
            if name in ("cosh", "sinh"):
                function = functools.partial(_by_doubles, function)
            yield from parameter_cases(f"aten::{name}.out", dtypes, [((), function)])


def _by_doubles(function: Callable[..., Tensor], *tensors: Any) -> Tensor:
    """Computes a result in doubles, without eager mode's overflows in float32 vectors, and its intermediate rounding in
    16-bit floats.
    """
    expected = function(*tensors)
    if not expected.dtype.is_floating_point:
        return expected
    # Operands are converted to a 16-bit float first.
    common = [x.to(expected.dtype).double() if isinstance(x, Tensor) else x for x in tensors]
    return function(*common).to(expected.dtype)


def parameter_cases(
    name: str, dtypes: list[torch.dtype], calls: Sequence[tuple[tuple[Any, ...], Callable[[Tensor], Tensor]]]
) -> Iterator[Case]:
    """Cases of an elementwise operator of one tensor, with each list of parameters and the expected function."""
    for parameters, function in calls:
        for dtype, shape, special in itertools.product(dtypes, SHAPES, (False, True)):
            x = values(shape, dtype, special)
            yield case(name, x, *parameters, expected=function(x))
        x = channels_last(values((2, 3, 4, 5), dtypes[0]))
        expected = function(x)
        yield case(name, x, *parameters, expected=expected)
        # The dim order differs from the input's.
        yield Case(name, [x, *parameters, Out(expected.dtype, (2, 3, 4, 5))], [expected])
        x = values((2, 3), dtypes[0])
        yield Case(name, [x, *parameters, Out(expected.dtype, (4, 5), is_dynamic=True)], [function(x)])


def activation_cases() -> Iterator[Case]:
    """Yields elementwise operators of one tensor with parameters."""
    yield from parameter_cases(
        "aten::gelu.out",
        FLOATINGS,
        [
            # Eager's result at infinity depends on the size of the tensor.
            ((mode,), lambda x, mode=mode: _by_doubles(functools.partial(functional.gelu, approximate=mode), x))
            for mode in ("none", "tanh")
        ],
    )
    yield from parameter_cases(
        "aten::leaky_relu.out",
        FLOATINGS,
        [((slope,), lambda x, slope=slope: functional.leaky_relu(x, slope)) for slope in (0.01, 2)],
    )
    elus = [(1, 1, 1), (0.5, 2.0, 3.0)]
    yield from parameter_cases(
        "aten::elu.out", FLOATINGS, [(p, lambda x, p=p: torch.ops.aten.elu(x, *p)) for p in elus]
    )
    softpluses = [(1, 20), (2.0, 0.5)]
    yield from parameter_cases(
        "aten::softplus.out",
        FLOATINGS,
        [
            (p, lambda x, p=p: _by_doubles(functools.partial(torch.ops.aten.softplus, beta=p[0], threshold=p[1]), x))
            for p in softpluses
        ],
    )
    yield from parameter_cases("aten::mish.out", FLOATINGS, [((), functools.partial(_by_doubles, functional.mish))])
    yield from parameter_cases("aten::threshold.out", NUMBERS, [((1, 3), lambda x: functional.threshold(x, 1, 3))])
    for name in ("hardshrink", "softshrink"):
        function = getattr(functional, name)
        yield from parameter_cases(f"aten::{name}.out", FLOATINGS, [((0.75,), functools.partial(function, lambd=0.75))])
    for dtype in FLOATINGS:
        for shape, dim in [((4,), 0), ((2, 6), -1), ((2, 4, 3), 1), ((0, 2), 1)]:
            x = values(shape, dtype)
            yield case("aten::glu.out", x, dim, expected=functional.glu(x, dim))
    image = values((2, 2, 4, 6), torch.float32).contiguous(memory_format=torch.channels_last)
    for dim in range(4):
        expected = functional.glu(image.contiguous(), dim)
        yield case("aten::glu.out", image, dim, expected=expected)
        yield case("aten::glu.out", image, dim, expected=expected.contiguous(memory_format=torch.channels_last))
    yield from parameter_cases(
        "aten::logit.out",
        EVERY,
        [((eps,), lambda x, eps=eps: _by_doubles(functools.partial(torch.logit, eps=eps), x)) for eps in (None, 0.1)],
    )
    signed = [dtype for dtype in NUMBERS if dtype != torch.uint8]
    yield from parameter_cases(
        "aten::hardtanh.out", signed, [(p, lambda x, p=p: functional.hardtanh(x, *p)) for p in [(-1.0, 1.0), (0, 6)]]
    )
    bounds = [(1, 3), (None, 2), (0.5, None), (2, 2.5), (3, 1)]
    yield from parameter_cases("aten::clamp.out", NUMBERS, [(p, lambda x, p=p: torch.clamp(x, *p)) for p in bounds])


def pair_cases(
    operator: str, function: Callable[[Any, Any], Tensor], dtypes: list[torch.dtype], *parameters: Any, zeros: bool
) -> Iterator[Case]:
    """Yields an elementwise operator of two tensors; `zeros` says whether the second may have integer zeros."""

    def second(shape: tuple[int, ...], dtype: torch.dtype, special: bool = False) -> Tensor:
        tensor = values(shape, dtype, special)
        return tensor if zeros or dtype.is_floating_point else tensor.masked_fill(tensor == 0, 3)

    for dtype, shape in itertools.product(dtypes, SHAPES):
        a, b = values(shape, dtype, True), second(shape, dtype, True)
        yield case(operator, a, b, *parameters, expected=function(a, b))
    for dtype, (left, right) in itertools.product(dtypes, BROADCASTS):
        a, b = values(left, dtype, True), second(right, dtype, True)
        yield case(operator, a, b, *parameters, expected=function(a, b))
    for dtype, other in itertools.product(dtypes, dtypes):
        for left, right in [((3, 5), (3, 5)), ((2, 3), ()), ((), (4,)), ((), ()), ((20, 1), (3,))]:
            a, b = values(left, dtype), second(right, other)
            yield case(operator, a, b, *parameters, expected=function(a, b))
    a, b = channels_last(values((2, 3, 4, 5), dtypes[0])), second((2, 3, 4, 5), dtypes[0])
    for x, y in [(a, channels_last(b)), (a, b), (b, channels_last(b)), (a, second((3, 1, 1), dtypes[0]))]:
        yield case(operator, x, y, *parameters, expected=function(x, y))
    a, b = values((2, 1), dtypes[0]), second((3,), dtypes[0])
    expected = function(a, b)
    yield Case(operator, [a, b, *parameters, Out(expected.dtype, (8, 8), is_dynamic=True)], [expected])


def binary_cases() -> Iterator[Case]:
    """Yields elementwise operators of two tensors, and of a tensor and a scalar."""
    numbers: list[Any] = [3, -2, 2.5, True]
    table: list[tuple[str, list[torch.dtype], str, list[Any]]] = [
        ("mul", EVERY, "out", numbers),
        ("div", EVERY, "out", numbers),
        *((name, EVERY, "Tensor_out", [*numbers, 0]) for name in ("eq", "ne", "lt", "le", "gt", "ge")),
        *((f"bitwise_{name}", BITS, "Tensor_out", [3, 6, True]) for name in ("and", "or", "xor")),
        *((f"logical_{name}", EVERY, "out", []) for name in ("and", "or", "xor")),
        *((name, EVERY, "out", []) for name in ("maximum", "minimum", "atan2")),
        ("pow", NUMBERS, "Tensor_Tensor_out", []),
        ("floor_divide", NUMBERS, "out", []),
        ("fmod", NUMBERS, "Tensor_out", [3, -2, 2.5]),
        ("remainder", NUMBERS, "Tensor_out", [3, -2, 2.5]),
    ]
    for name, dtypes, overload, scalars in table:
        function = getattr(torch, name)
        zeros = name not in ("floor_divide", "fmod", "remainder")
        if name in ("fmod", "remainder"):
            function = functools.partial(_by_doubles, function)
        yield from pair_cases(f"aten::{name}.{overload}", function, dtypes, zeros=zeros)
        for dtype, scalar in itertools.product(dtypes, scalars):
            if dtype == torch.uint8 and not isinstance(scalar, (bool, float)) and scalar < 0:
                continue
            a = values((2, 5), dtype)
            yield case(f"aten::{name}.Scalar_out", a, scalar, expected=function(a, scalar))
    for name, dtypes in (("add", EVERY), ("sub", NUMBERS)):
        function = getattr(torch, name)
        yield from pair_cases(f"aten::{name}.out", function, dtypes, 1, zeros=True)
        for dtype, scalar in itertools.product(dtypes, numbers):
            if name == "sub" and isinstance(scalar, bool):
                continue
            a = values((2, 5), dtype)
            yield case(f"aten::{name}.Scalar_out", a, scalar, 1, expected=function(a, scalar))
        for dtype, factor in itertools.product(NUMBERS, (2, -3)):
            a, b = values((2, 5), dtype, True), values((5,), dtype, True)
            yield case(f"aten::{name}.out", a, b, factor, expected=function(a, b, alpha=factor))
            yield case(f"aten::{name}.Scalar_out", a, 4, factor, expected=function(a, 4, alpha=factor))
            if name == "sub":
                yield case("aten::rsub.Scalar_out", a, 4, factor, expected=torch.rsub(a, 4, alpha=factor))
        a, b = values((2, 5), torch.float32), values((2, 5), torch.float32)
        yield case(f"aten::{name}.out", a, b, 0.3, expected=function(a, b, alpha=0.3))
    for name in ("bitwise_left_shift", "bitwise_right_shift"):
        function = getattr(torch, name)
        for dtype, other in itertools.product(INTEGERS, INTEGERS):
            a = values((3, 5), dtype, True)
            for b in (torch.randint(0, 8, (3, 5), dtype=other), values((5,), other, True)):
                yield case(f"aten::{name}.Tensor_out", a, b, expected=function(a, b))
        for dtype, bits in itertools.product(INTEGERS, (0, 1, 7, 40, -1)):
            a = values((2, 5), dtype, True)
            yield case(f"aten::{name}.Tensor_Scalar_out", a, bits, expected=function(a, bits))
    for mode in (None, "floor", "trunc"):
        function = functools.partial(_by_doubles, functools.partial(torch.div, rounding_mode=mode))
        yield from pair_cases("aten::div.out_mode", function, NUMBERS, mode, zeros=False)
        for dtype, scalar in itertools.product(NUMBERS, (3, 2.5)):
            a = values((2, 5), dtype, True)
            yield case("aten::div.Scalar_mode_out", a, scalar, mode, expected=function(a, scalar))
    for dtype, scalar in itertools.product(NUMBERS, (0, 1, 2, 3, 0.5, 2.5, -0.5)):
        a = values((2, 5), dtype, isinstance(scalar, int))
        yield case("aten::pow.Tensor_Scalar_out", a, scalar, expected=torch.pow(a, scalar))
        if scalar >= 0:
            yield case("aten::pow.Scalar_out", scalar, a, expected=torch.pow(scalar, a))


def choice_cases() -> Iterator[Case]:
    """Yields elementwise operators of three tensors, or with a mask."""
    shapes: list[tuple[tuple[int, ...], ...]] = [((shape), (shape), (shape)) for shape in SHAPES]
    shapes += [((2, 1), (3,), ()), ((3,), (2, 3), (2, 3)), ((), (4, 1), (5,)), ((17, 19), (17, 1), (19,))]
    for first, second, third in shapes:
        condition = values(first, torch.bool)
        for dtype, other in [
            *((dtype, dtype) for dtype in EVERY),
            (torch.float32, torch.int8),
            (torch.int8, torch.bool),
        ]:
            a, b = values(second, dtype, True), values(third, other, True)
            yield case("aten::where.self_out", condition, a, b, expected=torch.where(condition, a, b))
            if dtype != torch.bool:
                low, high = values(first, dtype), values(third, other)
                if other == torch.bool:
                    continue
                yield case("aten::clamp.Tensor_out", a, low, high, expected=torch.clamp(a, low, high))
                yield case("aten::clamp.Tensor_out", a, None, high, expected=torch.clamp(a, None, high))
                yield case("aten::clamp.Tensor_out", a, low, None, expected=torch.clamp(a, low))
            if torch.broadcast_shapes(first, second) == second:
                expected = torch.masked_fill(a, condition, 3)
                yield case("aten::masked_fill.Scalar_out", a, condition, 3, expected=expected)
    condition, x = values((2, 1), torch.bool), values((3,), torch.float32)
    dynamic = Out(torch.float32, (4, 4), is_dynamic=True)
    yield Case("aten::where.self_out", [condition, x, x, dynamic], [torch.where(condition, x, x)])
    image, mask = channels_last(values((2, 3, 4, 5), torch.float32)), values((2, 3, 4, 5), torch.bool)
    yield case("aten::where.self_out", mask, image, image, expected=torch.where(mask, image, image))
    yield case("aten::masked_fill.Scalar_out", image, mask, 1.5, expected=torch.masked_fill(image, mask, 1.5))
