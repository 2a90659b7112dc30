"""Generates cases of every operator, with the results of eager PyTorch."""

import functools
import itertools
import random
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out, Placed
from kernels.tests.case_values import ALL, case, channels_last, values
from kernels.tests.cases_convolution import (
    convolution_cases,
    gradient_cases,
    matmul_cases,
    pool_cases,
    refused_convolution_cases,
    resampling_cases,
)
from kernels.tests.cases_creation import creation_cases, refused_creation_cases
from kernels.tests.cases_elementwise import activation_cases, binary_cases, choice_cases, unary_cases
from kernels.tests.cases_indexing import indexing_cases, refused_indexing_cases
from kernels.tests.cases_norms import (
    channels_last_norm_cases,
    distance_cases,
    mixed_norm_cases,
    norm_cases,
    refused_norm_cases,
    softmax_cases,
)
from kernels.tests.cases_padding import padding_cases, refused_padding_cases
from kernels.tests.cases_quantized import quantized_cases, refused_quantized_cases
from kernels.tests.cases_recurrent import recurrent_cases, refused_recurrent_cases
from kernels.tests.cases_reductions import reduction_cases, refused_reduction_cases
from kernels.tests.cases_spectrum import refused_spectrum_cases, spectrum_cases
from kernels.tests.cases_symbols import refused_symbol_cases, symbol_cases
from kernels.tests.cases_views import refused_view_cases, view_cases


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


def refused_cases() -> Iterator[Case]:
    """Calls that no kernel may accept, with the error that says why."""
    x = torch.randn(2, 3)
    out = Out(torch.float32, (2, 3))
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
    yield Case("aten::linear.out", [x, torch.randn(4, 2), None, Out(torch.float32, (2, 4))], error="InvalidArgument")
    yield Case("aten::linear.out", [x, torch.randn(4, 3).int(), None, Out(torch.float32, (2, 4))], error="InvalidType")
    # More than 2^32 results, which device.cpp tests where that is the address space.
    rows = torch.empty(65_536, 0)
    yield Case("aten::linear.out", [rows, rows, None, Out(torch.float32, (0,))], error="InvalidArgument")
    yield Case("aten::mm.out", [x, x, out], error="InvalidArgument")
    yield from refused_creation_cases()
    yield from refused_norm_cases()
    yield from refused_view_cases()
    yield from refused_convolution_cases()
    yield from refused_recurrent_cases()
    yield from refused_spectrum_cases()
    yield from refused_reduction_cases()
    yield from refused_indexing_cases()
    yield from refused_padding_cases()
    yield from refused_symbol_cases()
    yield from refused_quantized_cases()


@functools.cache
def supported_cases() -> list[Case]:
    """Returns all cases that a kernel has to compute."""
    groups = [
        unary_cases(),
        activation_cases(),
        binary_cases(),
        choice_cases(),
        softmax_cases(),
        norm_cases(),
        mixed_norm_cases(),
        channels_last_norm_cases(),
        distance_cases(),
        matmul_cases(),
        convolution_cases(400),
        pool_cases(),
        resampling_cases(),
        gradient_cases(),
        recurrent_cases(),
        spectrum_cases(),
        copy_cases(),
        view_cases(),
        reduction_cases(),
        indexing_cases(),
        padding_cases(),
        creation_cases(),
        symbol_cases(),
        quantized_cases(),
    ]
    cases: list[Case] = []
    for group in groups:
        # Each group has the same values whatever is before it.
        torch.manual_seed(0)
        random.seed(0)
        cases += group
    return cases


def corrupted_cases(cases: list[Case], count: int, seed: int) -> list[Case]:
    """Calls as a corrupted program may make them: arguments exchanged, dropped, of other types, shapes and values."""
    generator = random.Random(seed)
    tensors = [a for case in cases for a in case.arguments if isinstance(a, Tensor) and a.numel() < 200]
    floats = [0.0, -1.0, 1e-40, 1e-30, 1e30, float("inf"), float("nan")]

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
        if choice < 5 and isinstance(value, tuple) and value and isinstance(value[0], float):
            return tuple(generator.choice(floats) for _ in value)
        if choice < 5 and isinstance(value, float):
            return generator.choice(floats)
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


def overlapping_cases(cases: list[Case], count: int, seed: int, constants: dict[str, tuple[int, ...]]) -> list[Case]:
    """Generates calls whose tensors a corrupted program has placed over each other.

    Args:
      constants: by operator the positions of arguments that the loader requires to be constants.
    """
    generator = random.Random(seed)
    by_operator: dict[str, list[Case]] = {}
    for valid in cases:
        by_operator.setdefault(valid.operator, []).append(valid)
    operators = list(by_operator.values())

    def placed(value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(placed(item) for item in value)
        return Placed(value, 8 * generator.choice([0, 0, 0, 1, 2, 5])) if isinstance(value, (Tensor, Out)) else value

    overlapping = []
    for i in range(count):
        case = generator.choice(operators[i % len(operators)])
        fixed = constants.get(case.operator, ())
        arguments = [a if position in fixed else placed(a) for position, a in enumerate(case.arguments)]
        overlapping.append(Case(case.operator, arguments, error="any"))
    return overlapping
