"""Cases of reductions, beside those of //conformance:op_db."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import CODES, Case, Out
from kernels.tests.case_values import EVERY, case, channels_last, out_like, values


def reduction_cases() -> Iterator[Case]:
    """Yields reductions of one dtype to another, of large numbers that hardly differ, and extremes among NaN."""
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
    x = values((40, 30), torch.float32) + 1000
    for dim, correction in itertools.product(((0,), (-1,), (0, 1)), (None, 0, 0.5, 100)):
        factor: dict[str, Any] = {} if correction is None else {"correction": correction}
        variance = torch.var(x.double(), dim, **factor).float()
        yield case("aten::var.correction_out", x, dim, correction, False, expected=variance)
    nan = torch.tensor([0.0, float("nan")])
    yield case("aten::any.all_out", nan, expected=torch.any(nan))
    yield from _extremes()


def _extremes() -> Iterator[Case]:
    for dtype in EVERY:
        for x in (values((5,), dtype, True), values((2, 70), dtype, True), channels_last(values((2, 3, 4, 5), dtype))):
            for name in ("max", "min"):
                whole = getattr(torch, f"a{name}")(x, (0, -1), True).contiguous() if x.dim() > 1 else None
                if whole is not None:
                    yield case(f"aten::a{name}.out", x, (0, -1), True, expected=whole)
                yield case(f"aten::{name}.unary_out", x, expected=getattr(torch, name)(x))
                for dim, keepdim in itertools.product(range(-x.dim(), x.dim()), (False, True)):
                    extreme = getattr(torch, name)(x, dim, keepdim)
                    results = [part.contiguous() for part in (extreme.values, _first_indices(x, extreme, dim, keepdim))]
                    outs = map(out_like, results)
                    yield Case(f"aten::{name}.dim_{name}", [x, dim, keepdim, *outs], [*results])
                    yield case(f"aten::arg{name}.out", x, dim, keepdim, expected=results[1])


def _first_indices(x: Tensor, extreme: Any, dim: int, keepdim: bool) -> Tensor:
    """Returns the indices of first occurrences, which eager mode doesn't specify."""
    value = extreme.values if keepdim else extreme.values.unsqueeze(dim)
    is_there = (x == value) | (x.isnan() & value.isnan()) if x.is_floating_point() else x == value
    return is_there.to(torch.uint8).argmax(dim, keepdim)


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
