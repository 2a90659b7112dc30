"""Transposes images that are one pixel wide.

A convolution over time is often written as a two-dimensional one over [batch, channels, steps, 1], with a k x 1 kernel.
Kernels compute a row of outputs at a time, so that rows of one pixel take longer than the same pixels in one row, in
int8 several times longer. Both images are the same bytes in memory. Such a convolution and the activations behind it
are computed on [batch, channels, 1, steps], which moves no data.
"""

from collections.abc import Collection
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments

_aten = torch.ops.aten


def lay_down_narrow_images(program: ExportedProgram) -> None:
    """Rewrites convolutions of images that are one pixel wide, in the default order of dimensions, in place."""
    lay_down(program.graph, is_channels_last=False)


def lay_down(graph: Graph, is_channels_last: bool, activations: Collection[Any] = ()) -> None:
    """Rewrites convolutions of images that are one pixel wide, in place.

    Args:
      graph: the graph of a captured or functional program.
      is_channels_last: whether convolutions read images in channels-last order instead of the default order.
      activations: elementwise operators of one tensor, which stay next to the convolution whose result they read.
    """
    # Maps images that are one pixel wide to their transposed form.
    lying: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if not _is_narrow(node):
            continue
        given = named_arguments(node)
        image = given["input"]
        with graph.inserting_before(node):
            if image not in lying:
                lying[image] = _turned(node, image, is_channels_last)
            kernel = given["weight"].meta["val"].shape
            weight = emit(node, _aten.reshape.default, given["weight"], [*kernel[:2], 1, kernel[2]])
            stride, padding, dilation = (for_each(given[name])[0] for name in ("stride", "padding", "dilation"))
            windows = [1, stride], [0, padding], [1, dilation]
            result = emit(node, _aten.conv2d.default, lying[image], weight, given["bias"], *windows, given["groups"])
        last = node
        while len(last.users) == 1 and (user := next(iter(last.users))).target in activations:
            with graph.inserting_before(user):
                result = emit(user, user.target, result, *user.args[1:], **user.kwargs)
            last = user
        with graph.inserting_before(last):
            standing = _turned(last, result, is_channels_last)
        last.replace_all_uses_with(standing)
        lying[standing] = result
    graph.eliminate_dead_code()


def _is_narrow(node: Node) -> bool:
    """Whether a node is a convolution of an image with a kernel that are both one pixel wide, and higher than that."""
    if node.target != _aten.conv2d.default:
        return False
    given = named_arguments(node)
    shapes = [given["input"].meta["val"].shape, given["weight"].meta["val"].shape, node.meta["val"].shape]
    is_known = all(isinstance(size, int) for shape in shapes for size in shape)
    return is_known and all(len(shape) == 4 and shape[3] == 1 for shape in shapes) and shapes[0][2] > 1


def _turned(origin: Node, image: Node, is_channels_last: bool) -> Node:
    """Swaps height and width of an image, one of which is 1. This moves no data if the image has the given order."""
    batch, channels, height, width = image.meta["val"].shape
    if not is_channels_last:
        return emit(origin, _aten.reshape.default, image, [batch, channels, width, height])
    pixels = emit(origin, _aten.permute.default, image, PIXELS)
    turned = emit(origin, _aten.reshape.default, pixels, [batch, width, height, channels])
    result = emit(origin, _aten.permute.default, turned, IMAGE)
    return emit(origin, _aten.clone.default, result, memory_format=torch.channels_last)
