"""Cases of operators that create or copy whole tensors, beside those of //conformance:op_db."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import BITS, EVERY, FLOATINGS, case, values


def creation_cases() -> Iterator[Case]:
    """Yields numbers at the limits of dtypes, sequences of them, triangles far outside, and copies to any dtype."""
    inf = float("inf")
    for dtype, value in itertools.product(FLOATINGS, (inf, -inf, float("nan"), 65504.0, 1e-45)):
        yield case("aten::full.out", (2,), value, expected=torch.full((2,), value, dtype=dtype))
    for value in (2**24 + 1, -(2**24) - 3, 2**25 + 6, 2**40 + 2**16, -(2**63), 2**63 - 1):
        yield case("aten::full.out", (2,), value, expected=torch.full((2,), value, dtype=torch.float32))
    yield case("aten::arange.start_out", 2**40, 2**40 + 3, 1, expected=torch.arange(2**40, 2**40 + 3))
    for arguments in [(0, 7, 2), (7, 0, -3), (0.0, 1.0, 0.3), (3, 3, 1)]:
        expected = torch.arange(*arguments)
        out = Out(expected.dtype, (16,), is_dynamic=True)
        yield Case("aten::arange.start_out", [*arguments, out], [expected])
    x = values((2, 5, 3), torch.float32)
    for diagonal in (-9, 2**40):
        clipped = max(min(diagonal, 100), -100)
        yield case("aten::tril.out", x, diagonal, expected=torch.tril(x, clipped))
        yield case("aten::triu.out", x, diagonal, expected=torch.triu(x, clipped))
    for source, target in itertools.product(EVERY, EVERY):
        x = values((2, 5), source)
        if source.is_floating_point and target == torch.uint8:
            x = x.abs()
        yield case("aten::_to_copy.out", x, False, None, expected=x.to(target))
        like, row = values((2, 5), target), x[0].contiguous()
        yield case("aten::copy.out", like, row, False, expected=row.to(target).expand(2, 5).contiguous())
        yield Case("aten::copy_", [Out(target, (2, 5)), row, False], [row.to(target).expand(2, 5)])
        value = x[0, 0].clone()
        yield case("aten::fill.Tensor_out", like, value, expected=value.to(target).expand(2, 5).contiguous())


def refused_creation_cases() -> Iterator[Case]:
    """Yields numbers that a dtype doesn't hold, and shapes and dtypes that don't fit."""
    # Shapes without elements whose strides overflow.
    for size in ((0, 2**31 - 1, 2**31 - 1), (2**31 - 1, 2**31 - 1, 0), (0, 2**15, 2**15)):
        out = Out(torch.float32, (2, 3, 4), is_dynamic=True)
        yield Case("aten::full.out", [size, 1.0, out], error="InvalidArgument")
    beyond: list[tuple[torch.dtype, Any]] = [
        (torch.int8, 300),
        (torch.int8, -129),
        (torch.uint8, 256),
        (torch.int16, 2**15),
        (torch.int32, 2**40),
        (torch.int32, float("nan")),
        (torch.int64, 1e30),
        (torch.float16, 1e10),
        (torch.float32, 1e300),
    ]
    for dtype, value in beyond:
        out = Out(dtype, (2,))
        yield Case("aten::full.out", [(2,), value, out], error="InvalidArgument")
        x = torch.ones(2, dtype=dtype)
        yield Case("aten::masked_fill.Scalar_out", [x, x > 0, value, out], error="InvalidArgument")
        if not (isinstance(value, float) and not dtype.is_floating_point):
            yield Case("aten::clamp.out", [x, None, value, out], error="InvalidArgument")
    x = torch.randn(2, 3)
    out = Out(torch.float32, (2, 3))
    for dtype in BITS:
        yield Case("aten::rand.out", [(2,), Out(dtype, (2,))], error="NotSupported")
        yield Case("aten::randn.out", [(2,), Out(dtype, (2,))], error="NotSupported")
    yield Case("aten::arange.out", [3, Out(torch.bool, (3,))], error="NotSupported")
    yield Case("aten::arange.start_out", [0, 3, 0, Out(torch.int64, (3,), is_dynamic=True)], error="InvalidArgument")
    yield Case(
        "aten::arange.start_out", [0, 2**40, 1, Out(torch.int64, (3,), is_dynamic=True)], error="InvalidArgument"
    )
    yield Case("aten::copy.out", [x, torch.randn(4), False, out], error="InvalidArgument")
    yield Case("aten::fill.Tensor_out", [x, torch.randn(3), out], error="InvalidArgument")
    yield Case("aten::alias_copy.out", [x, Out(torch.int32, (2, 3))], error="InvalidType")
    yield Case("aten::tril.out", [x[0], 0, Out(torch.float32, (3,))], error="InvalidArgument")
    yield Case("aten::glu.out", [x, 1, Out(torch.float32, (2, 1))], error="InvalidArgument")
    mask = Out(torch.bool, (2, 3))
    yield Case("aten::native_dropout.out", [x, 2.0, True, out, mask], error="InvalidArgument")
    yield Case("aten::native_dropout.out", [x, 0.5, True, out, out], error="InvalidType")
