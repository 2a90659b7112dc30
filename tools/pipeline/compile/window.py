"""Represents windows of convolutions and poolings, and makes calls of those in float32."""

import math
from collections.abc import Callable, Mapping, Sequence

from tools.pipeline.compile.call import Call, are_plain, flag, int_list, ints, pointer
from tools.pipeline.compile.chain import Window
from tools.pipeline.compile.layout import kind_of
from tools.pipeline.compile.program import Method


def windows_name(windows: Sequence[Window]) -> str:
    """Describes windows as a part of a name: sizes, kernel, and unusual parameters."""
    name = f"{'x'.join(str(window.size) for window in windows)}Kernel{'x'.join(str(w.kernel) for w in windows)}"
    for word, values, usual in (
        ("Stride", [window.stride for window in windows], 1),
        ("Padding", [window.padding for window in windows], 0),
        ("Dilation", [window.dilation for window in windows], 1),
    ):
        if any(value != usual for value in values):
            name += word + "x".join(map(str, values))
    return name


def _parameters(values: Sequence[int], count: int, default: Sequence[int]) -> Sequence[int] | None:
    """Expands parameters to one per dim: a single one holds for all, and none means the default; None for another
    number.
    """
    if len(values) in (0, 1):
        return list(values) * count if values else default
    return values if len(values) == count else None


def _windows(
    sizes: Sequence[int], kernel: Sequence[int], lists: Sequence[Sequence[int] | None], rounds_up: bool
) -> list[Window] | None:
    """Returns windows for lists of strides, paddings and dilations, or None if their kernel refuses them."""
    count = len(sizes)
    defaults: tuple[Sequence[int], ...] = (kernel, [0] * count, [1] * count)
    chosen = [
        None if values is None else _parameters(values, count, default)
        for values, default in zip(lists, defaults, strict=True)
    ]
    strides, paddings, dilations = chosen
    if strides is None or paddings is None or dilations is None:
        return None
    windows = [Window(*numbers, rounds_up) for numbers in zip(sizes, kernel, strides, paddings, dilations, strict=True)]
    return windows if all(window.is_taken for window in windows) else None


def _convolution(method: Method, arguments: Sequence[int]) -> Call | None:
    """Calls a float32 convolution over one to three dims, contiguous and not transposed."""
    x, weight, bias, stride, padding, dilation, transposed, _output_padding, groups, out = arguments
    has_bias = kind_of(method.value(bias)) == "Tensor"
    tensors = (x, weight, *((bias,) if has_bias else ()), out)
    number = ints(method, groups)
    if not are_plain(method, "FLOAT", *tensors) or number is None:
        return None
    sizes, of_weight, of_out = (method.shapes[index].sizes for index in (x, weight, out))
    count = len(sizes) - 2
    if not 1 <= count <= 3 or len(of_weight) != len(sizes) or min(*sizes, *of_weight) < 1:
        return None
    if flag(method, transposed) is not False or number[0] < 1 or of_weight[0] % number[0]:
        return None
    lists = [int_list(method, index) for index in (stride, padding, dilation)]
    windows = _windows(sizes[2:], of_weight[2:], lists, rounds_up=False)
    if windows is None or sizes[1] != of_weight[1] * number[0]:
        return None
    if of_out != (sizes[0], of_weight[0], *(window.out for window in windows)):
        return None
    if has_bias and method.shapes[bias].sizes != (of_weight[0],):
        return None
    name = f"kConvolution{sizes[1]}To{of_weight[0]}On{windows_name(windows)}"
    name += (f"Groups{number[0]}" if number[0] != 1 else "") + (f"Images{sizes[0]}" if sizes[0] != 1 else "")
    channels = f"{number[0]}, {of_weight[1]}, {of_weight[0] // number[0]}"
    axes = ", ".join([*["Window()"] * (3 - count), *(window.text for window in windows)])
    definition = f"constexpr ConvolutionShape {name} = {{{sizes[0]}, {channels}, false, {{{axes}}}}};"
    given = [
        pointer(method, x, "float"),
        pointer(method, weight, "float"),
        pointer(method, bias, "float") if has_bias else "nullptr",
        pointer(method, out, "float", is_out=True),
        name,
    ]
    return Call("kernels/portable/convolution.h", "convolution", given, tensors, {name: definition})


def _max_pool(method: Method, arguments: Sequence[int]) -> Call | None:
    x, kernel, stride, padding, dilation, ceil_mode, out = arguments
    pool = _pool(method, x, kernel, (stride, padding, dilation), ceil_mode, out)
    if pool is None:
        return None
    planes, names, objects = pool
    given = [pointer(method, x, "float"), pointer(method, out, "float", is_out=True), "nullptr /* indices */"]
    given += [planes, "ContiguousPlanes()", "ContiguousPlanes()", *names]
    return Call("kernels/portable/pool.h", "max_pool", given, (x, out), objects)


def _avg_pool(method: Method, arguments: Sequence[int]) -> Call | None:
    x, kernel, stride, padding, ceil_mode, count_padding, divisor, out = arguments
    pool = _pool(method, x, kernel, (stride, padding, None), ceil_mode, out)
    has_divisor = kind_of(method.value(divisor)) != "Null"
    fixed = ints(method, divisor) if has_divisor else [0]
    counts = flag(method, count_padding)
    if pool is None or fixed is None or counts is None or divisor in method.values:
        return None
    if has_divisor and (fixed[0] == 0 or not -(2**31) <= fixed[0] < 2**31):
        return None
    planes, names, objects = pool
    given = [pointer(method, x, "float"), pointer(method, out, "float", is_out=True), planes, *names]
    given += [f"{'true' if counts else 'false'} /* padding counts */"]
    given += [f"{fixed[0]} /* divisor */"]
    return Call("kernels/portable/pool.h", "avg_pool_contiguous", given, (x, out), objects)


def _pool(
    method: Method, x: int, kernel: int, lists: Sequence[int | None], ceil_mode: int, out: int
) -> tuple[str, list[str], dict[str, str]] | None:
    """Returns planes, and names and definitions of both windows, of a contiguous float32 pooling; None for others."""
    rounds_up = flag(method, ceil_mode)
    if not are_plain(method, "FLOAT", x, out) or rounds_up is None:
        return None
    sizes = method.shapes[x].sizes
    given = int_list(method, kernel)
    kernels = _parameters(given, 2, []) if given else None
    if len(sizes) not in (3, 4) or min(sizes) < 1 or not kernels:
        return None
    read = [int_list(method, index) if index is not None else [] for index in lists]
    windows = _windows(sizes[-2:], kernels, read, rounds_up)
    if windows is None or any(2 * window.padding > window.kernel for window in windows):
        return None
    if method.shapes[out].sizes != (*sizes[:-2], *(window.out for window in windows)):
        return None
    names = [f"kWindow{windows_name([window])}{'RoundsUp' if window.rounds_up else ''}" for window in windows]
    objects = {name: f"constexpr Window {name} = {window.text};" for name, window in zip(names, windows, strict=True)}
    return f"{math.prod(sizes[:-2])} /* planes */", names, objects


WINDOW_CALLS: Mapping[str, Callable[[Method, Sequence[int]], Call | None]] = {
    "aten::avg_pool2d.out": _avg_pool,
    "aten::convolution.out": _convolution,
    "torch_fusion::max_pool2d.out": _max_pool,
}
