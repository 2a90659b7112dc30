"""Cases of operators that only move elements."""

import itertools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import EVERY, case, channels_last, out_like, values

# One dtype for each element size, and bool.
SIZES = [torch.float32, torch.int8, torch.int16, torch.int64, torch.bool]
SHAPE = (2, 3, 4, 5)


def dynamic(operator: str, *arguments: Any, expected: Tensor) -> Case:
    """Returns a call whose output must shrink to the result's shape."""
    bound = tuple(size + 2 for size in expected.shape)
    return Case(operator, [*arguments, Out(expected.dtype, bound, is_dynamic=True)], [expected])


def list_case(operator: str, *arguments: Any, expected: tuple[Tensor, ...]) -> Case:
    """Returns a call with a list of outputs."""
    results = [part.contiguous() for part in expected]
    return Case(operator, [*arguments, tuple(out_like(part) for part in results)], [*results])


def view_cases() -> Iterator[Case]:
    """Yields all operators on elements of every size, in memory in their own order and channels last."""
    for dtype, is_last in itertools.product(SIZES, (False, True)):
        x = values(SHAPE, dtype)
        if is_last:
            x = channels_last(x)
        yield from _arrangements(x)
        yield from _parts(x)
        yield from _lists(x)
    for dtype in SIZES:
        yield from _small_shapes(dtype)
        yield from _joins(dtype)
    for source, target in itertools.product(EVERY, EVERY):
        a, b = values((2, 3), source), values((2, 2), target)
        expected = torch.cat((a, b), 1)
        yield case("aten::cat.out", (a, b), 1, expected=expected)
        yield case("aten::stack.out", (a, a.to(target)), 2, expected=torch.stack((a, a.to(target)), 2))
    yield from _dynamic_shapes()


def _arrangements(x: Tensor) -> Iterator[Case]:
    dense = x.contiguous()
    for dims in [(0, 1, 2, 3), (3, 2, 1, 0), (0, 2, 3, 1), (1, 0, 2, 3), (0, -1, 1, 2)]:
        yield case("aten::permute_copy.out", x, dims, expected=x.permute(dims).contiguous())
    for first, second in [(0, 1), (1, 3), (-1, 0), (2, 2)]:
        yield case("aten::transpose_copy.int_out", x, first, second, expected=x.transpose(first, second).contiguous())
    for size in [(120,), (6, 20), (2, -1), (1, 120, 1), (3, 2, 4, 5)]:
        yield case("aten::view_copy.out", x, size, expected=dense.reshape(size))
    for dim in (0, 2, 4, -1, -5):
        yield case("aten::unsqueeze_copy.out", x, dim, expected=dense.unsqueeze(dim))
    for dims in [(), (0,), (1, -1), (0, 1, 2, 3)]:
        yield case("aten::flip.out", x, dims, expected=dense.flip(dims))
    for offset, first, second in [(0, 0, 1), (1, -2, -1), (-2, 3, 1), (5, 2, 3), (-100, 0, 1), (2, 1, 0)]:
        expected = x.diagonal(offset, first, second).contiguous()
        yield case("aten::diagonal_copy.out", x, offset, first, second, expected=expected)
    for dim, size, step in [(0, 1, 1), (3, 2, 1), (-1, 3, 2), (2, 4, 7), (1, 0, 1), (3, 2, 100)]:
        yield case("aten::unfold_copy.out", x, dim, size, step, expected=x.unfold(dim, size, step).contiguous())
    for repeats in [(1, 1, 1, 1), (2, 1, 3, 1), (1, 2, 1, 2), (2, 3, 1, 2, 1), (1, 0, 1, 1)]:
        yield case("aten::repeat.out", x, repeats, expected=x.repeat(repeats).contiguous())
    for shifts, dims in [((1,), (0,)), ((-2, 7), (3, 2)), ((1, 1), (1, 1)), ((0, 3), (0, 1)), ((1, 2, 3), (0, -1, 2))]:
        yield case("aten::roll.out", x, shifts, dims, expected=dense.roll(shifts, dims))
    if x.is_contiguous():
        yield case("aten::roll.out", x, (5,), (), expected=x.roll(5))
        for size, stride, offset in [
            ((2, 3), (1, 2), None),
            ((3,), (0,), 7),
            ((4, 5), (5, 1), 100),
            ((0, 3), (9, 1), 120),
        ]:
            expected = x.as_strided(size, stride, offset or 0).contiguous()
            yield case("aten::as_strided_copy.out", x, size, stride, offset, expected=expected)


def _parts(x: Tensor) -> Iterator[Case]:
    slices = [(0, None, None, 1), (1, 1, 3, 1), (2, 0, 4, 2), (3, -3, -1, 1), (3, 1, 100, 3), (1, 2, 1, 1)]
    slices += [(0, None, 1, 1), (-1, 0, 9223372036854775807, 1), (2, -100, 2, 1), (1, 3, 3, 1), (2, 1, None, 2**40)]
    for dim, start, end, step in slices:
        index = [slice(None)] * 4
        index[dim] = slice(start, end, step)
        part = x[tuple(index)].contiguous()
        yield case("aten::slice_copy.Tensor_out", x, dim, start, end, step, expected=part)
        src = values(tuple(part.shape), x.dtype)
        expected = torch.slice_scatter(x, src, dim, start, end, step)
        yield case("aten::slice_scatter.out", x, src, dim, start, end, step, expected=expected)
    for dim, position in [(0, 1), (1, -1), (3, 2), (-1, 0)]:
        part = x.select(dim, position).contiguous()
        yield case("aten::select_copy.int_out", x, dim, position, expected=part)
        src = values(tuple(part.shape), x.dtype)
        expected = torch.select_scatter(x, src, dim, position)
        yield case("aten::select_scatter.out", x, src, dim, position, expected=expected)
    for dim, start, length in [(0, 1, 1), (1, 0, 3), (3, -2, 2), (-1, 5, 0), (2, 1, 2)]:
        expected = torch.narrow(x, dim, start, length).contiguous()
        yield case("aten::narrow_copy.out", x, dim, start, length, expected=expected)


def _lists(x: Tensor) -> Iterator[Case]:
    for size, dim in [(1, 0), (2, 1), (3, -1), (100, 2), (2**40, 2)]:
        expected = torch.split(x, min(size, 2**31), dim)
        yield list_case("aten::split_copy.Tensor_out", x, size, dim, expected=expected)
    for sizes, dim in [((1, 1), 0), ((0, 3), 1), ((2, 2, 1), -1)]:
        yield list_case("aten::split_with_sizes_copy.out", x, sizes, dim, expected=torch.split(x, sizes, dim))
    for dim in (0, 1, -1):
        yield list_case("aten::unbind_copy.int_out", x, dim, expected=torch.unbind(x, dim))


def _small_shapes(dtype: torch.dtype) -> Iterator[Case]:
    thin = values((1, 3, 1, 2), dtype)
    for dim in (0, 1, 2, -1, -4):
        yield case("aten::squeeze_copy.dim_out", thin, dim, expected=thin.squeeze(dim))
    for dims in [(0,), (0, 2), (1, 3), (-2,)]:
        yield case("aten::squeeze_copy.dims_out", thin, dims, expected=thin.squeeze(dims))
    for size in [(4, 3, 2, 2), (1, 3, 5, 2), (-1, -1, 3, -1), (2, 1, 3, 1, 2), (0, 3, 1, 2)]:
        yield case("aten::expand_copy.out", thin, size, False, expected=thin.expand(size).contiguous())
    for shape in [(), (4,), (2, 3)]:
        x = values(shape, dtype)
        yield case("aten::t_copy.out", x, expected=x.t().contiguous())
    for factor, shape in [(2, (1, 8, 3, 2)), (3, (9, 1, 2)), (1, (2, 2, 2)), (2, (2, 1, 4, 2, 3)), (2, (0, 4, 3, 2))]:
        x = values(shape, dtype)
        shuffled = torch.pixel_shuffle(x, factor)
        yield case("aten::pixel_shuffle.out", x, factor, expected=shuffled)
        yield case("aten::pixel_unshuffle.out", shuffled, factor, expected=x)
    image = channels_last(values((2, 8, 4, 2), dtype))
    yield case("aten::pixel_shuffle.out", image, 2, expected=torch.pixel_shuffle(image.contiguous(), 2))
    yield case("aten::pixel_unshuffle.out", image, 2, expected=torch.pixel_unshuffle(image.contiguous(), 2))
    empty, scalar = values((2, 0, 3), dtype), values((), dtype)
    yield case("aten::permute_copy.out", empty, (2, 0, 1), expected=empty.permute(2, 0, 1).contiguous())
    yield case("aten::view_copy.out", empty, (0, 6), expected=empty.reshape(0, 6))
    yield case("aten::flip.out", empty, (0, 1), expected=empty)
    yield case("aten::roll.out", empty, (1,), (0,), expected=empty)
    yield case("aten::repeat.out", empty, (1, 2, 1), expected=empty)
    yield list_case("aten::split_copy.Tensor_out", empty, 0, 1, expected=torch.split(empty, 0, 1))
    yield case("aten::view_copy.out", scalar, (1, 1), expected=scalar.reshape(1, 1))
    yield case("aten::permute_copy.out", scalar, (), expected=scalar)
    yield case("aten::expand_copy.out", scalar, (2, 3), False, expected=scalar.expand(2, 3).contiguous())
    yield case("aten::flip.out", scalar, (0,), expected=scalar)
    yield case("aten::repeat.out", scalar, (3, 2), expected=scalar.repeat(3, 2))
    yield case("aten::unfold_copy.out", scalar, 0, 1, 1, expected=scalar.unfold(0, 1, 1))
    yield case("aten::as_strided_copy.out", scalar, (), (), None, expected=scalar)


def _joins(dtype: torch.dtype) -> Iterator[Case]:
    for dim in (0, 1, -1):
        other = values(tuple(s + (i == dim % 3) for i, s in enumerate((2, 3, 4))), dtype)
        tensors = (values((2, 3, 4), dtype), other, values((2, 3, 4), dtype))
        yield case("aten::cat.out", tensors, dim, expected=torch.cat(tensors, dim))
    tensors = (values((0,), dtype), values((3, 2), dtype), values((0, 2), dtype))
    yield case("aten::cat.out", tensors, 0, expected=torch.cat(tensors, 0))
    images = (channels_last(values((2, 3, 2, 2), dtype)), values((2, 1, 2, 2), dtype))
    yield case("aten::cat.out", images, 1, expected=torch.cat(images, 1).contiguous())
    yield case("aten::cat.out", images, 1, expected=channels_last(torch.cat(images, 1)))
    for shape in [(), (3,), (2, 3), (2, 0)]:
        for dim in range(-len(shape) - 1, len(shape) + 1):
            tensors = (values(shape, dtype), values(shape, dtype))
            yield case("aten::stack.out", tensors, dim, expected=torch.stack(tensors, dim))


def _dynamic_shapes() -> Iterator[Case]:
    x = values((3, 4), torch.float32)
    yield dynamic("aten::view_copy.out", x, (2, -1), expected=x.view(2, -1))
    yield dynamic("aten::permute_copy.out", x, (1, 0), expected=x.t())
    yield dynamic("aten::transpose_copy.int_out", x, 0, 1, expected=x.t())
    yield dynamic("aten::slice_copy.Tensor_out", x, 1, 1, 3, 1, expected=x[:, 1:3])
    yield dynamic("aten::expand_copy.out", x[:, :1].contiguous(), (3, 2), False, expected=x[:, :1].expand(3, 2))
    yield dynamic("aten::cat.out", (x, x), 0, expected=torch.cat((x, x)))
    yield dynamic("aten::stack.out", (x, x), 1, expected=torch.stack((x, x), 1))
    yield dynamic("aten::repeat.out", x, (2, 1), expected=x.repeat(2, 1))
    yield dynamic("aten::roll.out", x, (1,), (0,), expected=x.roll(1, 0))
    yield dynamic("aten::select_scatter.out", x, x[0], 0, 1, expected=torch.select_scatter(x, x[0], 0, 1))


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
