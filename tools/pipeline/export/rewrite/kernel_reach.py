"""Kernels of convolutions without the rows and columns that only ever lie over padding.

The last layers of networks for large images see small ones on a microcontroller: of a kernel of 3 by 3 over one pixel,
padded by one, eight of nine weights are multiplied by zero alone. They are left out, exactly, and take no flash.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments, replace_node

_aten = torch.ops.aten

# Convolution -> how many dimensions its kernel has, and the operator that takes padding in numbers.
_CONVOLUTIONS = {
    _aten.conv1d.default: (1, _aten.conv1d.default),
    _aten.conv1d.padding: (1, _aten.conv1d.default),
    _aten.conv2d.default: (2, _aten.conv2d.default),
    _aten.conv2d.padding: (2, _aten.conv2d.default),
    _aten.conv3d.default: (3, _aten.conv3d.default),
    _aten.conv3d.padding: (3, _aten.conv3d.default),
}


def leave_out_what_is_over_padding(program: ExportedProgram) -> ExportedProgram:
    """Cuts the weights of convolutions to what reaches their images, in place.

    Args:
      program: as it was captured, with batch normalization folded; constants are to be propagated afterwards.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _CONVOLUTIONS:
            _cut(program, node)
    program.graph_module.recompile()
    return program


def _cut(program: ExportedProgram, node: Node) -> None:
    dims, operator = _CONVOLUTIONS[node.target]
    given = named_arguments(node)
    image, weight = given["input"], given["weight"]
    sizes, kernel, results = (each.meta["val"].shape[-dims:] for each in (image, weight, node))
    if not all(isinstance(size, int) for size in (*sizes, *results)):
        return
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
        # As much is padded behind the image as before it, which must make as many results as there were.
        if end > begin and left >= 0 and (size + 2 * left - apart * (end - begin - 1) - 1) // step + 1 == count:
            begins[axis], ends[axis], padding[axis] = begin, end, left
        elif given["padding"] == "same" and kernel[axis] % 2 == 0:
            # One more is padded behind the image than before it.
            return
    if (begins, ends) == ([0] * dims, list(kernel)):
        return
    with node.graph.inserting_before(node):
        for axis, (begin, end) in enumerate(zip(begins, ends, strict=True)):
            if end - begin != kernel[axis]:
                weight = emit(node.graph, node, _aten.slice.Tensor, weight, 2 + axis, begin, end)
        result = emit(
            node.graph, node, operator, image, weight, given["bias"], stride, padding, dilation, given["groups"]
        )
    replace_node(program, node, result)
    node.graph.erase_node(node)


def _used(size: int, results: int, kernel: int, stride: int, dilation: int, padding: int) -> list[int]:
    """The rows, or columns, of a kernel that lie over the image for one of the results at least."""
    used = []
    for place in range(kernel):
        # Result y has it over row y * stride + first.
        first = place * dilation - padding
        if max(0, -(first // stride)) <= min(results - 1, (size - 1 - first) // stride):
            used.append(place)
    return used
