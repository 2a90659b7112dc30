"""Cases of softmax, normalization and distances, beside those of //conformance:op_db."""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import FLOATINGS, case, channels_last, out_like, values


def several(operator: str, *arguments: Any, expected: tuple[Tensor, ...]) -> Case:
    """Returns a call with as many outputs as results."""
    return Case(operator, [*arguments, *map(out_like, expected)], list(expected))


def softmax_cases() -> Iterator[Case]:
    """Yields softmax, and its logarithm, of long rows and of numbers that are infinite, NaN or far apart."""
    inf = float("inf")
    rows = [
        [0.0, -inf, 1.0],
        [-inf, -inf],
        [inf, 0.0],
        [float("nan"), 0.0],
        [0.0, float("nan")],
        [3e38, -3e38],
        [0.0, -87.0, -88.0, -200.0],
    ]
    for dtype in FLOATINGS:
        for x in [*(torch.tensor(row).to(dtype) for row in rows), (torch.randn(1000) * 50).to(dtype)]:
            # Eager mode rounds intermediate results of 16-bit floats.
            yield case("aten::_softmax.out", x, 0, False, expected=x.double().softmax(0).to(dtype))
            yield case("aten::_log_softmax.out", x, 0, False, expected=x.double().log_softmax(0).to(dtype))


def mixed_norm_cases() -> Iterator[Case]:
    """Yields 16-bit inputs with float32 weights and statistics; the export writes statistics of the input's dtype."""
    for dtype in (torch.float16, torch.bfloat16):
        x = values((2, 6, 3, 3), dtype) + 2
        weight, bias, mean = (values((6,), torch.float32) for _ in range(3))
        variance = values((6,), torch.float32).abs() + 1
        normalized = torch.native_group_norm(x, weight, bias, 2, 6, 9, 3, 1e-3)
        numbers = (2, 6, 9, 3, 1e-3)
        yield several("aten::native_group_norm.out", x, weight, bias, *numbers, expected=normalized)
        outs = [out_like(normalized[0]), *(Out(dtype, (2, 3)) for _ in range(2))]
        narrow = [normalized[0], *(statistic.to(dtype) for statistic in normalized[1:])]
        yield Case("aten::native_group_norm.out", [x, weight, bias, *numbers, *outs], narrow)
        options = (mean, variance, True, 0.1, 1e-5)
        trained = torch.ops.aten._native_batch_norm_legit(x, weight, bias, mean.clone(), variance.clone(), *options[2:])
        yield several("aten::_native_batch_norm_legit.out", x, weight, bias, *options, expected=trained)
        row = values((4, 33), dtype)
        weight, bias = values((33,), torch.float32), values((33,), torch.float32)
        for parameters in [(weight, bias), (weight, None), (None, bias)]:
            expected = torch.native_layer_norm(row, (33,), *parameters, 1e-5)
            yield several("aten::native_layer_norm.out", row, (33,), *parameters, 1e-5, expected=expected)


def distance_cases() -> Iterator[Case]:
    """Yields distances between rows of several batches, for every kind of norm."""
    for p in (0.0, 1.0, 2.0, 3.0, 0.5, float("inf")):
        a, b = values((2, 1, 3, 2), torch.float32), values((3, 4, 2), torch.float32)
        expected = torch.ops.aten._cdist_forward(
            a.expand(2, 3, 3, 2).contiguous(), b.expand(2, 3, 4, 2).contiguous(), p, 2
        )
        yield case("aten::_cdist_forward.out", a, b, p, None, expected=expected)
        x = values((5, 3), torch.float32)
        yield case("aten::_pdist_forward.out", x, p, expected=torch.ops.aten._pdist_forward(x, p))


def refused_norm_cases() -> Iterator[Case]:
    """Arguments that do not match."""
    x = torch.randn(2, 4)
    outs = [Out(torch.float32, (2, 4)), Out(torch.float32, (2, 1)), Out(torch.float32, (2, 1))]
    layer = "aten::native_layer_norm.out"
    yield Case(layer, [x, (3,), None, None, 1e-5, *outs], error="InvalidArgument")
    yield Case(layer, [x, (), None, None, 1e-5, *outs], error="InvalidArgument")
    yield Case(layer, [x, (4,), torch.randn(3), None, 1e-5, *outs], error="InvalidArgument")
    yield Case(layer, [x, (4,), torch.randn(4).double(), None, 1e-5, *outs], error="InvalidType")
    halves = [x.half(), (4,), torch.ones(4), torch.ones(4).half(), 1e-5, Out(torch.float16, (2, 4)), *outs[1:]]
    yield Case(layer, halves, error="InvalidType")
    doubles = [x.half(), (4,), torch.ones(4).double(), None, 1e-5, Out(torch.float16, (2, 4)), *outs[1:]]
    yield Case(layer, doubles, error="InvalidType")
    small = [outs[0], Out(torch.float32, (1, 1)), outs[2]]
    yield Case(layer, [x, (4,), None, None, 1e-5, *small], error="InvalidArgument")
    group = "aten::native_group_norm.out"
    yield Case(group, [x, None, None, 2, 4, 1, 3, 1e-5, *outs], error="InvalidArgument")
    yield Case(group, [x, None, None, 2, 4, 2, 2, 1e-5, *outs], error="InvalidArgument")
    yield Case(group, [x, None, None, 2**31, 2**31, 1, 1, 1e-5, *outs], error="InvalidArgument")
    none = [outs[0], Out(torch.float32, (0,)), Out(torch.float32, (0,))]
    batch = "aten::_native_batch_norm_legit_no_training.out"
    four = torch.ones(4)
    yield Case(batch, [x, None, None, torch.ones(3), four, 0.1, 1e-5, *none], error="InvalidArgument")
    no_stats = "aten::_native_batch_norm_legit.no_stats_out"
    yield Case(no_stats, [x, None, None, False, 0.1, 1e-5, *none], error="InvalidArgument")
    yield Case("aten::_softmax.out", [x, 2, False, outs[0]], error="InvalidArgument")
    yield Case("aten::_softmax.out", [x, 0, True, outs[0]], error="NotSupported")
    integers = [x.int(), 0, False, Out(torch.int32, (2, 4))]
    yield Case("aten::_softmax.out", integers, error="NotSupported")
    image, three = channels_last(torch.randn(2, 3, 4, 5)), torch.ones(3)
    contiguous = Out(torch.float32, (2, 3, 4, 5))
    yield Case(batch, [image, None, None, three, three, 0.1, 1e-5, contiguous, *none[1:]], error="NotSupported")
    cdist = "aten::_cdist_forward.out"
    square = Out(torch.float32, (2, 2))
    yield Case(cdist, [x, torch.randn(2, 3), 2.0, None, square], error="InvalidArgument")
    yield Case(cdist, [x, x, -1.0, None, square], error="InvalidArgument")
    yield Case(cdist, [x, x, 2.0, None, Out(torch.float32, (2, 3))], error="InvalidArgument")
