"""Random calls of the int8 operators, with the exact results of the dialect's Python implementation."""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from kernels.tests.case_file import Case, Out, dim_order
from kernels.tests.case_values import refused
from tools.abi.layouts.layouts import INT4_BLOCK, MOST_FLOATS
from tools.artifacts.packed_layer.packed_layer import Floats
from tools.pipeline.export.backends.cortex_m import int4, norms, pack, prelu, recurrent, softmax, transposed
from tools.pipeline.export.backends.cortex_m.dialect import passes_utils
from tools.pipeline.export.ir.scalar_types import CODES

_operators = torch.ops.cortex_m
Factor = tuple[int, int]
# Largest sum for which the dialect's floating-point products are exact.
_EXACT = 2**24


def integers(shape: tuple[int, ...], low: int = -128, high: int = 127) -> Tensor:
    """Values of int8, now and then the extremes only."""
    tensor = torch.randint(low, high + 1, shape, dtype=torch.int8)
    if random.random() < 0.1:
        tensor = torch.where(tensor > 0, high, low).to(torch.int8)
    return tensor


def image(*shape: int) -> Tensor:
    """Returns an image in the layout that the lowering gives them."""
    return integers(shape).contiguous(memory_format=torch.channels_last)


def factor(low: float = 1e-4, high: float = 1.5) -> Factor:
    """Returns a factor as the lowering makes one of a real number."""
    real = low * (high / low) ** random.random()
    chosen = random.choice([real, real, real, 2.0 ** -random.randint(0, 12)])
    multiplier, shift = passes_utils.quantize_multiplier_aot(chosen)
    return multiplier, shift


def zero_point() -> int:
    return random.choice([-128, 127, 0, random.randint(-128, 127)])


def activation() -> tuple[int, int]:
    """Returns an output's range."""
    low, high = sorted(random.choices(range(-128, 128), k=2))
    return random.choice([(-128, 127), (-128, 127), (low, high)])


def case(name: str, *arguments: Any, like: tuple[Any, ...] | None = None) -> Case:
    """Returns a call with its result from the dialect; lists are tuples.

    Args:
      like: arguments that give the same result, where the dialect does not compute it from these.
    """
    expected = getattr(_operators, name)(*[list(a) if isinstance(a, tuple) else a for a in like or arguments])
    passed = [CODES[a] if isinstance(a, torch.dtype) else a for a in arguments]
    out = Out(expected.dtype, tuple(expected.shape), dim_order(expected))
    return Case(f"cortex_m::{name}.out", [*passed, out], [expected])


_SCRATCH = torch.empty(0, dtype=torch.uint8)


def _shape(dims: int | None = None) -> tuple[int, ...]:
    dims = random.randint(0, 5) if dims is None else dims
    return tuple(random.choice([1, 2, 3, 5, 8, 0 if random.random() < 0.1 else 4]) for _ in range(dims))


def quantize_cases(count: int) -> Iterator[Case]:
    for _ in range(count):
        dtype = random.choice([torch.int8, torch.int8, torch.int16])
        info = torch.iinfo(dtype)
        scale = random.choice([random.random(), 2.0 ** -random.randint(0, 9), float(torch.rand(()) / 50)]) + 1e-6
        point = zero_point() if dtype == torch.int8 else random.choice([0, random.randint(-32768, 32767)])
        low, high = (info.min, info.max) if random.random() < 0.8 else (info.min + 1, info.max - 100)
        x = torch.randn(_shape()) * scale * (info.max + 20)
        if x.numel() > 4:
            # Halves, numbers out of range, and NaN.
            x.view(-1)[:4] = torch.tensor([2.5 * scale, float("inf"), -1e30, float("nan")])
        parameters = (scale, point, low, high, dtype)
        yield case("quantize_per_tensor", x, *parameters)
        y = torch.randint(info.min, info.max + 1, _shape(), dtype=dtype)
        yield case("dequantize_per_tensor", y, *parameters)
        if x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
            yield case("quantize_per_tensor", x, *parameters)


def _pair() -> tuple[Tensor, Tensor]:
    if random.random() < 0.5:
        a = random.choice([integers(_shape()), image(2, 5, 3, 4)])
        b = torch.empty_like(a)
        b.copy_(integers(tuple(a.shape)))
        return a, b
    if random.random() < 0.5:
        channels = random.randint(1, 9)
        a, b = image(1, channels, random.randint(1, 4), random.randint(1, 4)), image(1, channels, 1, 1)
        return random.choice([(a, b), (b, a)])
    # Dimensions of size 1 and fewer of them, on either side.
    shape = [random.randint(1, 9) for _ in range(random.randint(1, 4))]
    return _part(shape), _part(shape)


def _part(shape: list[int]) -> Tensor:
    """Returns a tensor that broadcasts to a shape; an image has one of two orders."""
    sizes = tuple(size if random.random() < 0.6 else 1 for size in shape[random.choice([0, 0, 1, len(shape)]) :])
    return image(*sizes) if len(sizes) == 4 and random.random() < 0.5 else integers(sizes)


def elementwise_cases(count: int) -> Iterator[Case]:
    for _ in range(count):
        a, b = _pair()
        # The lowering makes both inputs' factors at most a half, and one equal to it.
        half = (2**30, 0)
        less = factor(0.01, 0.5)
        first, second = random.choice([(less, half), (half, less), (half, half), (less, factor(0.01, 0.5))])
        # A difference is a sum with a negative factor.
        second = random.choice([1, -1]) * second[0], second[1]
        output = passes_utils.quantize_multiplier_aot(2.0 ** random.uniform(-3, 3) / 2**20)
        yield case(
            "quantized_add", a, zero_point(), *first, b, zero_point(), *second, zero_point(), *output, *activation()
        )
        a, b = _pair()
        # The zero point of a factor contains the number that hardswish adds to its input.
        wide = random.randint(-2000, 2000)
        yield case("quantized_mul", a, zero_point(), b, random.choice([zero_point(), wide]), zero_point(), *factor())
        x = random.choice([integers(_shape()), image(2, 5, 3, 4)])
        yield case("quantized_activation", x, integers((256,)))
        yield _division(x, torch.empty_like(x).copy_(integers(tuple(x.shape))))
    for _ in range(count // 2):
        dtype = random.choice([torch.int8, torch.int32])
        shape = _shape(3)
        other = random.choice([shape, (1,), shape[1:], (1, *shape[1:]), ()])
        for name in ("minimum", "maximum"):
            a = torch.randint(-128, 128, shape, dtype=dtype)
            yield case(name, a, torch.randint(-128, 128, other, dtype=dtype))


def _division(a: Tensor, b: Tensor) -> Case:
    """Returns a division of ExecuTorch 1.5; earlier dialects have none."""
    scale = random.choice([1.0, 0.25, random.random()])
    a_point, b_point, point = zero_point(), zero_point(), zero_point()
    if hasattr(_operators, "quantized_div"):
        return case("quantized_div", a, a_point, b, b_point, point, scale)
    quotient = torch.where(b == b_point, 0.0, (a.float() - a_point) / (b.float() - b_point))
    expected = ((quotient * scale).round() + point).clamp(-128, 127).to(torch.int8)
    out = Out(torch.int8, tuple(a.shape), dim_order(a))
    return Case("cortex_m::quantized_div.out", [a, a_point, b, b_point, point, scale, out], [expected])


def _window(size: int) -> tuple[int, int, int, int]:
    """Returns kernel, stride, padding and dilation that fit on a dim."""
    while True:
        kernel, stride = random.choice([1, 2, 3, 3, 4, 5, 10]), random.choice([1, 1, 2, 3])
        padding, dilation = random.choice([0, 0, 1, 1, 2, 5]), random.choice([1, 1, 1, 2, 3])
        if size + 2 * padding >= dilation * (kernel - 1) + 1:
            return kernel, stride, padding, dilation


def _per_channel(channels: int, taps: int) -> tuple[Tensor | None, Tensor, Tensor]:
    """Bias, multipliers and shifts for sums of so many products."""
    low = 0.2 / taps / 128
    factors = [factor(low / 4, low * 8) for _ in range(channels)]
    if random.random() < 0.05:
        factors = [factor(0.3, 3.0) for _ in range(channels)]
    if random.random() < 0.05:
        factors[0] = (0, 0)
    bias = torch.randint(-5000, 5000, (channels,), dtype=torch.int32) if random.random() < 0.8 else None
    multipliers, shifts = (torch.tensor(values, dtype=torch.int32) for values in zip(*factors, strict=True))
    return bias, multipliers, shifts


def _dilated(weight: Tensor, dim: int, dilation: tuple[int, int]) -> Tensor:
    """Returns a kernel with zeros between its elements: PyTorch has no dilated convolution of integers."""
    for offset, step in enumerate(dilation):
        shape = list(weight.shape)
        shape[dim + offset] = (shape[dim + offset] - 1) * step + 1
        wide = torch.zeros(shape, dtype=weight.dtype)
        wide.transpose(0, dim + offset)[::step] = weight.transpose(0, dim + offset)
        weight = wide
    return weight


def convolution_cases(count: int) -> Iterator[Case]:
    """Convolutions of all kinds with all parameters."""
    for index in range(count):
        height, width = random.choice([(1, 1), (1, 9), (5, 5), (6, 7), (9, 4), (12, 3)])
        (kh, sh, ph, dh), (kw, sw, pw, dw) = _window(height), _window(width)
        groups = random.choice([1, 1, 1, 2, 3, 6])
        in_channels = random.choice([1, 2, 3, 4, 5, 8, 12, 16, 19]) * groups
        out_channels = random.choice([1, 2, 3, 4, 5, 8, 16]) * groups
        if random.random() < 0.25:
            # Typical of networks: kernels compute several outputs at a time.
            height, width = random.choice([(5, 5), (4, 9), (3, 14)])
            kh = kw = random.choice([1, 3])
            ph = pw = random.choice([0, kh // 2])
            dh = dw = groups = 1
            sh = sw = random.choice([1, 1, 2])
            in_channels = random.choice([16, 24, 32, 48, 64, 80, 128])
            out_channels = random.choice([4, 8, 12, 16, 18])
        if index == 0:
            # Typical of sound: a long kernel and stride, over a sequence or over an image that is one pixel wide.
            kh, kw, sh, sw = random.choice([(1, 300, 1, 130), (512, 1, 37, 1)])
            height, width, ph, pw, dh, dw = kh + 3 * (sh - 1) + 5, kw + 3 * (sw - 1) + 5, kh // 2, kw // 2, 1, 1
            groups, in_channels, out_channels = 1, random.choice([1, 4]), random.randint(1, 4)
        batch = random.choice([1, 1, 2])
        weight = integers((out_channels, kh, kw, in_channels // groups), -127)
        bias, multipliers, shifts = _per_channel(out_channels, weight[0].numel())
        x, windows = image(batch, in_channels, height, width), ((sh, sw), (ph, pw))
        rest = (-zero_point(), zero_point(), multipliers, shifts, *activation(), _SCRATCH)
        like = (x, _dilated(weight, 1, (dh, dw)), bias, *windows, (1, 1), *rest)
        yield case("quantized_conv2d", x, weight, bias, *windows, (dh, dw), *rest, like=like)


def depthwise_cases(count: int) -> Iterator[Case]:
    for index in range(count):
        # Includes more outputs than are expanded at once, and more rows than scratch memory has room for.
        height, width = random.choice([(1, 1), (5, 5), (6, 7), (9, 4), (12, 3), (3, 25), (1, 45), (2, 70), (40, 3)])
        (kh, sh, ph, dh), (kw, sw, pw, dw) = _window(height), _window(width)
        if random.random() < 0.5 and height >= 3 and width >= 3:
            kh = kw = 3
            ph, pw = random.choice([(0, 0), (1, 1), (1, 1), (0, 2), (2, 0)])
            dh = dw = 1
            sh, sw = random.choice([(1, 1), (1, 1), (2, 2), (4, 3), (1, 7), (2, 8)])
        channels = random.choice([1, 2, 3, 4, 5, 6, 8, 12, 15, 16, 19, 32])
        multiplier = random.choice([1, 1, 1, 2, 3])
        if index == 0:
            # The weights of one channel are contiguous; the only output reads one of them.
            height, width, kh, kw, sh, sw, ph, pw, dh, dw = 1, 1, 3, 3, 1, 1, 1, 1, 1, 1
            channels = multiplier = 1
        weight = integers((1, kh, kw, channels * multiplier), -127)
        bias, multipliers, shifts = _per_channel(channels * multiplier, kh * kw)
        x, windows = image(random.choice([1, 1, 2]), channels, height, width), ((sh, sw), (ph, pw))
        rest = (multiplier, -zero_point(), zero_point(), multipliers, shifts, *activation(), _SCRATCH)
        like = (x, _dilated(weight, 1, (dh, dw)), bias, *windows, (1, 1), *rest)
        yield case("quantized_depthwise_conv2d", x, weight, bias, *windows, (dh, dw), *rest, like=like)


def transpose_convolution_cases(count: int) -> Iterator[Case]:
    while count > 0:
        height, width = random.randint(1, 6), random.randint(1, 6)
        (kh, sh, ph, dh), (kw, sw, pw, dw) = (
            (random.randint(1, 4), random.randint(1, 3), random.randint(0, 2), random.choice([1, 1, 2]))
            for _ in range(2)
        )
        oh, ow = random.randrange(max(sh, dh)), random.randrange(max(sw, dw))
        # Up to more products than are computed at a time, and more channels.
        in_channels, out_channels = random.choice([1, 2, 3, 5, 8, 12, 16, 28]), random.choice([1, 2, 3, 4, 8, 19])
        if min((height - 1) * sh - 2 * ph + dh * (kh - 1) + oh, (width - 1) * sw - 2 * pw + dw * (kw - 1) + ow) < 0:
            continue
        weight = integers((out_channels, kh, kw, in_channels), -127)
        assert weight[0].numel() * 255 * 128 + 5000 < _EXACT
        bias, multipliers, shifts = _per_channel(out_channels, weight[0].numel())
        x = image(random.choice([1, 1, 2]), in_channels, height, width)
        windows = ((sh, sw), (ph, pw), (oh, ow), (dh, dw))
        rest = (-zero_point(), zero_point(), multipliers, shifts, *activation(), _SCRATCH, _SCRATCH)
        yield case("quantized_transpose_conv2d", x, weight, bias, *windows, *rest)
        count -= 1


def matmul_cases(count: int) -> Iterator[Case]:
    for _ in range(count):
        inner, columns = random.choice([1, 3, 4, 7, 8, 16, 24, 33, 64, 100]), random.choice([1, 2, 3, 4, 5, 8, 12])
        x = integers((*random.choice([(), (1,), (2,), (3,), (5,), (2, 3), (8,)]), inner))
        weight = integers((columns, inner), -127)
        bias = torch.randint(-5000, 5000, (columns,), dtype=torch.int32) if random.random() < 0.8 else None
        point, rest = zero_point(), (zero_point(), *[(value,) for value in factor(1e-4, 0.05)])
        low, high = activation()
        yield case("quantized_linear", x, weight, bias, None, -point, 0, *rest, high, low)
        sums = -point * weight.sum(1, dtype=torch.int32, keepdim=True).T + (0 if bias is None else bias)
        yield case("quantized_linear", x, weight, None, sums.to(torch.int32), -point, 0, *rest, high, low)
        batch, rows = random.randint(1, 3), random.randint(1, 5)
        lhs, rhs = integers((batch, rows, inner)), integers((batch, columns, inner))
        points = (-zero_point(), -zero_point())
        assert inner * 255 * 255 < _EXACT
        yield case(
            "quantized_batch_matmul", lhs, points[0], rhs, points[1], zero_point(), *factor(1e-4, 0.05), _SCRATCH
        )


def _average_cases(x: torch.Tensor, ceil_mode: bool, *given: Any) -> Iterator[Case]:
    """Yields average pooling by the argument lists of ExecuTorch 1.4 and of 1.5, which has ceil_mode."""
    lists = [(x, *given, _SCRATCH), (x, *given[:3], ceil_mode, *given[3:], _SCRATCH)]
    has_ceil_mode = "ceil_mode" in str(torch.ops.cortex_m.quantized_avg_pool2d.default._schema)
    for arguments in lists[ceil_mode:]:
        if has_ceil_mode or not ceil_mode:
            yield case("quantized_avg_pool2d", *arguments, like=lists[has_ceil_mode])


def pool_cases(count: int) -> Iterator[Case]:
    while count > 0:
        height, width = random.choice([(1, 1), (5, 5), (6, 7), (9, 4), (25, 5), (3, 12)])
        kh, kw = random.randint(1, min(5, height)), random.randint(1, min(5, width))
        if random.random() < 0.2:
            kh, kw = height, width
        ph, pw = random.randint(0, kh // 2), random.randint(0, kw // 2)
        if random.random() < 0.2 and min(height, width) > 1:
            kh, kw, ph, pw = 2, 2, 0, 0
        stride = (random.randint(1, 3), random.randint(1, 3))
        x = image(random.choice([1, 1, 2]), random.choice([1, 3, 4, 8, 17, 64]), height, width)
        if random.random() < 0.2:
            x = x.contiguous()
        point = zero_point()
        # A scale of eight bits, as exports choose it, or of more.
        short = random.randint(128, 255) * 2.0 ** -random.randint(6, 20)
        scale = random.choice([factor(1e-3, 4.0), passes_utils.quantize_multiplier_aot(short)])
        yield from _average_cases(x, random.random() < 0.3, (kh, kw), stride, (ph, pw), point, *scale)
        yield case("quantized_max_pool2d", x, (kh, kw), stride, (ph, pw), (1, 1), False, point, point, *activation())
        count -= 1
    # Means of four, two and one values, which float32 has exactly, with any release's dialect.
    x = image(1, 8, 5, 7)
    mean = torch.nn.functional.avg_pool2d(x.float(), 2, ceil_mode=True).round().to(torch.int8)
    arguments = [x, (2, 2), (2, 2), (0, 0), True, 0, 2**30, 1, _SCRATCH, Out(torch.int8, (1, 8, 3, 4), (0, 2, 3, 1))]
    yield Case("cortex_m::quantized_avg_pool2d.out", arguments, [mean])


def softmax_cases(count: int) -> Iterator[Case]:
    """Keeps results away from halves, where rounding depends on the last bit of an exponential."""
    while count > 0:
        shape = random.choice([(12,), (1, 12), (3, 5), (2, 3, 4), (1, 1), (1, 256), (1, 6, 3, 5)])
        x = integers(shape)
        if len(shape) == 4 and random.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        dim = random.randrange(-len(shape), len(shape))
        scale, point = random.choice([0.003, 0.02, 0.1, 1.0]) * (1 + random.random()), zero_point()
        multiplier, shift = passes_utils.quantize_multiplier_aot(min(scale * 2**26, 2.0**31 - 1))
        exact = torch.softmax((x.double() - point) * multiplier * 2.0 ** (shift - 57), dim) * 256
        if (exact - exact.floor() - 0.5).abs().min() > 2e-5 * max(1.0, float(exact.max()) / 16):
            found = case("softmax", x, dim, point, -128, multiplier, shift, -1)
            found.arguments[-1].dim_order = dim_order(x)
            yield found
            count -= 1


def softmax_by_table_cases(count: int) -> Iterator[Case]:
    """Yields softmax by a table, whose results differ from the exact ones by at most one."""
    for _ in range(count):
        shapes = [(12,), (1, 12), (3, 5), (2, 3, 4), (1, 1), (1, 256), (2, 49), (1, 6, 3, 5), (3, 0), (0, 3)]
        shape = random.choice(shapes)
        x = integers(shape)
        if len(shape) == 4 and random.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        dim = random.randrange(-len(shape), len(shape))
        scale = random.choice([0.003, 0.02, 0.1, 1.0]) * (1 + random.random())
        found = _like_fused("quantized_softmax", x, softmax.exponentials(scale), dim)
        exact = torch.softmax(x.double() * scale, dim) * 256 - 128
        assert bool(((exact - found.expected[0]).abs() <= 1).all())
        yield found


def masked_softmax_cases(count: int) -> Iterator[Case]:
    """Yields softmax with masks: causal ones, padding, and any, for all rows, for groups of them, and for each."""
    for _ in range(count):
        shapes = [(3, 5), (2, 3, 4), (1, 4, 12, 12), (4, 2, 16, 16), (1, 1, 1), (2, 1, 33), (2, 2, 3, 1, 9)]
        shape = random.choice(shapes)
        x = integers(shape)
        sizes = [random.choice([1, size]) for size in shape[:-1]]
        kind = random.choice(["causal", "padding", "any"])
        if kind == "causal" and shape[-2] == shape[-1]:
            is_read = torch.ones(shape[-2:]).tril().bool()
        elif kind == "padding":
            is_read = (torch.arange(shape[-1]) <= random.randrange(shape[-1])).expand(*[1] * len(sizes), shape[-1])
        else:
            is_read = torch.rand(*sizes, shape[-1]) < 0.5
            is_read[..., random.randrange(shape[-1])] = True
        added = torch.where(is_read, 0.0, random.choice([-torch.inf, -100.0, torch.finfo(torch.float32).min]))
        mask, repeats = softmax.arranged_mask(added, x.shape)
        scale = random.choice([0.003, 0.02, 0.1]) * (1 + random.random())
        found = _like_fused("quantized_masked_softmax", x, softmax.exponentials(scale), mask, repeats)
        exact = torch.softmax(x.double() * scale + added, -1) * 256 - 128
        assert bool(((exact - found.expected[0]).abs() <= 1).all())
        yield found


def transposed_cases(count: int) -> Iterator[Case]:
    """Yields transpositions in memory, with results in two orders of dimensions."""
    for i in range(count):
        rows, columns, unit = i % 9 + 1, random.randint(1, 9), random.choice([1, 1, 2, 4, 7])
        x = integers((random.choice([1, 3]), rows, columns, unit))
        plain, image = (len(x), columns, rows, unit), (len(x), unit, columns, rows)
        sizes, order = random.choice([(plain, (0, 1, 2, 3)), (image, (0, 2, 3, 1))])
        given, out = (x, sizes, transposed.number_of(range(4), order)), Out(torch.int8, sizes, order)
        result = transposed.transposed(*given, rows, columns, unit)
        yield Case("torch_fusion::transposed.out", [*given, rows, columns, unit, out], [result])
        yield Case("torch_fusion::transposed.out", [*given, 7 * rows, columns, unit, out], error="InvalidArgument")


def _like_fused(name: str, *arguments: Any) -> Case:
    """Returns a call of an operator of our own with its result from Python."""
    ends = {"norm": norms, "softmax": softmax, "prelu": prelu}
    owner = next((module for end, module in ends.items() if name.endswith(end)), recurrent)
    results = getattr(owner, name)(*arguments)
    results = [results] if isinstance(results, Tensor) else list(results)
    outs = [Out(result.dtype, tuple(result.shape), dim_order(result)) for result in results]
    if len(results) > 1:
        # The final contents of a recurrent layer's scratch memory are unspecified.
        results[-1] = None
    return Case(f"torch_fusion::{name}.out", [*arguments, *outs], results)


def norm_cases(count: int) -> Iterator[Case]:
    """Yields layer, RMS and group normalization, sometimes of groups whose values are all equal."""
    # PyTorch's root of this spread in single precision is not the nearest number.
    equal, weight, bias = (torch.tensor([each] * 3) for each in (87, 30521, -260199763))
    yield _like_fused(
        "quantized_layer_norm", equal.to(torch.int8), weight.to(torch.int16), bias.to(torch.int32), None, 1e-5, 22
    )
    for _ in range(count):
        channels = random.choice([1, 2, 3, 4, 7, 8, 16, 33, 64])
        weight = torch.randint(-32767, 32768, (channels,), dtype=torch.int16)
        bias = torch.randint(-(2**30), 2**30, (channels,), dtype=torch.int32)
        epsilon, shift = random.choice([0.0, 1e-5, 0.3, 1000.0, 1e30]), random.choice([0, 12, 18, 22, 30])
        x = integers((*random.choice([(), (1,), (3,), (2, 3)]), channels))
        if random.random() < 0.2:
            x = torch.full_like(x, random.randint(-128, 127))
        center = random.choice([None, None, zero_point()])
        yield _like_fused("quantized_layer_norm", x, weight, bias, center, epsilon, shift)
        shape = (random.choice([1, 2]), channels, *random.choice([(), (5,), (3, 4), (1, 1), (2, 3, 2)]))
        x = integers(shape)
        if x.dim() == 4 and random.random() < 0.6:
            x = x.contiguous(memory_format=torch.channels_last)
        groups = random.choice([each for each in range(1, channels + 1) if channels % each == 0])
        yield _like_fused("quantized_group_norm", x, weight, bias, groups, epsilon, shift)


def prelu_cases(count: int) -> Iterator[Case]:
    """Yields PReLU of images in both orders and of rows, also with slopes below 0 and above 1."""
    for _ in range(count):
        channels = random.choice([1, 2, 3, 4, 7, 8, 16, 33])
        x = integers((random.choice([1, 2]), channels, *random.choice([(), (5,), (3, 4), (1, 1)])))
        if x.dim() == 4 and random.random() < 0.6:
            x = x.contiguous(memory_format=torch.channels_last)
        slopes = torch.randn(channels) * random.choice([0.1, 1.0, 3.0])
        made = prelu.factors(slopes, random.choice([1e-9, 0.01, 0.7, 1.0, 60.0]))
        assert made is not None
        negative, positive, shift = made
        yield _like_fused("quantized_prelu", x, negative, positive, zero_point(), zero_point(), shift)


def recurrent_cases(count: int) -> Iterator[Case]:
    """Layers of LSTM and GRU, with and without initial states, some of which are out of range."""
    for index in range(count):
        steps, batch = random.choice([0, 1, 2, 5]), random.choice([1, 1, 2])
        features, size = random.choice([1, 3, 4, 8, 11]), random.choice([1, 3, 4, 8, 13])
        reverse, batch_first = random.random() < 0.5, random.random() < 0.5
        gates = 3 + index % 2
        x = integers((batch, steps, features) if batch_first else (steps, batch, features))
        states: list[Tensor | None] = [None] * (gates - 2)
        if random.random() < 0.7:
            states = [torch.randn(batch, size) * random.choice([0.3, 1.0, 30.0]) for _ in states]
        bits = random.choice([15, 15, 14, 11])
        weights = [torch.randn(gates * size, width) * random.choice([0.3, 1.0]) for width in (features, size)]
        bias = torch.randn(4 * size) if random.random() < 0.7 else None
        made = recurrent.constants(gates, *weights, bias, 0.02, bits)
        assert made is not None
        factor = recurrent.output_factor(random.choice([1 / 128, 1 / 255, 0.0011]), bits)
        assert factor is not None
        numbers = (zero_point(), bits, *factor, zero_point(), reverse, batch_first)
        name = "quantized_gru" if gates == 3 else "quantized_lstm"
        yield _like_fused(name, x, *states, made.weights, made.factors, *numbers)


def layout_cases(count: int) -> Iterator[Case]:
    for _ in range(count):
        x = integers(_shape(random.randint(1, 5)))
        if x.dim() == 4 and random.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        permuted = case("transpose", x, tuple(random.sample(range(x.dim()), x.dim())))
        permuted.arguments[-1].dim_order = ()
        yield permuted
        x = integers(tuple(random.randint(1, 5) for _ in range(random.randint(1, 4))))
        if x.dim() == 4 and random.random() < 0.5:
            x = x.contiguous(memory_format=torch.channels_last)
        before, after = ([0] * (4 - x.dim()) + [random.choice([0, 0, 1, 3]) for _ in x.shape] for _ in range(2))
        value = random.randint(-128, 127)
        physical = [tuple(passes_utils.to_physical_order(pads, x)) for pads in (before, after)]
        padded = case("pad", x, *physical, value)
        if passes_utils.is_channels_last(x):
            # If a shape leaves the order open, the lowering uses channels last.
            padded.arguments[-1].dim_order = (0, 2, 3, 1)
        yield padded


_ARRANGEMENTS = (pack.SCALAR, pack.DSP, pack.MVE)


def cortex_m_cases(count: int, seed: int, arrangements: tuple[int, ...] = _ARRANGEMENTS) -> list[Case]:
    """Returns all kinds of calls, about 20 times `count`; packed layers in the arrangements that the cores take."""
    torch.manual_seed(seed)
    random.seed(seed)
    groups = [
        quantize_cases(count),
        elementwise_cases(count),
        convolution_cases(4 * count),
        depthwise_cases(2 * count),
        transpose_convolution_cases(2 * count),
        matmul_cases(count),
        pool_cases(2 * count),
        softmax_cases(count),
        softmax_by_table_cases(count),
        masked_softmax_cases(count),
        layout_cases(count),
        norm_cases(count),
        transposed_cases(count),
        prelu_cases(count),
        recurrent_cases(count),
        *(packed_cases(count, arrangement) for arrangement in arrangements),
        *(long_sum_cases(arrangement) for arrangement in arrangements),
        *(int4_cases(2 * count, arrangement) for arrangement in arrangements),
    ]
    cases = list(itertools.chain.from_iterable(groups))
    return cases + [_nhwc(each) for each in cases if _has_nhwc(each)]


def _has_nhwc(given: Case) -> bool:
    """Returns whether ExecuTorch 1.5 has the operator for images in NHWC, too: of average pooling its own list."""
    name = given.operator.removesuffix(".out")
    return name.endswith(("conv2d", "max_pool2d")) or (name.endswith("avg_pool2d") and len(given.arguments) == 10)


def _nhwc(given: Case) -> Case:
    """Returns a call with its images in NHWC."""
    x, *rest, out = given.arguments
    (expected,) = (each if each is None else each.permute(0, 2, 3, 1).contiguous() for each in given.expected)
    size = Out(out.dtype, tuple(out.sizes[dim] for dim in (0, 2, 3, 1)))
    operator = given.operator.removesuffix(".out") + "_nhwc.out"
    return Case(operator, [x.permute(0, 2, 3, 1).contiguous(), *rest, size], [expected])


def cortex_m_refused_cases(arrangement: int = pack.DSP) -> Iterator[Case]:
    """Calls that no int8 kernel may accept, with weights in an arrangement that the core takes."""
    x, out = image(1, 4, 5, 5), Out(torch.int8, (1, 4, 5, 5), (0, 2, 3, 1))
    small = Out(torch.int8, (1, 4, 3, 3), (0, 2, 3, 1))
    one = (2**30, 0)
    yield from refused(
        "cortex_m::quantized_add.out",
        [x, 0, *one, x, 0, *one, 0, *one, -128, 127, out],
        InvalidType=[{0: x.int()}],
        InvalidArgument=[
            {4: image(1, 3, 5, 5)}, {1: 1000}, {3: 40}, {2: 2**40}, {11: 5, 12: 4}, {12: 128}, {13: small}
        ],
    )  # fmt: skip
    weight = integers((4, 3, 3, 4))
    ones = torch.full((4,), 2**30, dtype=torch.int32)
    bias = torch.zeros(4, dtype=torch.int32)
    convolution = [x, weight, bias, (1, 1), (0, 0), (1, 1), 0, 0, ones, bias, -128, 127, _SCRATCH, small]
    yield from refused(
        "cortex_m::quantized_conv2d.out",
        convolution,
        InvalidType=[{1: integers((4, 3, 3, 4)).short()}, {2: bias.float()}],
        InvalidArgument=[
            {1: integers((4, 3, 3, 3))}, {1: integers((4, 6, 3, 4))}, {2: bias[:3]}, {3: (0, 1)}, {3: (1,)},
            {4: (-1, 0)}, {6: 300}, {8: ones[:2]}, {9: bias + 32}, {10: 100, 11: 50}, {13: out},
            {0: integers((4, 5, 5))},
        ],
    )  # fmt: skip
    depthwise = [*convolution[:6], 1, *convolution[6:]]
    wrong: list[dict[int, Any]] = [{1: integers((1, 3, 3, 6))}, {1: integers((2, 3, 3, 4))}]
    wrong.append({1: integers((1, 3, 3, 4)), 6: 2})
    yield from refused("cortex_m::quantized_depthwise_conv2d.out", depthwise, InvalidArgument=wrong)
    up = Out(torch.int8, (1, 4, 7, 7), (0, 2, 3, 1))
    transposed = [*convolution[:5], (0, 0), *convolution[5:12], _SCRATCH, _SCRATCH, up]
    wrong = [{5: (1, 0)}, {4: (9, 9)}, {1: integers((4, 3, 3, 3))}, {15: out}]
    yield from refused("cortex_m::quantized_transpose_conv2d.out", transposed, InvalidArgument=wrong)
    row, matrix = integers((2, 8)), integers((3, 8))
    yield from refused(
        "cortex_m::quantized_linear.out",
        [row, matrix, None, None, 0, 0, 0, (2**30,), (0,), 127, -128, Out(torch.int8, (2, 3))],
        InvalidType=[{2: torch.zeros(3)}, {0: row.int()}],
        InvalidArgument=[{1: integers((3, 7))}, {2: bias}, {7: ()}],
    )
    yield from refused(
        "cortex_m::quantized_max_pool2d.out",
        [x, (3, 3), (1, 1), (0, 0), (1, 1), False, 0, 0, -128, 127, small],
        NotSupported=[{4: (2, 2)}, {5: True}],
        InvalidArgument=[{6: 1}, {3: (2, 2)}, {1: (6, 6)}],
    )
    average = [x, (3, 3), (1, 1), (0, 0), 0, 0, 0, _SCRATCH, small]
    yield Case("cortex_m::quantized_avg_pool2d.out", average, error="InvalidArgument")
    # Images in channels_last are none in NHWC, nor are those of three dims.
    wrong = [{0: integers((4, 5, 5))}]
    yield from refused("cortex_m::quantized_conv2d_nhwc.out", convolution, NotSupported=[{}], InvalidArgument=wrong)
    yield from refused(
        "cortex_m::quantized_div.out",
        [x, 0, x, 0, 0, 1.0, out],
        InvalidType=[{2: x.int()}],
        InvalidArgument=[{2: image(1, 3, 5, 5)}, {1: 1000}, {5: float("inf")}, {5: float("nan")}, {6: small}],
    )
    yield Case("cortex_m::quantized_activation.out", [x, integers((255,)), out], error="InvalidArgument")
    yield Case("cortex_m::softmax.out", [x, 4, 0, -128, *one, -1, out], error="InvalidArgument")
    yield Case("cortex_m::softmax.out", [x, 1, 0, 0, *one, -1, out], error="InvalidArgument")
    table = torch.ones(256, dtype=torch.int16)
    yield from refused(
        "torch_fusion::quantized_softmax.out",
        [x, table, 1, out],
        InvalidType=[{1: table.int()}, {0: x.int()}],
        InvalidArgument=[{1: table[:255]}, {2: 4}],
    )
    masks = torch.full((1, 5, 5), -1, dtype=torch.int8)
    yield from refused(
        "torch_fusion::quantized_masked_softmax.out",
        [integers((4, 5, 5)), table, masks, 1, Out(torch.int8, (4, 5, 5))],
        InvalidType=[{2: masks.int()}, {1: masks}],
        InvalidArgument=[{3: 0}, {3: 7}, {2: masks[0]}, {2: masks[..., 1:]}, {2: masks[:, :3]}],
    )
    yield from refused(
        "cortex_m::quantize_per_tensor.out",
        [torch.randn(3), 0.5, 0, -128, 127, 1, Out(torch.int8, (3,))],
        InvalidType=[{5: 2}, {0: torch.zeros(3).int()}],
        InvalidArgument=[{1: 0.0}, {1: float("nan")}, {3: -129}],
    )
    scales, offsets = torch.ones(8, dtype=torch.int16), torch.zeros(8, dtype=torch.int32)
    yield from refused(
        "torch_fusion::quantized_layer_norm.out",
        [row, scales, offsets, None, 0.1, 12, Out(torch.int8, (2, 8))],
        InvalidType=[{0: row.int()}, {1: offsets}],
        InvalidArgument=[
            {1: scales[:7]}, {2: offsets[:7]}, {1: scales[:3], 2: offsets[:3]}, {3: 128}, {4: -0.1},
            {4: float("nan")}, {5: 31}, {5: -1}, {6: Out(torch.int8, (2, 7))},
        ],
    )  # fmt: skip
    group_norm = [x, scales[:4], offsets[:4], 2, 0.1, 12, out]
    wrong = [{3: 0}, {3: 3}, {3: -2}, {3: 8}, {1: scales[:5], 2: offsets[:5]}, {6: small}]
    yield from refused("torch_fusion::quantized_group_norm.out", group_norm, InvalidArgument=wrong)
    slopes = torch.ones(4, dtype=torch.int32)
    yield from refused(
        "torch_fusion::quantized_prelu.out",
        [x, slopes, 1, 0, 0, 12, out],
        InvalidType=[{1: slopes.short()}],
        InvalidArgument=[
            {1: torch.ones(5, dtype=torch.int32)}, {2: -1}, {2: 1 << 23}, {3: 128}, {4: -129}, {5: 23}, {5: -1},
            {6: small},
        ],
    )  # fmt: skip
    # An LSTM of 4 features and 8 units over 5 steps of a batch of 2.
    states = [Out(torch.float32, (2, 8))] * 2
    yield from refused(
        "torch_fusion::quantized_lstm.out",
        [
            *(integers((5, 2, 4)), None, None, integers((8, 48)), torch.ones(8, 12, dtype=torch.int32)),
            *(0, 15, 8192, 20, 0, False, False, Out(torch.int8, (5, 2, 8)), *states, Out(torch.int16, (40,))),
        ],
        InvalidArgument=[
            {0: integers((5, 2, 4)).int()}, {0: integers((5, 4))}, {0: integers((5, 2, 5))},
            {1: torch.zeros(3, 8)}, {1: torch.zeros(2, 8).double()},
            {3: integers((8, 36))}, {3: integers((48, 8))},
            {4: torch.ones(8, 10, dtype=torch.int32)}, {4: torch.ones(8, 12)},
            {5: 128}, {5: -129}, {6: 10}, {6: 16}, {7: -1}, {7: 32768}, {8: 0}, {8: 23}, {9: 128},
            {12: Out(torch.int8, (5, 2, 7))}, {13: Out(torch.float32, (3, 8))},
            {15: Out(torch.int16, (38,))}, {15: Out(torch.int32, (40,))},
        ],
    )  # fmt: skip
    packed = int4.pack_int4(_int4_layer(int4.LINEAR_INT4, 5, 40, True), arrangement)
    assert packed is not None
    yield from refused(
        "torch_fusion::linear_int4.out",
        [integers((2, 40)), packed, 5, Out(torch.int8, (2, 5))],
        InvalidType=[{0: integers((2, 40)).int()}],
        InvalidArgument=[{0: integers((2, 39))}, {3: Out(torch.int8, (2, 4))}],
    )
    # It is no layer on images.
    images = [image(1, 40, 2, 2), packed, 5, Out(torch.int8, (1, 5, 2, 2), (0, 2, 3, 1))]
    yield Case("torch_fusion::pointwise_int4.out", images, error="InvalidProgram")
    yield Case("cortex_m::transpose.out", [row, (0, 0), Out(torch.int8, (2, 2))], error="InvalidArgument")
    padded = [row, (0, 0, -1, 0), (0, 0, 0, 0), 0, Out(torch.int8, (1, 8))]
    yield Case("cortex_m::pad.out", padded, error="InvalidArgument")


def _int4_layer(kind: int, channels: int, inner: int, has_factors: bool, factor: float = 0.002) -> int4.Int4Layer:
    low, high = activation()
    factors = torch.randint(1, 128, (channels, -(-inner // INT4_BLOCK)))
    spread = factors.repeat_interleave(INT4_BLOCK, 1)[:, :inner] if has_factors else 1
    weight = torch.randint(-8, 8, (channels, inner)) * spread
    pairs = [passes_utils.quantize_multiplier_aot(factor * random.uniform(0.1, 1)) for _ in range(channels)]
    multipliers, shifts = (torch.tensor(values) for values in zip(*pairs, strict=True))
    bias = torch.randint(-3000, 3000, (channels,))
    return int4.Int4Layer(kind, weight, bias, multipliers, shifts, 0, random.randint(-128, 127), low, high)


def int4_cases(count: int, arrangement: int) -> Iterator[Case]:
    """Layers with int4 weights: every number of inputs and channels that is left over, with and without factors."""
    for _ in range(count):
        channels, inner, has_factors = random.randint(1, 13), random.randint(1, 100), random.random() < 0.5
        kind = random.choice([int4.LINEAR_INT4, int4.POINTWISE_INT4])
        factor = random.choice([0.5, 0.02, 0.002]) / (20 if has_factors else 1)
        layer = _int4_layer(kind, channels, inner, has_factors, factor)
        packed = int4.pack_int4(layer, arrangement)
        assert packed is not None
        if kind == int4.LINEAR_INT4:
            x = integers((*(random.randint(1, 3) for _ in range(random.randint(0, 3))), inner))
            out, expected = Out(torch.int8, (*x.shape[:-1], channels)), int4.compute(layer, x)
            yield Case("torch_fusion::linear_int4.out", [x, packed, channels, out], [expected])
            continue
        x = image(random.randint(1, 2), inner, random.randint(1, 4), random.randint(1, 4))
        expected = int4.compute(layer, x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        out = Out(torch.int8, tuple(expected.shape), (0, 2, 3, 1))
        yield Case("torch_fusion::pointwise_int4.out", [x, packed, channels, out], [expected])


def cortex_m_huge_cases() -> Iterator[Case]:
    """Calls with tensors that no microcontroller has memory for."""
    # Offsets of a dilation exceed 32 bits.
    x, weight = image(1, 4, 1, 20_000), integers((4, 1, 1, 4), -127)
    bias, multipliers, shifts = _per_channel(4, 4)
    rest = (0, 0, multipliers, shifts, -128, 127, _SCRATCH)
    once, far = ((1, 1), (0, 0), (1, 1)), ((1, 1), (0, 0), (32_767, 1))
    yield case("quantized_conv2d", x, weight, bias, *far, *rest, like=(x, weight, bias, *once, *rest))
    # Copies of padded rows would need scratch memory of a size beyond 32 bits.
    channels, width, padding = 1_020, 74_900, 32_767
    ones = torch.full((channels,), 2**30, dtype=torch.int32)
    windows = ((1, padding), (7, padding), (1, 1))
    layer = pack.Layer(pack.DEPTHWISE, integers((channels, 15, 1, 1)), None, *windows, 0, 0, ones, 0 * ones, -128, 127)
    x = torch.zeros(1, channels, 1, width, dtype=torch.int8).to(memory_format=torch.channels_last)
    out = Out(torch.int8, (1, channels, 1, (width + padding - 1) // padding + 2), (0, 2, 3, 1))
    for arrangement in _ARRANGEMENTS:
        arguments = [x, pack.pack(layer, arrangement), 0, torch.zeros(64, dtype=torch.uint8), out]
        yield Case("torch_fusion::depthwise_convolution.out", arguments, error="InvalidArgument")


def _convolution_layer(arguments: list[Any]) -> pack.Layer | None:
    x, weight, bias, stride, padding, dilation, input_offset, output_offset, multipliers, shifts, low, high = arguments[
        :12
    ]
    groups = x.shape[1] // weight.shape[3]
    if groups > 1 and not pack.has_grouped_kernel(pack.DSP, weight.shape, groups):
        return None
    rest = (input_offset, output_offset, multipliers, shifts, low, high, 1, groups)
    kind = pack.CONVOLUTION if groups == 1 else pack.GROUPED
    return pack.Layer(kind, weight, bias, stride, padding, dilation, *rest)


def _depthwise_layer(arguments: list[Any]) -> pack.Layer | None:
    x, weight, bias, stride, padding, dilation, multiplier, *rest = arguments[:13]
    if x.shape[1] < 4:
        return None
    return pack.Layer(pack.DEPTHWISE, weight.permute(3, 1, 2, 0), bias, stride, padding, dilation, *rest, multiplier)


def _linear_layer(arguments: list[Any]) -> pack.Layer | None:
    _, weight, bias, sums, input_offset, _, output_offset, multiplier, shift, high, low = arguments[:11]
    if sums is not None:
        return None
    factors = [torch.full(weight.shape[:1], value[0], dtype=torch.int32) for value in (multiplier, shift)]
    kernel = weight.reshape(weight.shape[0], 1, 1, -1)
    windows = ((1, 1), (0, 0), (1, 1))
    return pack.Layer(pack.LINEAR, kernel, bias, *windows, input_offset, output_offset, *factors, low, high)


_LAYERS = {
    "quantized_conv2d": _convolution_layer,
    "quantized_depthwise_conv2d": _depthwise_layer,
    "quantized_linear": _linear_layer,
}


def packed_cases(count: int, arrangement: int) -> Iterator[Case]:
    """Yields packed layers, for one of the arrangements of weights, with the dialect's results for unpacked layers."""
    yield from _packed(
        itertools.chain(convolution_cases(3 * count), depthwise_cases(2 * count), matmul_cases(count)), arrangement
    )


def long_sum_cases(arrangement: int) -> Iterator[Case]:
    """Yields packed layers with the largest sums of many products: linear ones, convolutions of one to five pixels."""
    one = ((1, 1), (0, 0), (1, 1))
    found = []
    for inner, channels, value in ((1_203, 7, 127), (2_048, 2, -127), (4_100, 5, 127), (505, 3, 127), (504, 4, -127)):
        weight = torch.full((channels, 1, 1, inner), value, dtype=torch.int8)
        weight[::3, ..., ::2] = -value
        _, multipliers, shifts = _per_channel(channels, 128 * inner)
        bias = torch.randint(-(2**20), 2**20, (channels,), dtype=torch.int32)
        for pixels in (1, 5):
            x = torch.full((1, inner, 1, pixels), -128, dtype=torch.int8)
            # The dialect adds in floating point, in which these are exact.
            x[:, ::5] = 64
            x = x.to(memory_format=torch.channels_last)
            rest = (0, zero_point(), multipliers, shifts, -128, 127)
            found.append(case("quantized_conv2d", x, weight, bias, *one, *rest, _SCRATCH))
            rows, kernel = x.permute(0, 2, 3, 1).reshape(pixels, inner), weight.reshape(channels, inner)
            offsets, factors = (0, 0, zero_point()), ((int(multipliers[0]),), (int(shifts[0]),))
            found.append(case("quantized_linear", rows, kernel, bias, None, *offsets, *factors, 127, -128))
    yield from _packed(found, arrangement)


def _packed(found_cases: Iterable[Case], arrangement: int) -> Iterator[Case]:
    for found in found_cases:
        operator = found.operator.removeprefix("cortex_m::").removesuffix(".out")
        layer = _LAYERS[operator](found.arguments) if operator in _LAYERS else None
        if layer is None:
            continue
        if layer.kind == pack.GROUPED and arrangement == pack.MVE:
            continue
        if layer.kind == pack.DEPTHWISE and arrangement == pack.MVE and len(layer.weight) % 4 != 0:
            continue
        if layer.kind == pack.DEPTHWISE and arrangement != pack.DSP and (layer.times, *layer.dilation) != (1, 1, 1):
            continue
        constant = pack.pack(layer, arrangement)
        head = pack.Head.unpack(constant.numpy().tobytes())
        x, out = found.arguments[0], found.arguments[-1]
        name = {
            pack.CONVOLUTION: "convolution",
            pack.DEPTHWISE: "depthwise_convolution",
            pack.GROUPED: "grouped_convolution",
            pack.LINEAR: "linear",
        }[head.kind]
        arguments = [x, constant, pack.geometry_of(head)]
        if head.kind != pack.LINEAR:
            arguments.append(torch.zeros(pack.scratch_size(head, x.shape[-1]), dtype=torch.uint8))
        yield Case(f"torch_fusion::{name}.out", [*arguments, out], found.expected)
        if head.kind == pack.LINEAR:
            yield from _linear(layer, arrangement, x, arguments, found.expected[0])


def _linear(layer: pack.Layer, arrangement: int, x: Tensor, arguments: list[Any], result: Tensor) -> Iterator[Case]:
    """Yields the other forms of a linear layer: by a table, of rows together, transposed, and with floats."""
    table = torch.arange(256).mul(77).to(torch.int8)
    out = Out(torch.int8, tuple(result.shape))
    yield Case("torch_fusion::linear_table.out", [*arguments, table, out], [table[result.int() + 128]])
    head = pack.Head.unpack(arguments[1].numpy().tobytes())
    scale, point = 0.0371, int(result.flatten()[0]) if result.numel() else 0
    constant = pack.pack(replace(layer, floats=Floats(1 / 0.53, scale, point)), arrangement)
    # Numbers that become the same integers.
    numbers = _operators.dequantize_per_tensor(x, 0.53, head.input_zero_point, -128, 127, torch.int8)
    scratch = torch.zeros(pack.rows_scratch_size(head), dtype=torch.uint8)
    forms = [("linear", [], result), ("linear_rows", [scratch], result)]
    if arrangement != pack.MVE:
        forms.append(("linear_transposed", [scratch], result.reshape(-1, head.channels).T.contiguous()))
    for name, scratches, expected in forms:
        outputs = [expected, _operators.dequantize_per_tensor(expected, scale, point, -128, 127, torch.int8)]
        for given, values in itertools.product((x, numbers), outputs):
            call = [given, constant, *arguments[2:], *scratches, Out(values.dtype, tuple(values.shape))]
            if given is x or x.numel() <= MOST_FLOATS:
                yield Case(f"torch_fusion::{name}.out", call, [values])
            elif values is expected:
                yield Case(f"torch_fusion::{name}.out", call, error="InvalidArgument")
