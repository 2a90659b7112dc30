"""Generates calls of operators, with the results of eager PyTorch, beside those of //conformance:op_db."""

import random
from collections.abc import Iterator

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.cases_convolution import (
    convolution_cases,
    matmul_cases,
    pool_cases,
    refused_convolution_cases,
    resampling_cases,
)
from kernels.tests.cases_creation import creation_cases, refused_creation_cases
from kernels.tests.cases_elementwise import activation_cases, binary_cases, choice_cases, unary_cases
from kernels.tests.cases_indexing import indexing_cases, refused_indexing_cases
from kernels.tests.cases_norms import distance_cases, mixed_norm_cases, refused_norm_cases, softmax_cases
from kernels.tests.cases_padding import padding_cases, refused_padding_cases
from kernels.tests.cases_quantized import quantized_cases, refused_quantized_cases
from kernels.tests.cases_recurrent import recurrent_cases, refused_recurrent_cases
from kernels.tests.cases_reductions import reduction_cases, refused_reduction_cases
from kernels.tests.cases_spectrum import refused_spectrum_cases, spectrum_cases
from kernels.tests.cases_symbols import refused_symbol_cases, symbol_cases
from kernels.tests.cases_views import refused_view_cases, view_cases


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
    # More than 2^32 results, which on an emulated core are more than the address space.
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


def supported_cases() -> list[Case]:
    """Returns all cases that a kernel has to compute."""
    groups = [
        unary_cases(),
        activation_cases(),
        binary_cases(),
        choice_cases(),
        softmax_cases(),
        mixed_norm_cases(),
        distance_cases(),
        matmul_cases(),
        convolution_cases(200),
        pool_cases(),
        resampling_cases(),
        recurrent_cases(),
        spectrum_cases(),
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
