"""Moves averages of images before the pointwise convolutions whose results they average, or into those that follow.

A convolution with a kernel of one pixel adds over channels, an average over pixels: the order does not matter, and the
convolution of averages has fewer pixels. DenseNet's transitions are written the other way round.
"""

import math

import torch
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments, rewrites

_aten = torch.ops.aten

# A convolution in integers is given a pooling's pixels if it has at most so many more products for each of its inputs,
# and so many weights more. Measured on a Cortex-M4: a mean takes 60 instructions, a product 0.6.
_MAX_PRODUCTS = 64
_MAX_WEIGHTS = 1024


@rewrites(_aten.avg_pool2d.default)
def average_first(node: Node) -> Node | None:
    """Averages the inputs of pointwise convolutions where their results are averaged, in place.

    Batch normalization must be folded.
    """
    convolution = node.args[0]
    if not _is_pointwise(convolution) or len(convolution.users) > 1:
        return None
    pooling = named_arguments(node)
    is_padded = any(for_each(pooling["padding"])) and pooling["count_include_pad"]
    strides = for_each(pooling["stride"] or pooling["kernel_size"])
    image = convolution.args[0]
    channels, results = (each.meta["val"].shape[1] for each in (image, convolution))
    if is_padded or pooling["divisor_override"] or math.prod(strides) == 1 or channels > 2 * results:
        return None
    means = emit(node, node.target, image, *node.args[1:], **node.kwargs)
    return emit(convolution, convolution.target, means, *convolution.args[1:], **convolution.kwargs)


@rewrites(_aten.conv2d.default)
def convolve_averages(node: Node) -> Node | None:
    """Makes poolings the kernels of pointwise convolutions behind them, where those have few channels, in place.

    Batch normalization must be folded, and constants must be propagated afterwards.
    """
    pooling = node.args[0] if _is_pointwise(node) else None
    if pooling is None or pooling.target != _aten.avg_pool2d.default or len(pooling.users) > 1:
        return None
    given, convolution = named_arguments(pooling), named_arguments(node)
    kernel = for_each(given["kernel_size"])
    padding = for_each(given["padding"])
    strides = for_each(given["stride"] or kernel)
    results, channels = convolution["weight"].meta["val"].shape[:2]
    more = math.prod(kernel) - 1
    if (
        # In floating point, before it is quantized, an input is averaged with fewer instructions.
        (pooling.args[0].op == "placeholder" and kernel == strides == [2, 2])
        or convolution["groups"] > 1
        or given["ceil_mode"]
        or given["divisor_override"]
        or (any(padding) and not given["count_include_pad"])
        or results * more > _MAX_PRODUCTS
        or results * channels * more > _MAX_WEIGHTS
    ):
        return None
    part = emit(node, _aten.div.Tensor, convolution["weight"], more + 1)
    weight = emit(node, _aten.repeat.default, part, [1, 1, *kernel])
    return emit(node, node.target, given["self"], weight, convolution["bias"], strides, padding)


def _is_pointwise(node: Node) -> bool:
    """Returns whether a node convolves images pixel by pixel, all of them."""
    if not isinstance(node, Node) or node.target != _aten.conv2d.default:
        return False
    given = named_arguments(node)
    is_whole = [*for_each(given["stride"]), *for_each(given["padding"])] == [1, 1, 0, 0]
    return is_whole and given["weight"].meta["val"].shape[2:] == (1, 1) and given["input"].meta["val"].dim() == 4
