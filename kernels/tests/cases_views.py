"""Cases of operators that only move elements, beside those of //conformance:op_db."""

import itertools
from collections.abc import Iterator

import torch

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import EVERY, case, channels_last, out_like, values


def view_cases() -> Iterator[Case]:
    """Yields joins of any two dtypes, and parts with bounds and steps that are far outside of a tensor."""
    for source, target in itertools.product(EVERY, EVERY):
        a, b = values((2, 3), source), values((2, 2), target)
        expected = torch.cat((a, b), 1)
        yield case("aten::cat.out", (a, b), 1, expected=expected)
        yield case("aten::stack.out", (a, a.to(target)), 2, expected=torch.stack((a, a.to(target)), 2))
    x = values((2, 3, 4, 5), torch.float32)
    for image, (dim, start, end, step) in itertools.product(
        (x, channels_last(x)),
        [(1, 2, 1, 1), (-1, 0, 9223372036854775807, 1), (2, -100, 2, 1), (1, 3, 3, 1), (2, 1, None, 2**40)],
    ):
        index = [slice(None)] * 4
        index[dim] = slice(start, end, step)
        part = image[tuple(index)].contiguous()
        yield case("aten::slice_copy.Tensor_out", image, dim, start, end, step, expected=part)
        src = values(tuple(part.shape), x.dtype)
        expected = torch.slice_scatter(image, src, dim, start, end, step)
        yield case("aten::slice_scatter.out", image, src, dim, start, end, step, expected=expected)
    yield Case("aten::split_copy.Tensor_out", [x, 2**40, 2, (out_like(x),)], [x])
    for offset, first, second in [(5, 2, 3), (-100, 0, 1)]:
        expected = x.diagonal(offset, first, second).contiguous()
        yield case("aten::diagonal_copy.out", x, offset, first, second, expected=expected)
    yield case("aten::as_strided_copy.out", x, (0, 3), (9, 1), 120, expected=x.as_strided((0, 3), (9, 1)))


def refused_view_cases() -> Iterator[Case]:
    """Calls with missing dims or elements."""
    x = torch.randn(2, 3)
    out, row = Out(torch.float32, (2, 3)), Out(torch.float32, (3,))
    for operator, *arguments in [
        ("aten::permute_copy.out", x, (0, 0), out),
        ("aten::permute_copy.out", x, (0,), out),
        ("aten::transpose_copy.int_out", x, 0, 2, out),
        ("aten::t_copy.out", torch.randn(2, 2, 2), out),
        ("aten::view_copy.out", x, (7,), Out(torch.float32, (7,))),
        ("aten::expand_copy.out", x, (2, 4), False, Out(torch.float32, (2, 4))),
        ("aten::expand_copy.out", x, (-2, 2, 3), False, Out(torch.float32, (2, 2, 3))),
        ("aten::select_copy.int_out", x, 0, 2, row),
        ("aten::select_copy.int_out", x, 0, -3, row),
        ("aten::slice_copy.Tensor_out", x, 0, None, None, 0, out),
        ("aten::slice_copy.Tensor_out", x, 2, None, None, 1, out),
        ("aten::narrow_copy.out", x, 1, 1, 3, out),
        ("aten::narrow_copy.out", x, 1, 0, -1, out),
        ("aten::slice_scatter.out", x, torch.randn(2, 2), 1, 0, 3, 1, out),
        ("aten::select_scatter.out", x, torch.randn(2), 0, 0, out),
        ("aten::select_scatter.out", x, torch.randn(3), 0, 2, out),
        ("aten::cat.out", (x, torch.randn(2, 4)), 0, Out(torch.float32, (4, 3))),
        ("aten::stack.out", (x, torch.randn(2, 4)), 0, Out(torch.float32, (2, 2, 3))),
        ("aten::split_copy.Tensor_out", x, 1, 0, (row,)),
        ("aten::split_copy.Tensor_out", x, 0, 0, (row,)),
        ("aten::split_copy.Tensor_out", x, -1, 0, (row,)),
        ("aten::split_with_sizes_copy.out", x, (1, 2), 0, (row, row)),
        ("aten::split_with_sizes_copy.out", x, (3, -1), 0, (row, row)),
        ("aten::unbind_copy.int_out", x, 0, (row,)),
        ("aten::flip.out", x, (0, 0), out),
        ("aten::flip.out", x, (2,), out),
        ("aten::diagonal_copy.out", x, 0, 1, 1, row),
        ("aten::unfold_copy.out", x, 1, 4, 1, out),
        ("aten::unfold_copy.out", x, 1, 2, 0, out),
        ("aten::as_strided_copy.out", x, (2, 3), (3, 2), None, out),
        ("aten::as_strided_copy.out", x, (2, 3), (3, 1), 1, out),
        ("aten::as_strided_copy.out", x, (2, 3), (-1, 1), 3, out),
        ("aten::as_strided_copy.out", x, (2, 3), (2**62, 1), 0, out),
        ("aten::repeat.out", x, (2,), out),
        ("aten::repeat.out", x, (-1, 1), out),
        ("aten::repeat.out", x, (2**62, 2), out),
        ("aten::roll.out", x, (1, 2), (0,), out),
        ("aten::roll.out", x, (1,), (2,), out),
        ("aten::pixel_shuffle.out", torch.randn(6, 2, 2), 2, Out(torch.float32, (1, 4, 4))),
        ("aten::pixel_shuffle.out", torch.randn(4, 2, 2), 0, Out(torch.float32, (1, 4, 4))),
        ("aten::pixel_unshuffle.out", torch.randn(1, 3, 2), 2, Out(torch.float32, (4, 1, 1))),
    ]:
        yield Case(operator, arguments, error="InvalidArgument")
    yield Case("aten::cat.out", [(x, x.int()), 0, Out(torch.int32, (4, 3))], error="InvalidType")
    yield Case("aten::flip.out", [x, (0,), Out(torch.int32, (2, 3))], error="InvalidType")
    image = channels_last(torch.randn(2, 3, 4, 5))
    last = Out(torch.float32, (2, 3, 4, 5), (0, 2, 3, 1))
    yield Case("aten::roll.out", [image, (1,), (), last], error="NotSupported")
    yield Case("aten::as_strided_copy.out", [image, (2,), (1,), 0, Out(torch.float32, (2,))], error="NotSupported")
