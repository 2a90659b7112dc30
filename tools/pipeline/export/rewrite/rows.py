"""Turns networks of rows, [batch, channels, steps], into networks of images that are one row high.

ExecuTorch's Arm backends compute each convolution of rows as one of images, with channels last, and everything else on
rows, with steps last: each convolution next to another operator transposes all elements twice.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.operators import REDUCTIONS
from tools.pipeline.export.ir.rewriting import as_list, emit
from tools.pipeline.export.rewrite.added_dimension import AddedDimension, Call, moved_dimension

_aten = torch.ops.aten

# The index of the dimension that rows don't have.
_HEIGHT = 2
_STEPS = 3
# Maps layers of rows to those of images.
_OF_ROWS = {
    _aten.adaptive_avg_pool1d.default: _aten.adaptive_avg_pool2d.default,
    _aten.avg_pool1d.default: _aten.avg_pool2d.default,
    _aten.conv1d.default: _aten.conv2d.default,
    _aten.conv_transpose1d.default: _aten.conv_transpose2d.input,
    _aten.max_pool1d.default: _aten.max_pool2d.default,
    _aten.upsample_linear1d.vec: _aten.upsample_bilinear2d.vec,
    _aten.upsample_nearest1d.vec: _aten.upsample_nearest2d.vec,
}
# Arguments of the added dimension that aren't 1.
_BESIDES = {"padding": 0, "output_padding": 0}
# Operators that are the same with any number of dimensions after the channels.
_UNCHANGED = (
    _aten.batch_norm.default, _aten.clone.default, _aten.dropout.default, _aten.group_norm.default,
    _aten.prelu.default,
)  # fmt: skip


def write_rows_as_images(program: ExportedProgram) -> None:
    """Rewrites layers of rows, such as Conv1d, and the operators that follow them as those of images, such as Conv2d,
    in place.

    Args:
      program: functional, with a batch dimension in all layers.
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
            value = emit(node, _aten.unsqueeze.default, value, _HEIGHT)
        arguments[name] = value
    return target, arguments


def _reduced(node: Node, given: dict[str, Any]) -> Call | None:
    if given["dim"] is None or given["dim"] == []:
        return None
    dims = as_list(given["dim"])
    dims = sorted(moved_dimension(dim, 3, _HEIGHT) for dim in dims)
    if not given["keepdim"] or dims == [_STEPS]:
        # A reduction over the steps includes the height, as poolings do.
        dims = sorted([_HEIGHT, *dims])
    return node.target, given | {"dim": dims}


def _padded(node: Node, given: dict[str, Any]) -> Call:
    # Two numbers per dimension, from the last dimension on.
    pad = given["pad"]
    return node.target, given | {"pad": [*pad[:2], 0, 0, *pad[2:]]}
