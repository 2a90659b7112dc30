"""Cases of every operator, with what eager PyTorch makes of them."""

from __future__ import annotations

import functools
import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from kernels.test.case_file import Case, Out
from kernels.test.case_values import ALL, REALS, case, channels_last, out_like, values
from kernels.test.cases_elementwise import activation_cases, binary_cases, choice_cases, unary_cases
from kernels.test.cases_indexing import indexing_cases, refused_indexing_cases
from kernels.test.cases_padding import padding_cases, refused_padding_cases
from kernels.test.cases_quantized import quantized_cases, refused_quantized_cases
from kernels.test.cases_reductions import reduction_cases, refused_reduction_cases
from kernels.test.cases_symbols import refused_symbol_cases, symbol_cases
from kernels.test.cases_views import refused_view_cases, view_cases


def softmax_cases() -> Iterator[Case]:
    """Softmax over every dim."""
    for shape in [(), (1,), (2, 2), (10,), (3, 4, 5), (2, 0, 3), (0,), (1, 1000)]:
        for dim in range(-max(len(shape), 1), max(len(shape), 1)):
            for scale in (1.0, 50.0):
                x = torch.randn(shape) * scale
                yield case("aten::_softmax.out", x, dim, False, expected=torch.softmax(x, dim))
    inf = float("inf")
    for row in (
        [0.0, -inf, 1.0],
        [-inf, -inf],
        [inf, 0.0],
        [float("nan"), 0.0],
        [3e38, -3e38],
        [0.0, -87.0, -88.0, -200.0],
    ):
        x = torch.tensor(row)
        yield case("aten::_softmax.out", x, 0, False, expected=torch.softmax(x, 0))


def matmul_cases() -> Iterator[Case]:
    """Matrix products and linear layers, around the kernels' block sizes."""
    extents = [(1, 1, 1), (1, 1, 16), (1, 16, 16), (1, 16, 1), (3, 5, 7), (4, 4, 4), (5, 9, 6), (8, 64, 32), (0, 3, 4)]
    extents += [(2, 0, 3), (3, 4, 0), (4, 3, 3), (3, 3, 4), (9, 1, 9)]
    for dtype, (rows, inner, columns) in itertools.product(REALS, extents):
        special = not dtype.is_floating_point
        a, b = values((rows, inner), dtype, special), values((inner, columns), dtype, special)
        yield case("aten::mm.out", a, b, expected=torch.mm(a, b))
        c, d = values((2, rows, inner), dtype, special), values((2, inner, columns), dtype, special)
        yield case("aten::bmm.out", c, d, expected=torch.bmm(c, d))
        bias = values((columns,), dtype)
        yield case("aten::addmm.out", bias, a, b, 1, 1, expected=torch.addmm(bias, a, b))
        yield case("aten::addmm.out", bias, a, b, 2, -3, expected=torch.addmm(bias, a, b, beta=2, alpha=-3))
        full = values((rows, columns), dtype)
        yield case("aten::addmm.out", full, a, b, 0, 1, expected=torch.addmm(full, a, b, beta=0))
        weight = b.t().contiguous()
        yield case("aten::linear.out", a, weight, None, expected=functional.linear(a, weight))
        yield case("aten::linear.out", a, weight, bias, expected=functional.linear(a, weight, bias))
    x, weight = torch.randn(2, 3, 5), torch.randn(4, 5)
    yield case("aten::linear.out", x, weight, None, expected=functional.linear(x, weight))
    yield case("aten::linear.out", x[0, 0], weight, None, expected=functional.linear(x[0, 0], weight))
    nan = torch.full((4,), float("nan"))
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    yield case("aten::addmm.out", nan, a, b, 0, 1, expected=torch.mm(a, b))
    bias = torch.randn(4)
    yield case("aten::addmm.out", bias, a, b, 0.5, 1.5, expected=torch.addmm(bias, a, b, beta=0.5, alpha=1.5))


def convolution_cases(count: int) -> Iterator[Case]:
    """Random 1-d and 2-d convolutions, besides those of the models."""
    fixed: list[tuple[int, ...]] = [
        # channels in, out, groups, height, width, kernel, stride, padding, dilation
        (1, 8, 1, 8, 8, 3, 1, 1, 1),
        (8, 16, 1, 4, 4, 3, 1, 1, 1),
        (16, 16, 1, 7, 7, 1, 1, 0, 1),
        (8, 8, 8, 25, 5, 3, 1, 1, 1),
        (4, 8, 4, 9, 9, 3, 2, 1, 1),
        (3, 5, 1, 11, 6, 3, 2, 2, 2),
        (2, 4, 2, 5, 5, 5, 1, 2, 1),
        (1, 1, 1, 1, 1, 1, 1, 0, 1),
        (1, 6, 1, 3, 3, 3, 1, 0, 1),
        (2, 6, 1, 2, 2, 3, 1, 2, 1),
    ]
    generator = random.Random(5)
    drawn = [
        (
            (groups := generator.choice([1, 1, 1, 2, 3])) * generator.randint(1, 4),
            groups * generator.randint(1, 6),
            groups,
            generator.randint(1, 12),
            generator.randint(1, 12),
            generator.randint(1, 4),
            generator.randint(1, 3),
            generator.randint(0, 3),
            generator.randint(1, 3),
        )
        for _ in range(count)
    ]
    for index, parameters in enumerate([*fixed, *drawn]):
        channels, outputs, groups, height, width, kernel, stride, padding, dilation = parameters
        if min(height, width) + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        # Eager dilates floats only.
        dtype = random.choice(REALS) if index % 5 == 0 and dilation == 1 else torch.float32
        batch = 1 + index % 2
        x = values((batch, channels, height, width), dtype)
        weight = values((outputs, channels // groups, kernel, kernel), dtype)
        bias = values((outputs,), dtype) if index % 3 else None
        lists = ((stride,) * 2, (padding,) * 2, (dilation,) * 2)
        expected = functional.conv2d(x, weight, bias, *lists, groups)
        yield case("aten::convolution.out", x, weight, bias, *lists, False, (0, 0), groups, expected=expected)
        if kernel <= width:
            line, line_weight = x[:, :, 0, :].contiguous(), weight[:, :, 0, :].contiguous()
            one = ((stride,), (padding,), (dilation,))
            expected = (
                functional.conv1d(line, line_weight, bias, stride, padding, dilation, groups)
                if (width + 2 * padding >= dilation * (kernel - 1) + 1)
                else None
            )
            if expected is not None:
                yield case(
                    "aten::convolution.out",
                    line,
                    line_weight,
                    bias,
                    *one,
                    False,
                    (0,),
                    groups,
                    expected=expected,
                )
    x, weight = torch.randn(1, 3, 9, 7), torch.randn(4, 3, 2, 5)
    expected = functional.conv2d(x, weight, None, (2, 1), (0, 2), (3, 1))
    yield case("aten::convolution.out", x, weight, None, (2, 1), (0, 2), (3, 1), False, (0, 0), 1, expected=expected)


def pool_cases() -> Iterator[Case]:
    """Pooling of windows of all kinds."""
    parameters = itertools.product([(2, 2), (3, 2), (1, 3)], [(), (1,), (2, 3)], [0, 1], [1, 2], [False, True])
    for kernel, stride, padding, dilation, ceil_mode in parameters:
        if padding * 2 > min(kernel):
            continue
        for dtype, shape in [(torch.float32, (2, 3, 9, 8)), (torch.float32, (3, 7, 7)), (torch.int8, (1, 2, 6, 9))]:
            x = values(shape, dtype, True)
            out, indices = functional.max_pool2d(
                x, kernel, stride or None, padding, dilation, ceil_mode, return_indices=True
            )
            yield Case(
                "aten::max_pool2d_with_indices.out",
                [x, kernel, stride, (padding,), (dilation,), ceil_mode, out_like(out), out_like(indices)],
                [out, indices],
            )
        if dilation == 1:
            for count_padding, divisor in [(True, None), (False, None), (True, 3)]:
                x = torch.randn(2, 3, 9, 8)
                expected = functional.avg_pool2d(x, kernel, stride or None, padding, ceil_mode, count_padding, divisor)
                yield case(
                    "aten::avg_pool2d.out",
                    x,
                    kernel,
                    stride,
                    (padding,),
                    ceil_mode,
                    count_padding,
                    divisor,
                    expected=expected,
                )
    x = torch.full((1, 1, 4, 4), -float("inf"))
    out, indices = functional.max_pool2d(x, 2, return_indices=True)
    yield Case(
        "aten::max_pool2d_with_indices.out",
        [x, (2, 2), (2, 2), (0, 0), (1, 1), False, out_like(out), out_like(indices)],
        [out, indices],
    )


def copy_cases() -> Iterator[Case]:
    """Copies to another dim order or dtype."""
    for dtype in (torch.float32, torch.int8, torch.int16, torch.int64, torch.bool):
        x = values((2, 3, 4, 5), dtype)
        yield case("aten::clone.out", x, None, expected=x)
        yield case("dim_order_ops::_clone_dim_order.out", x, False, (0, 1, 2, 3), expected=x)
        last = channels_last(x)
        yield case("dim_order_ops::_clone_dim_order.out", x, False, (0, 2, 3, 1), expected=last)
        yield case("dim_order_ops::_to_dim_order_copy.out", last, False, (0, 1, 2, 3), expected=x)
    for source, target in itertools.product(ALL, ALL):
        x = values((2, 3, 2, 3), source)
        if source == torch.float32 and target == torch.uint8:
            x = x.abs()
        yield case("dim_order_ops::_to_dim_order_copy.out", x, False, (0, 1, 2, 3), expected=x.to(target))
        expected = channels_last(x.to(target))
        yield case("dim_order_ops::_to_dim_order_copy.out", x, False, (0, 2, 3, 1), expected=expected)


def fill_cases() -> Iterator[Case]:
    """Operators that write one value."""
    for dtype, value in itertools.product(ALL, (3, 2.5, True, -1)):
        if dtype == torch.uint8 and value == -1:
            continue
        for shape in [(), (2, 3), (0,)]:
            expected = torch.full(shape, value, dtype=dtype)
            yield case("aten::full.out", shape, value, expected=expected)
            x = values(shape, dtype)
            yield case("aten::full_like.out", x, value, None, expected=expected)
            yield case("aten::fill.Scalar_out", x, value, expected=expected)


def refused_cases() -> Iterator[Case]:
    """Calls that no kernel may accept, with the error that says why."""
    x = torch.randn(2, 3)
    image = torch.randn(1, 3, 8, 8)
    weight = torch.randn(4, 3, 3, 3)
    unit = ((1, 1), (0, 0), (1, 1))
    out = Out(torch.float32, (2, 3))
    image_out = Out(torch.float32, (1, 4, 6, 6))
    yield Case("aten::add.out", [x, torch.randn(2, 4), 1, out], error="InvalidArgument")
    yield Case("aten::add.out", [x, x, 1, Out(torch.int32, (2, 3))], error="InvalidType")
    yield Case("aten::add.out", [x, x, 1], error="InvalidProgram")
    yield Case("aten::add.out", [x, 1, 1, out], error="InvalidType")
    yield Case("aten::add.out", [x, x, None, out], error="InvalidType")
    yield Case("aten::relu.out", [x, Out(torch.float32, (2, 4))], error="InvalidArgument")
    yield Case("aten::relu.out", [x.bool(), Out(torch.bool, (2, 3))], error="NotSupported")
    for operator in ("div.out_mode", "fmod.Tensor_out", "floor_divide.out", "fmod.Scalar_out"):
        mode = ("floor",) if operator == "div.out_mode" else ()
        divisor = 0 if "Scalar" in operator else torch.tensor([1, 0, 2])
        arguments = [torch.arange(6).reshape(2, 3), divisor, *mode, Out(torch.int64, (2, 3))]
        yield Case(f"aten::{operator}", arguments, error="InvalidArgument")
    yield Case("aten::div.out_mode", [x, x, "up", out], error="InvalidArgument")
    yield Case("aten::eq.Tensor_out", [x, x, out], error="InvalidType")
    yield Case("aten::where.self_out", [x, x, x, out], error="InvalidType")
    yield Case("aten::masked_fill.Scalar_out", [x, x, 1, out], error="InvalidType")
    yield Case("aten::clamp.Tensor_out", [x, None, None, out], error="InvalidArgument")
    yield Case("aten::gelu.out", [x, "sigmoid", out], error="InvalidArgument")
    negative = [torch.arange(3), -1, Out(torch.int64, (3,))]
    yield Case("aten::pow.Tensor_Scalar_out", negative, error="InvalidArgument")
    yield Case("aten::bitwise_and.Tensor_out", [x, x, out], error="NotSupported")
    yield Case("aten::_softmax.out", [x, 2, False, out], error="InvalidArgument")
    yield Case("aten::_softmax.out", [x, 0, True, out], error="NotSupported")
    yield Case("aten::_softmax.out", [x.int(), 0, False, Out(torch.int32, (2, 3))], error="NotSupported")
    yield Case("aten::linear.out", [x, torch.randn(4, 2), None, Out(torch.float32, (2, 4))], error="InvalidArgument")
    yield Case("aten::linear.out", [x, torch.randn(4, 3).int(), None, Out(torch.float32, (2, 4))], error="InvalidType")
    yield Case("aten::mm.out", [x, x, out], error="InvalidArgument")
    arguments: list[Any] = [image, weight, None, *unit, True, (0, 0), 1, image_out]
    yield Case("aten::convolution.out", arguments, error="NotSupported")
    arguments = [channels_last(image), weight, None, *unit, False, (0, 0), 1, image_out]
    yield Case("aten::convolution.out", arguments, error="NotSupported")
    arguments = [image, weight, None, (0, 1), (0, 0), (1, 1), False, (0, 0), 1, image_out]
    yield Case("aten::convolution.out", arguments, error="InvalidArgument")
    arguments = [image, weight, None, *unit, False, (0, 0), 2, image_out]
    yield Case("aten::convolution.out", arguments, error="InvalidArgument")
    arguments = [image, weight, torch.randn(3), *unit, False, (0, 0), 1, image_out]
    yield Case("aten::convolution.out", arguments, error="InvalidArgument")
    arguments = [image, weight, None, *unit, False, (0, 0), 1, Out(torch.float32, (1, 4, 5, 6))]
    yield Case("aten::convolution.out", arguments, error="InvalidArgument")
    pool = [
        image,
        (2, 2),
        (2, 2),
        (2, 2),
        (1, 1),
        False,
        Out(torch.float32, (1, 3, 6, 6)),
        Out(torch.int64, (1, 3, 6, 6)),
    ]
    yield Case("aten::max_pool2d_with_indices.out", pool, error="InvalidArgument")
    yield from refused_view_cases()
    yield from refused_reduction_cases()
    yield from refused_indexing_cases()
    yield from refused_padding_cases()
    yield from refused_symbol_cases()
    yield from refused_quantized_cases()


@functools.cache
def supported_cases() -> list[Case]:
    """All cases that a kernel has to compute."""
    torch.manual_seed(0)
    random.seed(0)
    groups = [
        unary_cases(),
        activation_cases(),
        binary_cases(),
        choice_cases(),
        softmax_cases(),
        matmul_cases(),
        convolution_cases(400),
        pool_cases(),
        copy_cases(),
        view_cases(),
        reduction_cases(),
        indexing_cases(),
        padding_cases(),
        fill_cases(),
        symbol_cases(),
        quantized_cases(),
    ]
    return list(itertools.chain.from_iterable(groups))


def corrupted_cases(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Calls as a corrupted program may make them: arguments exchanged, dropped, of other types, shapes and values."""
    generator = random.Random(seed)
    tensors = [a for case in cases for a in case.arguments if isinstance(a, Tensor) and a.numel() < 200]

    def replacement(value: Any) -> Any:
        choice = generator.randrange(8)
        if choice < 3 and isinstance(value, Out):
            other = generator.choice(tensors)
            sizes = tuple(other.shape) if choice else value.sizes
            dtype = other.dtype if choice < 2 else value.dtype
            return Out(dtype, sizes, is_dynamic=generator.random() < 0.5)
        if choice < 4 and isinstance(value, Tensor):
            return generator.choice(tensors)
        if choice < 5 and isinstance(value, tuple) and value and isinstance(value[0], int):
            numbers = [generator.choice([-1, 0, 1, 2, 7, 2**31, -(2**63), 2**62]) for _ in value]
            return tuple(numbers[: generator.randrange(len(numbers) + 2)])
        if choice < 6 and isinstance(value, int):
            return generator.choice([-(2**63), -5, -1, 0, 1, 2, 5, 2**31 - 1, 2**32, 2**63 - 1])
        return generator.choice(
            [None, 0, -1, 2**40, 1.5, float("nan"), True, "floor", (), (1, 2), generator.choice(tensors)]
        )

    by_operator: dict[str, list[Case]] = {}
    for valid in cases:
        by_operator.setdefault(valid.operator, []).append(valid)
    operators = list(by_operator.values())
    corrupted = []
    for i in range(count):
        case = generator.choice(operators[i % len(operators)])
        arguments = list(case.arguments)
        for _ in range(generator.choice([1, 1, 2, 3])):
            position = generator.randrange(len(arguments))
            arguments[position] = replacement(arguments[position])
        if generator.random() < 0.05:
            arguments = arguments[: generator.randrange(len(arguments)) + 1]
        corrupted.append(Case(case.operator, arguments, error="any"))
    return corrupted
