"""Cases of convolutions, pooling and matrix products."""

import itertools
import random
from collections.abc import Iterator

import torch
import torch.nn.functional as functional

from kernels.tests.case_file import Case, Out
from kernels.tests.case_values import REALS, case, channels_last, out_like, refused, values

# The dtypes of matrix products and convolutions.
DTYPES = [*REALS, torch.float64, torch.float16, torch.bfloat16]

# Stride, padding and dilation that change nothing, of two dims.
UNIT = ((1, 1), (0, 0), (1, 1))


def matmul_cases() -> Iterator[Case]:
    """Yields matrix products and linear layers, around the kernels' block sizes."""
    extents = [(1, 1, 1), (1, 1, 16), (1, 16, 16), (1, 16, 1), (3, 5, 7), (4, 4, 4), (5, 9, 6), (8, 33, 12), (0, 3, 4)]
    extents += [(2, 0, 3), (3, 4, 0), (4, 3, 3), (3, 3, 4), (9, 1, 9)]
    for dtype, (rows, inner, columns) in itertools.product(DTYPES, extents):
        special = not dtype.is_floating_point
        a, b = values((rows, inner), dtype, special), values((inner, columns), dtype, special)
        yield case("aten::mm.out", a, b, expected=torch.mm(a, b))
        c, d = values((2, rows, inner), dtype, special), values((2, inner, columns), dtype, special)
        yield case("aten::bmm.out", c, d, expected=torch.bmm(c, d))
        bias = values((columns,), dtype)
        yield case("aten::addmm.out", bias, a, b, 1, 1, expected=torch.addmm(bias, a, b))
        yield case("aten::addmm.out", bias, a, b, 2, -3, expected=torch.addmm(bias, a, b, beta=2, alpha=-3))
        full = values((rows, columns), dtype)
        yield case("aten::addmm.out", full, a, b, 0, 1, expected=torch.addmm(full, a, b, beta=0))
        weight = b.t().contiguous()
        yield case("aten::linear.out", a, weight, None, expected=functional.linear(a, weight))
        yield case("aten::linear.out", a, weight, bias, expected=functional.linear(a, weight, bias))
    x, weight = torch.randn(2, 3, 5), torch.randn(4, 5)
    yield case("aten::linear.out", x, weight, None, expected=functional.linear(x, weight))
    yield case("aten::linear.out", x[0, 0], weight, None, expected=functional.linear(x[0, 0], weight))
    nan = torch.full((4,), float("nan"))
    a, b = torch.randn(2, 3), torch.randn(3, 4)
    yield case("aten::addmm.out", nan, a, b, 0, 1, expected=torch.mm(a, b))
    bias = torch.randn(4)
    yield case("aten::addmm.out", bias, a, b, 0.5, 1.5, expected=torch.addmm(bias, a, b, beta=0.5, alpha=1.5))


def convolution_cases(count: int) -> Iterator[Case]:
    """Yields random 1-d and 2-d convolutions, besides those of the models."""
    fixed: list[tuple[int, ...]] = [
        # channels in, out, groups, height, width, kernel, stride, padding, dilation
        (1, 8, 1, 8, 8, 3, 1, 1, 1),
        (8, 16, 1, 4, 4, 3, 1, 1, 1),
        (16, 16, 1, 7, 7, 1, 1, 0, 1),
        (8, 8, 8, 25, 5, 3, 1, 1, 1),
        (4, 8, 4, 9, 9, 3, 2, 1, 1),
        (3, 5, 1, 11, 6, 3, 2, 2, 2),
        (2, 4, 2, 5, 5, 5, 1, 2, 1),
        (1, 1, 1, 1, 1, 1, 1, 0, 1),
        (1, 6, 1, 3, 3, 3, 1, 0, 1),
        (2, 6, 1, 2, 2, 3, 1, 2, 1),
    ]
    generator = random.Random(5)
    drawn = [
        (
            (groups := generator.choice([1, 1, 1, 2, 3])) * generator.randint(1, 4),
            groups * generator.randint(1, 6),
            groups,
            generator.randint(1, 12),
            generator.randint(1, 12),
            generator.randint(1, 4),
            generator.randint(1, 3),
            generator.randint(0, 3),
            generator.randint(1, 3),
        )
        for _ in range(count)
    ]
    # Rows are so long that offsets of a stride or a dilation exceed 32 bits.
    x, weight = torch.randn(1, 1, 1, 70_000), torch.randn(1, 1, 1, 1)
    for stride, dilation, transposed in itertools.product((1, 32_767), (1, 32_767), (False, True)):
        rest = (None, (stride, 1), (0, 0), (dilation, 1), transposed, (0, 0), 1)
        yield case("aten::convolution.out", x, weight, *rest, expected=x * weight)
    for index, parameters in enumerate([*fixed, *drawn]):
        channels, outputs, groups, height, width, kernel, stride, padding, dilation = parameters
        if min(height, width) + 2 * padding < dilation * (kernel - 1) + 1:
            continue
        # Eager dilates floats only.
        dtype = random.choice(DTYPES) if index % 5 == 0 and dilation == 1 else torch.float32
        batch = 1 + index % 2
        x = values((batch, channels, height, width), dtype)
        weight = values((outputs, channels // groups, kernel, kernel), dtype)
        bias = values((outputs,), dtype) if index % 3 else None
        lists = ((stride,) * 2, (padding,) * 2, (dilation,) * 2)
        expected = functional.conv2d(x, weight, bias, *lists, groups)
        rest = (bias, *lists, False, (0, 0), groups)
        yield case("aten::convolution.out", x, weight, *rest, expected=expected)
        if index % 3 == 0:
            last = [channels_last(tensor) for tensor in (x, weight, expected)]
            yield case("aten::convolution.out", last[0], last[1], *rest, expected=last[2])
            yield case("aten::convolution.out", last[0], weight, *rest, expected=expected)
        if kernel <= width:
            line, line_weight = x[:, :, 0, :].contiguous(), weight[:, :, 0, :].contiguous()
            one = ((stride,), (padding,), (dilation,))
            expected = (
                functional.conv1d(line, line_weight, bias, stride, padding, dilation, groups)
                if (width + 2 * padding >= dilation * (kernel - 1) + 1)
                else None
            )
            if expected is not None:
                yield case(
                    "aten::convolution.out", line, line_weight, bias, *one, False, (0,), groups, expected=expected
                )
    x, weight = torch.randn(1, 3, 9, 7), torch.randn(4, 3, 2, 5)
    expected = functional.conv2d(x, weight, None, (2, 1), (0, 2), (3, 1))
    yield case("aten::convolution.out", x, weight, None, (2, 1), (0, 2), (3, 1), False, (0, 0), 1, expected=expected)
    yield from transposed_cases(count // 2)
    yield from volume_cases(count // 8)
    x, weight = torch.randn(0, 3, 5, 5), torch.randn(4, 3, 3, 3)
    expected = functional.conv2d(x, weight)
    yield case("aten::convolution.out", x, weight, None, *UNIT, False, (0, 0), 1, expected=expected)


def transposed_cases(count: int) -> Iterator[Case]:
    """Yields random transposed convolutions of one and two dims."""
    generator = random.Random(6)
    for index in range(count):
        groups = generator.choice([1, 1, 1, 2, 3])
        channels, outputs = groups * generator.randint(1, 4), generator.choice([1, 2, 3, 4, 5, 8])
        dims = 1 + index % 2
        sizes = [generator.randint(1, 9) for _ in range(dims)]
        kernel = [generator.randint(1, 5) for _ in range(dims)]
        stride = [generator.randint(1, 4) for _ in range(dims)]
        dilation = [generator.randint(1, 3) for _ in range(dims)]
        padding = [generator.randint(0, 2) for _ in range(dims)]
        output_padding = [generator.randint(0, max(a, b) - 1) for a, b in zip(stride, dilation, strict=True)]
        # Eager mode only transposes int64 among the integers.
        dtype = generator.choice([torch.int64, torch.float64, torch.float16]) if index % 5 == 0 else torch.float32
        extents = zip(sizes, stride, padding, dilation, kernel, output_padding, strict=True)
        if min((n - 1) * s - 2 * p + d * (k - 1) + e + 1 for n, s, p, d, k, e in extents) < 1:
            continue
        x = values((1 + index % 2, channels, *sizes), dtype)
        weight = values((channels, outputs, *kernel), dtype)
        bias = values((outputs * groups,), dtype) if index % 3 else None
        function = functional.conv_transpose1d if dims == 1 else functional.conv_transpose2d
        # Eager rounds partial sums of 16-bit floats; kernels round sums.
        wide = [a.float() if dtype == torch.float16 and a is not None else a for a in (x, weight, bias)]
        expected = function(*wide, stride, padding, output_padding, groups, dilation).to(dtype)
        lists = (tuple(stride), tuple(padding), tuple(dilation), True, tuple(output_padding))
        yield case("aten::convolution.out", x, weight, bias, *lists, groups, expected=expected)
        if dims == 2:
            last = [channels_last(tensor) for tensor in (x, weight, expected)]
            yield case("aten::convolution.out", last[0], last[1], bias, *lists, groups, expected=last[2])


def volume_cases(count: int) -> Iterator[Case]:
    """Yields random convolutions of three dims, transposed ones too."""
    generator = random.Random(7)
    for index in range(count):
        groups = generator.choice([1, 2])
        channels, outputs = groups * generator.randint(1, 3), generator.choice([1, 3, 4, 6])
        stride, padding, dilation = (tuple(generator.randint(low, 2) for _ in range(3)) for low in (1, 0, 1))
        kernel = tuple(generator.randint(1, 3) for _ in range(3))
        sizes = tuple(d * (k - 1) + generator.randint(1, 4) for d, k in zip(dilation, kernel, strict=True))
        bias = torch.randn(outputs * groups) if index % 3 else None
        x = torch.randn(2, channels, *sizes)
        if index % 2:
            weight = torch.randn(outputs * groups, channels // groups, *kernel)
            expected = functional.conv3d(x, weight, bias, stride, padding, dilation, groups)
        else:
            padding = tuple(min(p, (k - 1) // 2) for p, k in zip(padding, kernel, strict=True))
            weight = torch.randn(channels, outputs, *kernel)
            expected = functional.conv_transpose3d(x, weight, bias, stride, padding, 0, groups, dilation)
        lists = (stride, padding, dilation, index % 2 == 0, (0, 0, 0))
        yield case("aten::convolution.out", x, weight, bias, *lists, groups, expected=expected)


def pool_cases() -> Iterator[Case]:
    """Yields pooling of images in one order to results in another, and of windows that PyTorch's samples leave out."""
    parameters = itertools.product([(2, 2), (3, 2), (1, 3)], [(), (1,), (2, 3)], [0, 1], [False, True])
    for kernel, stride, padding, ceil_mode in parameters:
        if padding * 2 > min(kernel):
            continue
        layout = random.choice([channels_last, torch.Tensor.contiguous])
        last = channels_last(values((2, 3, 9, 8), torch.float32, True))
        arguments = (last, kernel, stride or None, padding, 1, ceil_mode)
        out, indices = map(layout, functional.max_pool2d(*arguments, return_indices=True))
        yield Case(
            "aten::max_pool2d_with_indices.out",
            [last, kernel, stride, (padding,), (1,), ceil_mode, out_like(out), out_like(indices)],
            [out, indices],
        )
        average = layout(functional.avg_pool2d(last, kernel, stride or None, padding, ceil_mode))
        yield case("aten::avg_pool2d.out", last, kernel, stride, (padding,), ceil_mode, True, None, expected=average)
    # With ceil_mode even the only window may exceed the image.
    for shape, kernel, stride, padding in [
        ((1, 4, 2, 2), (3, 3), (2, 2), 0),
        ((1, 3, 1, 1), (2, 2), (2, 2), 0),
        ((2, 4, 2, 5), (5, 2), (4, 3), 1),
    ]:
        for layout in (channels_last, torch.Tensor.contiguous):
            x = layout(torch.randn(shape))
            arguments = [x, kernel, stride, (padding, padding)]
            expected = layout(functional.max_pool2d(x, kernel, stride, padding, 1, True))
            yield case("torch_fusion::max_pool2d.out", *arguments, (1, 1), True, expected=expected)
            expected = layout(functional.avg_pool2d(x, kernel, stride, padding, True))
            yield case("aten::avg_pool2d.out", *arguments, True, True, None, expected=expected)
    # The lowest integer has no negative.
    lowest = torch.full((1, 2, 2), -(2**63))
    yield case("aten::avg_pool2d.out", lowest, (1, 1), (), (0,), False, True, -1, expected=lowest)
    # Elements of a window that are farther apart than an image is large.
    x = channels_last(torch.randn(1, 70_000, 2, 1))
    arguments = (x, (1, 1), (1, 1), (0, 0), (1, 32_767), False)
    yield case("torch_fusion::max_pool2d.out", *arguments, expected=x)
    for size, layout in itertools.product([(1, 1), (3, 3), (4, 7)], [channels_last, torch.Tensor.contiguous]):
        last = channels_last(values((2, 3, 9, 8), torch.float32))
        expected = layout(functional.adaptive_avg_pool2d(last, size))
        yield case("aten::_adaptive_avg_pool2d.out", last, size, expected=expected)
    # Windows of 2x2 next to each other have a loop of their own, which nothing of which indices are read uses.
    for shape, scale in itertools.product([(2, 8, 8), (1, 9, 7), (1, 2, 4)], [1.0, -1.0, 0.0]):
        x = values(shape, torch.float32, True) + 3 * scale
        x[..., :3].mul_(scale).add_(0.0)
        yield _maxima_of_pairs(x)
        yield case("aten::avg_pool2d.out", x, (2, 2), (), (0,), False, True, None, expected=functional.avg_pool2d(x, 2))
    for word in (0xFFC00000, 0x7FC00000, 0x80000000, 0xBF800000, 0xFF800000):
        x = torch.tensor([word - (word >> 31 << 32)] * 4, dtype=torch.int32).view(torch.float32).view(1, 2, 2)
        for place, other in itertools.product(range(4), (1.0, -2.0, 0.0, -float("inf"))):
            y = x.clone()
            y.view(-1)[place] = other
            yield _maxima_of_pairs(y)
    x = torch.full((1, 1, 4, 4), -float("inf"))
    out, indices = functional.max_pool2d(x, 2, return_indices=True)
    yield Case(
        "aten::max_pool2d_with_indices.out",
        [x, (2, 2), (2, 2), (0, 0), (1, 1), False, out_like(out), out_like(indices)],
        [out, indices],
    )


def _maxima_of_pairs(x: torch.Tensor) -> Case:
    arguments = (x, (2, 2), (2, 2), (0, 0), (1, 1), False)
    return case("torch_fusion::max_pool2d.out", *arguments, expected=functional.max_pool2d(x, 2))


def resampling_cases() -> Iterator[Case]:
    """Yields images resampled by factors that are no integers, and at points beside an image, in every mode."""
    x = torch.randn(1, 2, 6, 9)
    for factors in ((2.0, 2.0), (1.5, 0.7), (1 / 3, 2 / 3)):
        expected = torch.ops.aten.upsample_nearest2d.vec(x, None, factors)
        yield case("aten::upsample_nearest2d.vec_out", x, None, factors, expected=expected)
        last = channels_last(x), None, factors
        yield case("aten::upsample_nearest2d.vec_out", *last, expected=channels_last(expected))
        for corners in (False, True):
            expected = torch.ops.aten.upsample_bilinear2d.vec(x, None, corners, factors)
            yield case("aten::upsample_bilinear2d.vec_out", x, None, corners, factors, expected=expected)
            size = tuple(expected.shape[2:])
            expected = torch.ops.aten._upsample_bilinear2d_aa(x, size, corners, *factors)
            yield case("aten::_upsample_bilinear2d_aa.out", x, size, corners, *factors, expected=expected)
            last = channels_last(x), size, corners, *factors
            yield case("aten::_upsample_bilinear2d_aa.out", *last, expected=channels_last(expected))
    for mode, padding, corners in itertools.product(range(3), range(3), (False, True)):
        for shape in ((2, 3, 5, 4), (1, 2, 1, 1), (1, 1, 3, 7)):
            x, grid = torch.randn(shape), torch.rand(shape[0], 4, 5, 2) * 3 - 1.5
            expected = torch.ops.aten.grid_sampler_2d(x, grid, mode, padding, corners)
            yield case("aten::grid_sampler_2d.out", x, grid, mode, padding, corners, expected=expected)


def refused_convolution_cases() -> Iterator[Case]:
    """Calls that no kernel may accept, with the error that says why."""
    image = torch.randn(1, 3, 8, 8)
    weight = torch.randn(4, 3, 3, 3)
    image_out = Out(torch.float32, (1, 4, 6, 6))
    yield from refused(
        "aten::convolution.out",
        [image, weight, None, *UNIT, False, (0, 0), 1, image_out],
        InvalidArgument=[
            {0: image[0]}, {2: torch.randn(3)}, {3: (0, 1)}, {4: (2**40, 0)}, {6: True}, {8: 2},
            {9: Out(torch.float32, (1, 4, 5, 6))},
        ],
    )  # fmt: skip
    transposed = weight.transpose(0, 1).contiguous()
    yield from refused(
        "aten::convolution.out",
        [image, transposed, None, *UNIT, True, (0, 0), 1, image_out],
        InvalidArgument=[{7: (1, 1)}, {7: (-1, 0)}, {4: (5, 5)}, {4: (-1, 0)}],
    )
    outs = [Out(dtype, (1, 3, 6, 6)) for dtype in (torch.float32, torch.int64)]
    pool = [image, (2, 2), (2, 2), (2, 2), (1, 1), False, *outs]
    yield Case("aten::max_pool2d_with_indices.out", pool, error="InvalidArgument")
    last = channels_last(torch.randn(1, 2, 4, 4))
    pooled, indices = functional.max_pool2d(last, 2, return_indices=True)
    # Indices in another order than the result, and images whose rows are not adjacent.
    mixed = [last, (2, 2), (), (0,), (1,), False, out_like(pooled), out_like(indices.contiguous())]
    yield Case("aten::max_pool2d_with_indices.out", mixed, error="NotSupported")
    columns = torch.randn(1, 2, 4, 4).transpose(2, 3)
    arguments = [columns, (2, 2), (), (0,), False, True, None, Out(torch.float32, (1, 2, 2, 2))]
    yield Case("aten::avg_pool2d.out", arguments, error="NotSupported")
    scales = (float("nan"), 2.0)
    yield Case("aten::upsample_nearest2d.vec_out", [image, None, None, image_out], error="InvalidArgument")
    yield Case("aten::upsample_nearest2d.vec_out", [image, None, scales, image_out], error="InvalidArgument")
    yield Case("aten::upsample_nearest2d.vec_out", [image, (0, 4), None, image_out], error="InvalidArgument")
    # Factors that the sizes do not follow from: positions beyond all integers, and none.
    small, large = torch.randn(1, 2, 3, 3), Out(torch.float32, (1, 2, 4, 4))
    for factor in (1e-30, 1e-40):
        far = [(factor, 2.0), large]
        yield Case("aten::upsample_nearest2d.vec_out", [small, (4, 4), *far], error="InvalidArgument")
        yield Case("aten::upsample_bilinear2d.vec_out", [small, (4, 4), False, *far], error="InvalidArgument")
        far = [factor, 2.0, large]
        yield Case("aten::_upsample_bilinear2d_aa.out", [small, (4, 4), False, *far], error="InvalidArgument")
    yield Case("aten::upsample_bilinear2d.vec_out", [image, (4,), False, None, image_out], error="InvalidArgument")
    grid = torch.zeros(1, 6, 6, 2)
    sampled = Out(torch.float32, (1, 3, 6, 6))
    yield from refused(
        "aten::grid_sampler_2d.out",
        [image, grid, 0, 0, False, sampled],
        InvalidArgument=[{2: 3}, {3: -1}],
        InvalidType=[{1: grid.double()}],
    )
    indices = torch.full((1, 3, 4, 4), 64)
    arguments = [torch.ones(1, 3, 4, 4), image, (2, 2), (2, 2), (0, 0), (1, 1), False, indices]
    arguments.append(Out(torch.float32, (1, 3, 8, 8)))
    yield Case("aten::max_pool2d_with_indices_backward.grad_input", arguments, error="InvalidArgument")
