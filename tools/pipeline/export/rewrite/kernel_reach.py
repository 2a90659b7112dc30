"""Removes rows and columns of convolution kernels that only ever multiply padding.

The last layers of networks for large images see small ones on a microcontroller. If a 3x3 kernel with a padding of one
reads a single pixel, eight of its nine weights only multiply zeros. Removing them is exact and saves flash.
"""

import torch
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments, rewrites

_aten = torch.ops.aten

# Maps convolutions to the number of their kernel's dimensions, and to the operator with padding in numbers.
_CONVOLUTIONS = {
    _aten.conv1d.default: (1, _aten.conv1d.default),
    _aten.conv1d.padding: (1, _aten.conv1d.default),
    _aten.conv2d.default: (2, _aten.conv2d.default),
    _aten.conv2d.padding: (2, _aten.conv2d.default),
    _aten.conv3d.default: (3, _aten.conv3d.default),
    _aten.conv3d.padding: (3, _aten.conv3d.default),
}


@rewrites(*_CONVOLUTIONS)
def leave_out_what_is_over_padding(node: Node) -> Node | None:
    """Crops the weights of convolutions to the part that reaches their images, in place.

    Batch normalization must be folded, and constants must be propagated afterwards.
    """
    dims, operator = _CONVOLUTIONS[node.target]
    given = named_arguments(node)
    image, weight = given["input"], given["weight"]
    sizes, kernel, results = (each.meta["val"].shape[-dims:] for each in (image, weight, node))
    if not all(isinstance(size, int) for size in (*sizes, *results)):
        return None
    stride, dilation = (for_each(given[name], dims) for name in ("stride", "dilation"))
    padding = given["padding"]
    if padding == "same":
        padding = [d * (k - 1) // 2 for d, k in zip(dilation, kernel, strict=True)]
    elif padding == "valid":
        padding = 0
    padding = for_each(padding, dims)
    begins, ends = [0] * dims, list(kernel)
    for axis, (size, count) in enumerate(zip(sizes, results, strict=True)):
        step, apart, before = stride[axis], dilation[axis], padding[axis]
        used = _used(size, count, kernel[axis], step, apart, before)
        begin, end = min(used, default=0), max(used, default=-1) + 1
        left = before - begin * apart
        # The padding is the same on both sides, and must give the same number of results.
        if end > begin and left >= 0 and (size + 2 * left - apart * (end - begin - 1) - 1) // step + 1 == count:
            begins[axis], ends[axis], padding[axis] = begin, end, left
        elif given["padding"] == "same" and kernel[axis] % 2 == 0:
            # `same` pads one more element after the image than before it.
            return None
    if (begins, ends) == ([0] * dims, list(kernel)):
        return None
    for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
        if end - begin != kernel[axis]:
            weight = emit(node, _aten.slice.Tensor, weight, 2 + axis, begin, end)
    return emit(node, operator, image, weight, given["bias"], stride, padding, dilation, given["groups"])


def _used(size: int, results: int, kernel: int, stride: int, dilation: int, padding: int) -> list[int]:
    """Returns the rows, or columns, of a kernel that overlap the image for at least one result."""
    used = []
    for place in range(kernel):
        # Result y multiplies it by row y * stride + first.
        first = place * dilation - padding
        if max(0, -(first // stride)) <= min(results - 1, (size - 1 - first) // stride):
            used.append(place)
    return used
