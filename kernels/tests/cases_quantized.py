"""Cases of operators on quantized tensors, against their definitions in Python, beside those of //conformance:op_db."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
import torch.ao.quantization.fx._decomposed  # noqa: F401  registers the other operators
from torch import Tensor

from kernels.tests.case_file import CODES, Case, Out
from kernels.tests.case_values import case

Q = torch.ops.quantized_decomposed
RANGES = {
    torch.int8: (-128, 127),
    torch.uint8: (0, 255),
    torch.int16: (-32768, 32767),
    torch.int32: (-(2**31), 2**31 - 1),
}
REALS = [torch.float32, torch.float16, torch.bfloat16]


def reals(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Returns numbers, some of which are halfway between quantized values, and some beyond all of them."""
    x = torch.randint(-80, 80, shape) / 16
    return torch.where(torch.rand(shape) < 0.1, x * 1000, x).to(dtype)


def quantized(shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    """Returns values from the whole range of a dtype."""
    low, high = RANGES[dtype]
    return torch.randint(low, high + 1, shape, dtype=torch.int64).to(dtype)


def quantized_cases() -> Iterator[Case]:
    """Yields all bounds, scales and zero points of whole tensors, and groups of weights."""
    quantize, dequantize = (f"quantized_decomposed::{name}quantize_per_tensor.out" for name in ("", "de"))
    for dtype, scale, zero_point in itertools.product(RANGES, (0.125, 0.0371, 3), (0, 5, 100)):
        code, (low, high) = CODES[dtype], RANGES[dtype]
        for bounds, real in itertools.product(((low, high), (max(low, -100), 100)), REALS):
            x = reals((3, 5), real)
            expected = Q.quantize_per_tensor(x, scale, zero_point, *bounds, dtype)
            yield case(quantize, x, scale, zero_point, *bounds, code, expected=expected)
        q = quantized((3, 5), dtype)
        expected = Q.dequantize_per_tensor(q, scale, zero_point, low, high, dtype)
        yield case(dequantize, q, scale, zero_point, low, high, code, None, expected=expected)
    special = torch.tensor([float("inf"), -float("inf"), 3e38, -3e38])
    for dtype, (low, high) in RANGES.items():
        # Eager mode wraps numbers beyond an int32's largest float.
        expected = torch.tensor([high, low, high, low]).to(dtype)
        yield case(quantize, special, 0.5, 0, low, high, CODES[dtype], expected=expected)
    for groups, has_points in itertools.product((1, 2), (False, True)):
        x, weight, scales = torch.randn(3, 8), quantized((8, 4), torch.int8), torch.rand(8, groups)
        points = torch.randint(-3, 4, (8, groups)).float() if has_points else None
        expected = x @ _grouped(weight, scales, points)
        yield case("quantized_decomposed::mixed_mm.out", x, weight, scales, points, expected=expected)


def _grouped(weight: Tensor, scales: Tensor, zero_points: Tensor | None) -> Tensor:
    """Dequantizes weights whose rows divide into groups with a scale each."""
    parts = weight.float().reshape(scales.numel(), -1)
    offsets = 0 if zero_points is None else zero_points.reshape(-1, 1)
    return ((parts - offsets) * scales.reshape(-1, 1)).reshape(weight.shape)


def refused_quantized_cases() -> Iterator[Case]:
    """Ranges, parameters and weights that do not fit."""
    x, q = reals((2, 3)), quantized((2, 3), torch.int8)
    out, real = Out(torch.int8, (2, 3)), Out(torch.float32, (2, 3))
    scales, points = torch.ones(3), torch.zeros(3, dtype=torch.int64)
    table, index = quantized((4, 2), torch.uint8), torch.tensor([0, 1])
    found = Out(torch.float32, (2, 4))
    wrong = torch.tensor([0, 4])
    refused: list[tuple[str, str, list[Any]]] = [
        ("InvalidArgument", "quantize_per_tensor.out", [x, 1.0, 0, -129, 127, 1, out]),
        ("InvalidArgument", "quantize_per_tensor.out", [x, 1.0, 0, 5, 4, 1, out]),
        ("InvalidType", "quantize_per_tensor.out", [x, 1.0, 0, 0, 255, 0, out]),
        ("NotSupported", "quantize_per_tensor.out", [x, 1.0, 0, 0, 1, 6, real]),
        ("NotSupported", "quantize_per_tensor.out", [q, 1.0, 0, -128, 127, 1, out]),
        ("InvalidArgument", "quantize_per_tensor.Tensor_out", [x, scales, points, -128, 127, 1, out]),
        ("InvalidArgument", "quantize_per_channel.out", [x, scales, points, 0, -128, 127, 1, out]),
        ("InvalidArgument", "quantize_per_channel.out", [x, scales, points, 2, -128, 127, 1, out]),
        ("InvalidType", "quantize_per_channel.out", [x, scales.bool(), points, 1, -128, 127, 1, out]),
        ("InvalidArgument", "quantize_per_token.out", [x, scales, points, -128, 127, 1, out]),
        ("InvalidType", "dequantize_per_tensor.out", [q, 1.0, 0, -128, 127, 1, 5, real]),
        ("InvalidType", "dequantize_per_tensor.out", [q, 1.0, 0, 0, 255, 0, None, real]),
        ("InvalidArgument", "embedding_4bit.out", [table, torch.ones(4), None, -8, 7, wrong, found]),
        ("InvalidArgument", "embedding_4bit.out", [table, torch.ones(4), None, -128, 127, index, found]),
        ("InvalidArgument", "embedding_4bit.out", [table, torch.ones(3), None, -8, 7, index, found]),
        ("InvalidArgument", "embedding_4bit.out", [table, torch.ones(4, 3), None, -8, 7, index, found]),
        ("InvalidArgument", "embedding_4bit.out", [table, torch.ones(4), torch.zeros(3), -8, 7, index, found]),
        ("InvalidType", "embedding_2bit.out", [q, torch.ones(2), None, -2, 1, index, Out(torch.float32, (2, 12))]),
        ("InvalidArgument", "add.out", [q, 1.0, 0, -128, 127, q[:1], 1.0, 0, -128, 127, 1.0, 0, -128, 127, out]),
        ("InvalidArgument", "mixed_mm.out", [x, q, torch.ones(2), None, real]),
        ("InvalidArgument", "mixed_linear.out", [x, q, scales, None, None, Out(torch.float32, (2, 2))]),
        ("InvalidType", "mixed_linear.out", [x, x, torch.ones(2), None, None, Out(torch.float32, (2, 2))]),
    ]
    for error, name, arguments in refused:
        yield Case(f"quantized_decomposed::{name}", arguments, error=error)
