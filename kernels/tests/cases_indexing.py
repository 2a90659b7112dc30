"""Cases of operators that choose elements by indices, masks and order, beside those of //conformance:op_db."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out, dim_order
from kernels.tests.case_values import EVERY, case, channels_last, out_like, values

SHAPE = (3, 4, 5)
LONG, INT = torch.int64, torch.int32


def indices(shape: tuple[int, ...], size: int, dtype: torch.dtype = LONG, low: int = 0) -> Tensor:
    """Returns random indices of a dim of a size."""
    return torch.randint(low, size, shape, dtype=dtype)


def indexing_cases() -> Iterator[Case]:
    """Yields indices and masks in all kinds of brackets, for elements of every size, and orders of equal elements."""
    for dtype in (torch.float32, torch.int8, torch.int16, torch.int64, torch.bool):
        for x in (values(SHAPE, dtype), channels_last(values((2, 3, 4, 5), dtype))):
            yield from _brackets(x)
    for dtype in EVERY:
        if dtype != torch.bool:
            yield from _topk(dtype)


def _brackets(x: Tensor) -> Iterator[Case]:
    shape = tuple(x.shape)
    a, b = shape[0], shape[1]
    mask, first = torch.rand(shape[1:3]) > 0.5, torch.rand(a) > 0.4
    chosen: list[list[Tensor | None]] = [
        [indices((4,), a, low=-a)],
        [None, indices((2, 3), b)],
        [indices((4,), a, INT), indices((4,), b, INT)],
        [indices((2, 1), a), indices((3,), b)],
        [indices((2,), a), None, indices((2,), shape[2])],
        [None, indices((2,), b), indices((1,), shape[2])],
        [torch.tensor(-1)],
        [torch.tensor(0), None, torch.tensor(1)],
        [indices((0,), a)],
        [first],
        [None, mask],
        [first, torch.tensor([1])],
        [torch.zeros(a, dtype=torch.bool)],
        [indices((2, 1), a), torch.rand(b) > 0.3],
        [torch.rand(shape) > 0.5],
        [indices((2,), a), indices((2,), b), indices((2,), shape[2])],
        [first.to(torch.uint8), None],
    ]
    for index in chosen:
        # Eager takes masks of uint8 for indices, too, but says that it should not.
        masks = [part.bool() if part is not None and part.dtype == torch.uint8 else part for part in index]
        brackets = tuple(slice(None) if part is None else part for part in masks)
        expected = x[brackets].contiguous()
        yield case("aten::index.Tensor_out", x, index, expected=expected)
        for new in (values(tuple(expected.shape), x.dtype), values((1,), x.dtype), values((), x.dtype)):
            # Each element is written once, because eager mode doesn't specify which of several values stays.
            places = torch.arange(x.numel()).reshape(shape)
            written = places[brackets]
            if new.numel() > 1 and written.unique().numel() < written.numel():
                continue
            put = torch.ops.aten.index_put(x, masks, new, False)
            yield case("aten::index_put.out", x, index, new, False, expected=put)
            target = Out(x.dtype, shape, dim_order(x), initial=x)
            yield Case("aten::index_put_", [target, index, new, False], [put])


def _topk(dtype: torch.dtype) -> Iterator[Case]:
    # Distinct values: eager leaves open which of equal ones come first.
    for shape, dim in [((11,), 0), (SHAPE, 0), (SHAPE, 1), (SHAPE, -1), ((), 0)]:
        x = torch.argsort(torch.rand(shape), dim if shape else 0).to(dtype) if shape else values((), dtype)
        size = shape[dim] if shape else 1
        for k, largest in itertools.product({0, 1, min(3, size), size}, (True, False)):
            top = torch.topk(x, k, dim, largest, sorted=True)
            outs = [out_like(top.values), out_like(top.indices)]
            yield Case("aten::topk.values", [x, k, dim, largest, True, *outs], [top.values, top.indices])
    if dtype.is_floating_point:
        x = torch.tensor([1.0, float("nan"), float("inf"), -float("inf"), 2.0], dtype=dtype)
        for largest in (True, False):
            top = torch.topk(x, 5, 0, largest)
            outs = [out_like(top.values), out_like(top.indices)]
            yield Case("aten::topk.values", [x, 5, 0, largest, True, *outs], [top.values, top.indices])
    # Equal elements stay in their order: the export sorts with topk, stable or not.
    x = (torch.rand(17) * 4).floor().to(dtype)
    for largest in (True, False):
        ordered, indices = torch.sort(x, dim=0, descending=largest, stable=True)
        arguments = [x, 17, 0, largest, True, out_like(ordered), out_like(indices)]
        yield Case("aten::topk.values", arguments, [ordered, indices])


def refused_indexing_cases() -> Iterator[Case]:
    """Indices out of range, and shapes and dtypes that do not fit."""
    x = torch.randn(2, 3)
    out, line = Out(torch.float32, (2, 3)), Out(torch.float32, (2,))
    one, flat, wide = torch.tensor([[1]]), torch.tensor([0, 1]), torch.zeros(1, 4, dtype=LONG)
    refused: list[tuple[str, str, list[Any]]] = []
    for wrong in (3, -1, 2**40, -(2**63)):
        bad = torch.tensor([0, wrong])
        rows = torch.tensor([[0, 1, 0], [0, wrong, 0]])
        refused += [
            ("InvalidArgument", "aten::index_select.out", [x, 1, bad, Out(torch.float32, (2, 2))]),
            ("InvalidArgument", "aten::embedding.out", [x, bad, -1, False, False, out]),
            ("InvalidArgument", "aten::gather.out", [x, 0, rows, False, out]),
            ("InvalidArgument", "aten::scatter.src_out", [x, 0, rows, x, out]),
            ("InvalidArgument", "aten::scatter.value_out", [x, 1, rows, 1, out]),
            ("InvalidArgument", "aten::scatter_add.out", [x, 0, rows, x, out]),
        ]
        if wrong != -1:
            refused += [
                ("InvalidArgument", "aten::index.Tensor_out", [x, [bad], out]),
                ("InvalidArgument", "aten::index_put.out", [x, [None, bad], torch.ones(1), False, out]),
                ("InvalidArgument", "aten::index_put.out", [x, [None, bad], torch.ones(1), True, out]),
            ]
    refused += [
        ("InvalidArgument", "aten::index_select.out", [x, 0, one, out]),
        ("InvalidType", "aten::index_select.out", [x, 0, torch.tensor([0.0, 1.0]), out]),
        ("InvalidArgument", "aten::embedding.out", [torch.randn(3), flat, -1, False, False, line]),
        ("InvalidArgument", "aten::gather.out", [x, 0, flat, False, line]),
        ("InvalidArgument", "aten::gather.out", [x, 0, wide, False, Out(torch.float32, (1, 4))]),
        ("InvalidArgument", "aten::scatter.src_out", [x, 0, torch.zeros(2, 3, dtype=LONG), torch.randn(1, 3), out]),
        ("InvalidType", "aten::scatter.src_out", [x, 0, one, x.int(), out]),
        ("InvalidArgument", "aten::index.Tensor_out", [x, [None, None, flat], out]),
        ("InvalidArgument", "aten::index.Tensor_out", [x, [torch.tensor([True, False, True])], out]),
        ("InvalidArgument", "aten::index.Tensor_out", [x, [flat, torch.tensor([0, 1, 2])], line]),
        ("InvalidType", "aten::index.Tensor_out", [x, [torch.tensor([0.5])], out]),
        ("NotSupported", "aten::index.Tensor_out", [x, [torch.tensor(True)], out]),
        ("InvalidArgument", "aten::index_put.out", [x, [flat], torch.randn(4), False, out]),
        ("InvalidType", "aten::index_put.out", [x, [flat], torch.ones(1, dtype=INT), False, out]),
        ("InvalidType", "aten::masked_select.out", [x, x, line]),
        ("InvalidArgument", "aten::masked_select.out", [x, torch.ones(2, 2, dtype=torch.bool), line]),
        ("InvalidArgument", "aten::masked_scatter.out", [x, torch.ones(2, 3, dtype=torch.bool), torch.randn(5), out]),
        ("InvalidType", "aten::nonzero.out", [x, out]),
        ("InvalidArgument", "aten::topk.values", [x, 4, 1, True, True, out, Out(LONG, (2, 3))]),
        ("InvalidArgument", "aten::topk.values", [x, -1, 1, True, True, out, Out(LONG, (2, 3))]),
        ("InvalidArgument", "aten::repeat_interleave.Tensor_out", [torch.tensor([1, -1]), None, Out(LONG, (1,))]),
        ("InvalidArgument", "aten::repeat_interleave.Tensor_out", [torch.tensor([1, 2]), 4, Out(LONG, (4,))]),
        ("InvalidArgument", "aten::repeat_interleave.Tensor_out", [torch.tensor([2**62]), None, Out(LONG, (4,))]),
    ]
    for error, operator, arguments in refused:
        yield Case(operator, arguments, error=error)
