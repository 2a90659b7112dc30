"""Networks of rows, [batch, channels, steps], as networks of images that are one row high.

ExecuTorch's Arm backends compute convolutions of rows as such of images themselves, one by one, with their channels
last, and all else on rows, with their steps last: each convolution beside something else moves all elements twice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.operators import REDUCTIONS
from tools.pipeline.export.ir.rewriting import as_list, emit
from tools.pipeline.export.rewrite.added_dimension import AddedDimension, Call, moved_dimension

_aten = torch.ops.aten

# Where images have the dimension that rows have not.
_HEIGHT = 2
_STEPS = 3
# Layers of rows, by those of images.
_OF_ROWS = {
    _aten.adaptive_avg_pool1d.default: _aten.adaptive_avg_pool2d.default,
    _aten.avg_pool1d.default: _aten.avg_pool2d.default,
    _aten.conv1d.default: _aten.conv2d.default,
    _aten.conv_transpose1d.default: _aten.conv_transpose2d.input,
    _aten.max_pool1d.default: _aten.max_pool2d.default,
    _aten.upsample_linear1d.vec: _aten.upsample_bilinear2d.vec,
    _aten.upsample_nearest1d.vec: _aten.upsample_nearest2d.vec,
}
# What a row has in the dimension that an image has besides, where that isn't 1.
_BESIDES = {"padding": 0, "output_padding": 0}
# The same on any number of dimensions behind the channels.
_UNCHANGED = (
    _aten.batch_norm.default, _aten.clone.default, _aten.dropout.default, _aten.group_norm.default,
    _aten.prelu.default,
)  # fmt: skip


def write_rows_as_images(program: ExportedProgram) -> None:
    """Rewrites layers of rows, and what is computed with them, in place.

    Args:
      program: functional, of layers with a batch.
    """
    AddedDimension(
        place=_HEIGHT,
        begins=lambda node: node.target in _OF_ROWS and node.args[0].meta["val"].dim() == 3,
        goes_on=lambda node: node.target in _UNCHANGED,
        writes={
            **dict.fromkeys(_OF_ROWS, _as_image),
            **dict.fromkeys(REDUCTIONS, _reduced),
            _aten.constant_pad_nd.default: _padded,
        },
    ).add(program)


def _as_image(node: Node, given: dict[str, Any]) -> Call:
    target = _OF_ROWS[node.target]
    arguments = {}
    for name in (argument.name for argument in target._schema.arguments):
        value = given.get(name)
        if isinstance(value, (list, tuple)) and name != "stride":
            value = [_BESIDES.get(name, 1), *value]
        elif isinstance(value, (list, tuple)):
            value = [1, *(value or given["kernel_size"])]
        elif isinstance(value, Node) and name == "weight":
            value = emit(node.graph, node, _aten.unsqueeze.default, value, _HEIGHT)
        arguments[name] = value
    return target, arguments


def _reduced(node: Node, given: dict[str, Any]) -> Call | None:
    if given["dim"] is None or given["dim"] == []:
        return None
    dims = as_list(given["dim"])
    dims = sorted(moved_dimension(dim, 3, _HEIGHT) for dim in dims)
    if not given["keepdim"] or dims == [_STEPS]:
        # With the steps the row that they are in, as poolings have it.
        dims = sorted([_HEIGHT, *dims])
    return node.target, given | {"dim": dims}


def _padded(node: Node, given: dict[str, Any]) -> Call:
    # From the last dimension on, with two numbers for each.
    pad = given["pad"]
    return node.target, given | {"pad": [*pad[:2], 0, 0, *pad[2:]]}
