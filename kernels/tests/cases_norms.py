"""Cases of softmax, normalization and distances."""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import FLOATINGS, case, channels_last, out_like, values


def several(operator: str, *arguments: Any, expected: tuple[Tensor, ...]) -> Case:
    """Returns a call with as many outputs as results."""
    return Case(operator, [*arguments, *map(out_like, expected)], list(expected))


def softmax_cases() -> Iterator[Case]:
    """Yields softmax over every dim, and its logarithm."""

    def exact(function: Callable[[Tensor, int], Tensor]) -> Callable[[Tensor, int], Tensor]:
        # Eager mode rounds intermediate results of 16-bit floats.
        return lambda x, dim: function(x.double(), dim).to(x.dtype)

    functions = [("aten::_softmax.out", exact(torch.softmax)), ("aten::_log_softmax.out", exact(torch.log_softmax))]
    shapes = [(), (1,), (2, 2), (10,), (3, 4, 5), (2, 0, 3), (0,), (1, 1000)]
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
    for (operator, function), dtype in itertools.product(functions, FLOATINGS):
        for shape in shapes:
            for dim in range(-max(len(shape), 1), max(len(shape), 1)):
                for scale in (1.0, 50.0):
                    x = (torch.randn(shape) * scale).to(dtype)
                    yield case(operator, x, dim, False, expected=function(x, dim))
        for row in rows:
            x = torch.tensor(row).to(dtype)
            yield case(operator, x, 0, False, expected=function(x, 0))
        x = values((3, 4), dtype)
        out = Out(dtype, (8, 8), is_dynamic=True)
        yield Case(operator, [x, 1, False, out], [function(x, 1)])


def norm_cases() -> Iterator[Case]:
    """Yields layer, group and batch normalization, with and without parameters."""
    for dtype in FLOATINGS:
        for shape, axes in [((3, 7), 1), ((2, 3, 8), 1), ((2, 3, 5), 2), ((4, 33), 1), ((6,), 1), ((0, 4), 1)]:
            x = values(shape, dtype) + 5
            inner = shape[-axes:]
            weight, bias = values(inner, dtype), values(inner, dtype)
            for parameters in [(weight, bias), (weight, None), (None, bias), (None, None)]:
                expected = torch.native_layer_norm(x, inner, *parameters, 1e-5)
                yield several("aten::native_layer_norm.out", x, inner, *parameters, 1e-5, expected=expected)
        for shape, groups in [((2, 6, 3, 3), 3), ((1, 4, 5), 1), ((3, 4, 2), 4), ((2, 8, 4, 4), 2), ((0, 4, 2), 2)]:
            x = values(shape, dtype) + 5
            batch, channels = shape[:2]
            inner_size = x.numel() // max(batch * channels, 1) if batch else 2
            weight, bias = values((channels,), dtype), values((channels,), dtype)
            for parameters in [(weight, bias), (None, None)]:
                numbers = (batch, channels, inner_size, groups, 1e-3)
                expected = torch.native_group_norm(x, *parameters, *numbers)
                yield several("aten::native_group_norm.out", x, *parameters, *numbers, expected=expected)
        yield from batch_norm_cases(dtype)
    x = values((2, 3, 4), torch.float32)
    expected = torch.native_layer_norm(x, (4,), None, None, 1e-5)
    outs = [Out(t.dtype, tuple(size + 1 for size in t.shape), is_dynamic=True) for t in expected]
    yield Case("aten::native_layer_norm.out", [x, (4,), None, None, 1e-5, *outs], list(expected))


def batch_norm_cases(dtype: torch.dtype) -> Iterator[Case]:
    """Yields batch normalization by given statistics and by the batch's own."""
    for shape in [(2, 3, 4, 5), (4, 3), (1, 2, 9), (2, 1, 33)]:
        x = values(shape, dtype) + 2
        channels = (shape[1],)
        weight, bias, mean = (values(channels, dtype) for _ in range(3))
        variance = values(channels, dtype).abs() + 1
        for parameters in [(weight, bias), (None, None)]:
            expected = torch.ops.aten._native_batch_norm_legit_no_training(x, *parameters, mean, variance, 0.1, 1e-5)
            # Nothing is saved; backends differ in the shape of nothing.
            outs = [out_like(expected[0]), Out(dtype, (0,)), Out(dtype, (0,))]
            yield Case(
                "aten::_native_batch_norm_legit_no_training.out",
                [x, *parameters, mean, variance, 0.1, 1e-5, *outs],
                [expected[0], None, None],
            )
            if dtype in (torch.float16, torch.bfloat16):
                continue  # Eager saves float32 there: mixed_norm_cases().
            own = torch.ops.aten._native_batch_norm_legit.no_stats(x, *parameters, True, 0.1, 1e-5)
            yield several("aten::_native_batch_norm_legit.no_stats_out", x, *parameters, True, 0.1, 1e-5, expected=own)
            running = (mean.clone(), variance.clone())
            trained = torch.ops.aten._native_batch_norm_legit(x, *parameters, *running, True, 0.1, 1e-5)
            yield several(
                "aten::_native_batch_norm_legit.out",
                x,
                *parameters,
                mean.clone(),
                variance.clone(),
                True,
                0.1,
                1e-5,
                expected=trained,
            )


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


def channels_last_norm_cases() -> Iterator[Case]:
    """Images with channels-last order in memory."""
    for dtype in FLOATINGS:
        x = channels_last(values((2, 3, 4, 5), dtype))
        for dim, log in itertools.product(range(4), (False, True)):
            function = torch.log_softmax if log else torch.softmax
            expected = function(x.double(), dim).to(dtype)
            operator = "aten::_log_softmax.out" if log else "aten::_softmax.out"
            for order in (channels_last, Tensor.contiguous):
                yield case(operator, x, dim, False, expected=order(expected))
                yield case(operator, x.contiguous(), dim, False, expected=order(expected))
        weight, bias, mean = (values((3,), dtype) for _ in range(3))
        variance = values((3,), dtype).abs() + 1
        arguments = [x, weight, bias, mean, variance, 0.1, 1e-5]
        expected = torch.ops.aten._native_batch_norm_legit_no_training(*arguments)[0]
        empty = [Out(dtype, (0,)), Out(dtype, (0,))]
        name = "aten::_native_batch_norm_legit_no_training.out"
        yield Case(name, [*arguments, out_like(channels_last(expected)), *empty], [expected, None, None])
        yield Case(name, [*arguments, out_like(expected.contiguous()), *empty], error="NotSupported")


def distance_cases() -> Iterator[Case]:
    """Distances between rows, for every kind of norm."""
    shapes = [((3, 4), (5, 4)), ((2, 3, 4), (5, 4)), ((2, 1, 3, 2), (3, 4, 2)), ((1, 3), (1, 3)), ((0, 3), (2, 3))]
    for dtype, p in itertools.product([torch.float32, torch.float64], [0.0, 1.0, 2.0, 3.0, 0.5, float("inf")]):
        for left, right in shapes:
            a, b = values(left, dtype), values(right, dtype)
            a.flatten()[:1].zero_()
            batch = torch.broadcast_shapes(left[:-2], right[:-2])
            expected = torch.ops.aten._cdist_forward(
                a.expand(*batch, *left[-2:]).contiguous(), b.expand(*batch, *right[-2:]).contiguous(), p, 2
            )
            yield case("aten::_cdist_forward.out", a, b, p, None, expected=expected)
        for shape in [(5, 3), (2, 7), (1, 3)]:
            x = values(shape, dtype)
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
    cdist = "aten::_cdist_forward.out"
    square = Out(torch.float32, (2, 2))
    yield Case(cdist, [x, torch.randn(2, 3), 2.0, None, square], error="InvalidArgument")
    yield Case(cdist, [x, x, -1.0, None, square], error="InvalidArgument")
    yield Case(cdist, [x, x, 2.0, None, Out(torch.float32, (2, 3))], error="InvalidArgument")
