"""Cases of the elementwise operators, beside those of //conformance:op_db."""

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from kernels.tests.case_file import Case
from kernels.tests.case_values import BITS, EVERY, FLOATINGS, INTEGERS, NUMBERS, case, channels_last, values


def unary_cases() -> Iterator[Case]:
    """Yields elementwise operators of one tensor, of the extremes of every dtype, NaN and infinities."""
    table: list[tuple[str, list[torch.dtype]]] = [
        ("abs ceil floor neg relu round trunc", NUMBERS),
        ("sign isnan isinf logical_not", EVERY),
        ("acos acosh asin asinh atan atanh cos cosh erf exp expm1 log log10 log1p log2 reciprocal rsqrt", EVERY),
        ("sigmoid sin sinh sqrt tan tanh", EVERY),
        ("hardsigmoid hardswish silu", FLOATINGS),
        ("bitwise_not", BITS),
    ]
    for names, dtypes in table:
        for name, dtype in itertools.product(names.split(), dtypes):
            function = getattr(functional, name, None) or getattr(torch, name)
            if name in ("cosh", "sinh"):
                function = functools.partial(_by_doubles, function)
            x = values((33,), dtype, True)
            yield case(f"aten::{name}.out", x, expected=function(x))


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


def activation_cases() -> Iterator[Case]:
    """Yields elementwise operators of one tensor with parameters, of the same numbers."""
    aten = torch.ops.aten
    signed = [dtype for dtype in NUMBERS if dtype != torch.uint8]
    table: list[tuple[Any, list[dict[str, Any]], list[torch.dtype]]] = [
        (aten.gelu, [{"approximate": "none"}, {"approximate": "tanh"}], FLOATINGS),
        (aten.leaky_relu, [{"negative_slope": 0.01}, {"negative_slope": 2}], FLOATINGS),
        (aten.elu, [{"alpha": 0.5, "scale": 2.0, "input_scale": 3.0}], FLOATINGS),
        (aten.softplus, [{"beta": 1, "threshold": 20}, {"beta": 2.0, "threshold": 0.5}], FLOATINGS),
        (aten.mish, [{}], FLOATINGS),
        (aten.threshold, [{"threshold": 1, "value": 3}], NUMBERS),
        (aten.hardshrink, [{"lambd": 0.75}], FLOATINGS),
        (aten.softshrink, [{"lambd": 0.75}], FLOATINGS),
        (aten.logit, [{"eps": None}, {"eps": 0.1}], EVERY),
        (aten.hardtanh, [{"min_val": -1.0, "max_val": 1.0}, {"min_val": 0, "max_val": 6}], signed),
        (aten.clamp, [{"min": low, "max": high} for low, high in _BOUNDS], NUMBERS),
    ]
    for function, options, dtypes in table:
        exact = function in (aten.gelu, aten.softplus, aten.mish, aten.logit)
        for given, dtype in itertools.product(options, dtypes):
            compute = functools.partial(function, **given)
            x = values((33,), dtype, True)
            expected = _by_doubles(compute, x) if exact else compute(x)
            yield case(f"aten::{function.__name__}.out", x, *given.values(), expected=expected)


_BOUNDS = [(1, 3), (None, 2), (0.5, None), (2, 2.5), (3, 1)]


def pair_cases(
    operator: str, function: Callable[[Any, Any], Tensor], dtypes: list[torch.dtype], *parameters: Any, zeros: bool
) -> Iterator[Case]:
    """Yields an elementwise operator of two tensors of any two dtypes, and of the extremes of each.

    Args:
      zeros: whether the second tensor may have integer zeros.
    """

    def second(shape: tuple[int, ...], dtype: torch.dtype, special: bool = False) -> Tensor:
        tensor = values(shape, dtype, special)
        return tensor if zeros or dtype.is_floating_point else tensor.masked_fill(tensor == 0, 3)

    for dtype in dtypes:
        a, b = values((33,), dtype, True), second((33,), dtype, True)
        yield case(operator, a, b, *parameters, expected=function(a, b))
    for dtype, other in itertools.product(dtypes, dtypes):
        for left, right in [((3, 5), (3, 5)), ((2, 3), ()), ((), (4,)), ((), ()), ((20, 1), (3,)), ((17, 1), (17, 19))]:
            a, b = values(left, dtype), second(right, other)
            yield case(operator, a, b, *parameters, expected=function(a, b))
    a, b = channels_last(values((2, 3, 4, 5), dtypes[0])), second((2, 3, 4, 5), dtypes[0])
    for x, y in [(a, channels_last(b)), (a, b), (b, channels_last(b)), (a, second((3, 1, 1), dtypes[0]))]:
        yield case(operator, x, y, *parameters, expected=function(x, y))


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
                expected = _by_doubles(functools.partial(torch.rsub, other=4, alpha=factor), a)
                yield case("aten::rsub.Scalar_out", a, 4, factor, expected=expected)
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
    shapes: list[tuple[tuple[int, ...], ...]] = [((33,), (33,), (33,)), ((2, 1), (3,), ()), ((3,), (2, 3), (2, 3))]
    shapes += [((), (4, 1), (5,)), ((17, 19), (17, 1), (19,))]
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
    image, mask = channels_last(values((2, 3, 4, 5), torch.float32)), values((2, 3, 4, 5), torch.bool)
    yield case("aten::where.self_out", mask, image, image, expected=torch.where(mask, image, image))
    yield case("aten::masked_fill.Scalar_out", image, mask, 1.5, expected=torch.masked_fill(image, mask, 1.5))
