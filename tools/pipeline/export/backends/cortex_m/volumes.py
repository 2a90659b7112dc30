"""Writes layers of volumes, [1, channels, depth, height, width], as layers of images, whose batch is the depth.

A convolution of a volume is one of images that have the planes under a window as channels. A pooling of a volume is a
pooling of each plane, and then one of the volume viewed as an image, [1, channels, depth, height * width]. A chain of
such layers changes its layout only at its ends: a volume's pixels lie in the order [depth, height, width, channels].
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.dim_orders import IMAGE, PIXELS
from tools.pipeline.export.ir.rewriting import emit, for_each, named_arguments, replace_node

_aten = torch.ops.aten

# Functions of one tensor and numbers.
_ELEMENTWISE = (
    _aten.relu.default, _aten.relu6.default, _aten.hardtanh.default, _aten.leaky_relu.default, _aten.sigmoid.default,
    _aten.silu.default, _aten.tanh.default, _aten.elu.default, _aten.gelu.default, _aten.hardswish.default,
)  # fmt: skip

_POOLINGS = {_aten.max_pool3d.default: _aten.max_pool2d.default, _aten.avg_pool3d.default: _aten.avg_pool2d.default}


def write_volumes(program: ExportedProgram) -> ExportedProgram:
    """Rewrites convolutions of one group over a volume of static sizes, and the layers that follow them, in place."""
    _Volumes(program).rewrite()
    return program


class _Volumes:
    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._graph = program.graph
        # Maps volumes to their planes, images [depth, channels, height, width].
        self._planes: dict[Node, Node] = {}

    def rewrite(self) -> None:
        makers: dict[Any, Callable[[Node], Node | None]] = {
            _aten.conv3d.default: self._convolution,
            **dict.fromkeys(_POOLINGS, self._pooling),
            **dict.fromkeys(_ELEMENTWISE, self._elementwise),
        }
        rewritten: dict[Node, Node] = {}
        for node in list(self._graph.nodes):
            if node.op != "call_function" or node.target not in (*makers, _aten.adaptive_avg_pool3d.default):
                continue
            with self._graph.inserting_before(node):
                if node.target == _aten.adaptive_avg_pool3d.default:
                    self._mean(node)
                    continue
                planes = makers[node.target](node)
            if planes is not None:
                self._planes[node] = rewritten[node] = planes
        for volume, planes in rewritten.items():
            if not volume.users.keys() <= rewritten.keys():
                with self._graph.inserting_before(volume):
                    size = list(volume.meta["val"].shape)
                    image = self._view(volume, planes, [1, size[2] * size[3], size[4], size[1]])
                    left = emit(volume, _aten.reshape.default, image, size)
                replace_node(self._program, volume, left)
        self._graph.eliminate_dead_code()

    def _view(self, node: Node, image: Node, pixels: list[int]) -> Node:
        """Returns an image's pixels as an image with pixels of other sizes, in the same order."""
        moved = emit(node, _aten.permute.default, image, PIXELS)
        return emit(node, _aten.permute.default, emit(node, _aten.reshape.default, moved, pixels), IMAGE)

    def _enter(self, node: Node, volume: Node) -> Node:
        """Returns the planes of a volume that `node` reads."""
        if volume not in self._planes:
            _, channels, depth, height, width = volume.meta["val"].shape
            image = emit(node, _aten.reshape.default, volume, [1, channels, depth * height, width])
            self._planes[volume] = self._view(node, image, [depth, height, width, channels])
        return self._planes[volume]

    def _convolution(self, node: Node) -> Node | None:
        given = named_arguments(node)
        shape = given["input"].meta["val"].shape
        if len(shape) != 5 or shape[0] != 1 or given["groups"] != 1 or not all(isinstance(size, int) for size in shape):
            return None
        stride, padding, dilation = (for_each(given[name], 3) for name in ("stride", "padding", "dilation"))
        planes, weight = self._enter(node, given["input"]), given["weight"]
        outputs, channels, deep, *kernel = weight.meta["val"].shape
        if deep > 1 or stride[0] > 1 or padding[0]:
            pixels = emit(node, _aten.permute.default, planes, PIXELS)
            if padding[0]:
                sides = [0, 0, 0, 0, 0, 0, padding[0], padding[0]]
                pixels = emit(node, _aten.constant_pad_nd.default, pixels, sides, 0.0)
            reach = (node.meta["val"].shape[2] - 1) * stride[0] + 1
            starts = range(0, deep * dilation[0], dilation[0])
            parts = [emit(node, _aten.slice.Tensor, pixels, 0, start, start + reach, stride[0]) for start in starts]
            joined = emit(node, _aten.cat.default, parts, 3) if deep > 1 else parts[0]
            planes = emit(node, _aten.permute.default, joined, IMAGE)
        by_plane = emit(node, _aten.permute.default, weight, [0, 2, 1, 3, 4])
        flat = emit(node, _aten.reshape.default, by_plane, [outputs, deep * channels, *kernel])
        windows = stride[1:], padding[1:], dilation[1:]
        return emit(node, _aten.conv2d.default, planes, flat, given["bias"], *windows)

    def _elementwise(self, node: Node) -> Node | None:
        planes = self._planes.get(node.args[0])
        return None if planes is None else emit(node, node.target, planes, *node.args[1:], **node.kwargs)

    def _pooling(self, node: Node) -> Node | None:
        given = named_arguments(node)
        planes = self._planes.get(next(iter(given.values())))
        if planes is None or given.get("divisor_override"):
            return None
        kernel = for_each(given["kernel_size"], 3)
        windows = [kernel, *(for_each(given[name] or kernel, 3) for name in ("stride", "padding"))]
        rest = [given["ceil_mode"]]
        if "dilation" in given:
            windows.append(for_each(given["dilation"], 3))
        else:
            rest.append(given["count_include_pad"])
        operator = _POOLINGS[node.target]
        planes = emit(node, operator, planes, *(each[1:] for each in windows), *rest)
        depth, channels, height, width = planes.meta["val"].shape
        image = self._view(node, planes, [1, depth, height * width, channels])
        deep = [[each[0], neutral] for each, neutral in zip(windows, (1, 1, 0, 1), strict=False)]
        pooled = emit(node, operator, image, *deep, *rest)
        return self._view(node, pooled, [node.meta["val"].shape[2], height, width, channels])

    def _mean(self, node: Node) -> None:
        """Writes the mean of each channel of a volume as that of an image."""
        volume, size = node.args
        planes = self._planes.get(volume)
        if planes is None or list(size) != [1, 1, 1]:
            return
        depth, channels, height, width = planes.meta["val"].shape
        image = self._view(node, planes, [1, depth * height, width, channels])
        mean = emit(node, _aten.mean.dim, image, [2, 3], True)
        node.replace_all_uses_with(emit(node, _aten.reshape.default, mean, list(node.meta["val"].shape)))
