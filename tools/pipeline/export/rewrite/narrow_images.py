"""Images that are one pixel wide, laid down.

A convolution over time is often written as a two-dimensional one over [batch, channels, steps, 1], with a kernel of k
by 1. Kernels compute a row of outputs at a time, so that rows of one pixel take longer than the same pixels in one row,
in int8 several times. In memory both images are the same bytes: such a convolution is computed of [batch, channels, 1,
steps], with the activations behind it, and nothing moves.
"""

from __future__ import annotations

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
      graph: of a program as it was captured, or functional.
      is_channels_last: whether convolutions read images that lie channels-last; in the default order if not.
      activations: operators of one tensor that compute each element by itself, which are to stay beside the
        convolution whose result they read.
    """
    # What is an image of one pixel's width now -> the same one lying.
    lying: dict[Node, Node] = {}
    for node in list(graph.nodes):
        if not _is_narrow(node):
            continue
        given = named_arguments(node)
        image = given["input"]
        with graph.inserting_before(node):
            if image not in lying:
                lying[image] = _turned(graph, node, image, is_channels_last)
            kernel = given["weight"].meta["val"].shape
            weight = emit(graph, node, _aten.reshape.default, given["weight"], [*kernel[:2], 1, kernel[2]])
            stride, padding, dilation = (for_each(given[name])[0] for name in ("stride", "padding", "dilation"))
            windows = [1, stride], [0, padding], [1, dilation]
            result = emit(
                graph, node, _aten.conv2d.default, lying[image], weight, given["bias"], *windows, given["groups"]
            )
        last = node
        while len(last.users) == 1 and (user := next(iter(last.users))).target in activations:
            with graph.inserting_before(user):
                result = emit(graph, user, user.target, result, *user.args[1:], **user.kwargs)
            last = user
        with graph.inserting_before(last):
            standing = _turned(graph, last, result, is_channels_last)
        last.replace_all_uses_with(standing)
        lying[standing] = result
    graph.eliminate_dead_code()


def _is_narrow(node: Node) -> bool:
    """Whether a node is a convolution of an image, and with a kernel, that are one pixel wide, and higher."""
    if node.target != _aten.conv2d.default:
        return False
    given = named_arguments(node)
    shapes = [given["input"].meta["val"].shape, given["weight"].meta["val"].shape, node.meta["val"].shape]
    is_known = all(isinstance(size, int) for shape in shapes for size in shape)
    return is_known and all(len(shape) == 4 and shape[3] == 1 for shape in shapes) and shapes[0][2] > 1


def _turned(graph: Graph, origin: Node, image: Node, is_channels_last: bool) -> Node:
    """An image whose rows are columns, as one of them has one pixel: nothing moves if it lies as is said."""
    batch, channels, height, width = image.meta["val"].shape
    if not is_channels_last:
        return emit(graph, origin, _aten.reshape.default, image, [batch, channels, width, height])
    pixels = emit(graph, origin, _aten.permute.default, image, PIXELS)
    turned = emit(graph, origin, _aten.reshape.default, pixels, [batch, width, height, channels])
    result = emit(graph, origin, _aten.permute.default, turned, IMAGE)
    return emit(graph, origin, _aten.clone.default, result, memory_format=torch.channels_last)
