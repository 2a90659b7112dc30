"""Cases of reductions and cumulative sums."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import CODES, Case, Out
from kernels.tests.case_values import EVERY, FLOATINGS, case, channels_last, out_like, values, whole_values

SHAPES: list[tuple[int, ...]] = [(2, 3, 4), (5,), (1, 1), (), (2, 0, 3), (2, 3, 4, 5), (2, 70)]


def dims_of(shape: tuple[int, ...]) -> list[tuple[int, ...] | None]:
    """Lists of dims to reduce; none and empty ones stand for all."""
    dims: list[tuple[int, ...] | None] = [None, ()]
    if shape:
        dims += [(0,), (-1,)]
    if len(shape) > 2:
        dims += [(0, 2), (1,), (2, 1)]
    return dims


def inputs(dtypes: list[torch.dtype], special: bool = False) -> Iterator[Tensor]:
    """Tensors of all shapes, and one with its channels last."""
    for dtype in dtypes:
        for shape in SHAPES:
            yield whole_values(shape, dtype)
            if special:
                yield values(shape, dtype, True)
        yield channels_last(whole_values((2, 3, 4, 5), dtype))


def multi_case(operator: str, *arguments: Any, expected: tuple[Tensor, ...]) -> Case:
    """Returns a call with several outputs."""
    results = [part.contiguous() for part in expected]
    return Case(operator, [*arguments, *(out_like(part) for part in results)], [*results])


def over_dims(x: Tensor, dim: tuple[int, ...] | None) -> tuple[int, ...]:
    """Returns the dims that an argument means."""
    return dim or tuple(range(x.dim()))


def reduction_cases() -> Iterator[Case]:
    """Yields all reductions, over one, several and all dims."""
    yield from _sums()
    yield from _extremes()
    yield from _truths()
    yield from _variances()
    yield from _cumulative_sums()
    x = values((3, 4), torch.float32)
    bound = Out(torch.float32, (5, 6), is_dynamic=True)
    yield Case("aten::sum.IntList_out", [x, (1,), True, None, bound], [x.sum(1, True)])
    yield Case("aten::amax.out", [x, (1,), True, bound], [x.amax(1, True)])
    yield Case("aten::var.correction_out", [x, (1,), 0, True, bound], [x.var(1, correction=0, keepdim=True)])
    yield Case("aten::cumsum.out", [x, 1, None, bound], [x.cumsum(1)])
    indices = Out(torch.int64, (5, 6), is_dynamic=True)
    largest = x.max(1, True)
    yield Case("aten::max.dim_max", [x, 1, True, bound, indices], [largest.values, largest.indices])
    image = channels_last(values((2, 3, 4, 5), torch.float32))
    yield case("aten::amax.out", image, (1,), True, expected=channels_last(image.amax(1, True)))


def _sums() -> Iterator[Case]:
    for x in inputs(EVERY):
        for dim, keepdim in itertools.product(dims_of(tuple(x.shape)), (False, True)):
            axes = over_dims(x, dim)
            mean = x.to(torch.float32).mean(axes, keepdim)
            yield case("aten::mean.out", x, dim, keepdim, 6, expected=mean.contiguous())
            yield case("aten::sum.IntList_out", x, dim, keepdim, None, expected=x.sum(axes, keepdim).contiguous())
        yield case("aten::mean.dtype_out", x, 6, expected=x.mean(dtype=torch.float32))
        yield case("aten::prod.out", x, None, expected=x.prod())
        for dim in range(-x.dim(), x.dim()):
            yield case(
                "aten::prod.int_out", x, dim, dim % 2 == 0, None, expected=x.prod(dim, dim % 2 == 0).contiguous()
            )
    for source, target in itertools.product(EVERY, EVERY):
        x = values((3, 5), source)
        if source.is_floating_point:
            x = x.round()
        if source.is_floating_point and target == torch.uint8:
            x = x.abs()
        code = CODES[target]
        yield case("aten::sum.IntList_out", x, (1,), False, code, expected=x.sum(1, dtype=target))
        yield case("aten::prod.int_out", x, 1, False, code, expected=x.prod(1, dtype=target))
        if target != torch.bool:
            yield case("aten::cumsum.out", x, 1, code, expected=x.cumsum(1, dtype=target))


def _extremes() -> Iterator[Case]:
    for x in inputs(EVERY, special=True):
        if x.numel() == 0:
            continue
        for name in ("amax", "amin"):
            function = getattr(torch, name)
            for dim, keepdim in itertools.product(dims_of(tuple(x.shape))[1:], (False, True)):
                expected = function(x, over_dims(x, dim), keepdim).contiguous()
                yield case(f"aten::{name}.out", x, dim, keepdim, expected=expected)
        for name in ("max", "min"):
            yield case(f"aten::{name}.unary_out", x, expected=getattr(torch, name)(x))
            for dim, keepdim in itertools.product(range(-max(x.dim(), 1), max(x.dim(), 1)), (False, True)):
                extreme = getattr(torch, name)(x, dim, keepdim)
                indices = _first_indices(x, extreme.values, dim, keepdim)
                operator = f"aten::{name}.dim_{name}"
                yield multi_case(operator, x, dim, keepdim, expected=(extreme.values, indices))
                yield case(f"aten::arg{name}.out", x, dim, keepdim, expected=indices.contiguous())
            flat = x.flatten()
            extreme = getattr(torch, name)(flat, 0)
            yield case(f"aten::arg{name}.out", x, None, False, expected=_first_indices(flat, extreme.values, 0, False))
    empty = torch.zeros(2, 0, 3)
    yield case("aten::amax.out", empty, (0,), False, expected=empty.amax(0))
    yield case("aten::argmax.out", empty, 2, False, expected=empty.argmax(2))


def _first_indices(x: Tensor, extreme: Tensor, dim: int, keepdim: bool) -> Tensor:
    """Returns the indices of first occurrences, which eager mode doesn't specify."""
    if x.dim() == 0:
        return torch.zeros((), dtype=torch.int64)
    value = extreme if keepdim else extreme.unsqueeze(dim)
    is_there = (x == value) | (x.isnan() & value.isnan()) if x.is_floating_point() else x == value
    return is_there.to(torch.uint8).argmax(dim, keepdim)


def _truths() -> Iterator[Case]:
    for x in inputs(EVERY):
        sparse = x * (torch.rand(x.shape) > 0.6).to(x.dtype)
        for dim, keepdim in itertools.product(dims_of(tuple(x.shape)), (False, True)):
            expected = torch.any(sparse, over_dims(x, dim), keepdim).contiguous() if x.dim() else torch.any(sparse)
            yield case("aten::any.dims_out", sparse, dim, keepdim, expected=expected)
        for dim in range(-x.dim(), x.dim()):
            yield case("aten::any.out", sparse, dim, False, expected=torch.any(sparse, dim).contiguous())
        yield case("aten::any.all_out", sparse, expected=torch.any(sparse))
    nan = torch.tensor([0.0, float("nan")])
    yield case("aten::any.all_out", nan, expected=torch.any(nan))


def _variances() -> Iterator[Case]:
    for x in [*inputs(FLOATINGS), values((40, 30), torch.float32) + 1000]:
        for dim, keepdim in itertools.product(dims_of(tuple(x.shape)), (False, True)):
            axes = over_dims(x, dim)
            for correction in (None, 0, 0.5, 100):
                factor: dict[str, Any] = {} if correction is None else {"correction": correction}
                variance = torch.var(x.double(), axes, keepdim=keepdim, **factor).to(x.dtype).contiguous()
                yield case("aten::var.correction_out", x, dim, correction, keepdim, expected=variance)
                both = (variance, x.mean(axes, keepdim))
                yield multi_case("aten::var_mean.correction_out", x, dim, correction, keepdim, expected=both)
            for unbiased in (False, True):
                expected = torch.var(x, axes, unbiased, keepdim).contiguous()
                yield case("aten::var.out", x, dim, unbiased, keepdim, expected=expected)


def _cumulative_sums() -> Iterator[Case]:
    for x in inputs(EVERY):
        for dim in range(-max(x.dim(), 1), max(x.dim(), 1)):
            yield case("aten::cumsum.out", x, dim, None, expected=x.cumsum(dim).contiguous())
    image = channels_last(values((2, 3, 4, 5), torch.float32))
    yield case("aten::cumsum.out", image, 1, None, expected=channels_last(image.cumsum(1)))


def refused_reduction_cases() -> Iterator[Case]:
    """Reductions over missing dims, or to an output that cannot hold the result."""
    x, empty = torch.randn(2, 3), torch.zeros(2, 0, 3)
    row, scalar = Out(torch.float32, (3,)), Out(torch.float32, ())
    indices = Out(torch.int64, (3,))
    refused: list[tuple[str, str, list[Any]]] = [
        ("InvalidArgument", "aten::mean.out", [x, (0, 0), False, None, row]),
        ("InvalidArgument", "aten::sum.IntList_out", [x, (2,), False, None, row]),
        ("InvalidArgument", "aten::sum.IntList_out", [x, (1,), False, None, row]),
        ("InvalidArgument", "aten::amax.out", [empty, (1,), False, Out(torch.float32, (2, 3))]),
        ("InvalidArgument", "aten::max.unary_out", [empty, scalar]),
        ("InvalidArgument", "aten::argmax.out", [empty, None, False, Out(torch.int64, ())]),
        ("InvalidArgument", "aten::max.dim_max", [x, 0, False, row, Out(torch.int64, (2,))]),
        ("InvalidType", "aten::max.dim_max", [x, 0, False, row, row]),
        ("InvalidType", "aten::argmax.out", [x, 0, False, row]),
        ("InvalidType", "aten::amax.out", [x, (0,), False, indices]),
        ("InvalidType", "aten::any.out", [x, 0, False, row]),
        ("InvalidArgument", "aten::cumsum.out", [x, 2, None, Out(torch.float32, (2, 3))]),
        ("NotSupported", "aten::mean.out", [x.int(), (0,), False, None, Out(torch.int32, (3,))]),
        ("NotSupported", "aten::var.out", [x.int(), (0,), True, False, Out(torch.int32, (3,))]),
    ]
    for error, operator, arguments in refused:
        yield Case(operator, arguments, error=error)
