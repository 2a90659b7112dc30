"""Gives layers without a batch dimension a batch of one.

PyTorch's layers also accept [channels, height, width], [channels, steps] or a plain vector, but quantizers,
partitioners and the passes that rewrite layers only know them with a batch. The bytes in memory are the same, so a
layer reads its operand as a batch of one. Following operators that support the batch keep it, so that they stay next to
their layer; where another operator reads a result, a view removes the batch.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import as_list
from tools.pipeline.export.rewrite.added_dimension import AddedDimension, Call

_aten = torch.ops.aten

# Layers and poolings, and the number of dimensions of an operand without a batch.
_LAYERS: dict[Any, int] = {
    _aten.linear.default: 1,
    **dict.fromkeys(
        (
            _aten.conv1d.default, _aten.conv1d.padding, _aten.conv_transpose1d.default, _aten.max_pool1d.default,
            _aten.avg_pool1d.default, _aten.adaptive_avg_pool1d.default,
        ),
        2,
    ),
    **dict.fromkeys(
        (
            _aten.conv2d.default, _aten.conv2d.padding, _aten.conv_transpose2d.input, _aten.max_pool2d.default,
            _aten.avg_pool2d.default, _aten.adaptive_avg_pool2d.default, _aten.pixel_shuffle.default,
        ),
        3,
    ),
    **dict.fromkeys((_aten.conv3d.default, _aten.conv3d.padding), 4),
}  # fmt: skip

# Operators that work on the last dimensions of their operand.
_UNCHANGED = (_aten.linear.default, _aten.layer_norm.default, _aten.rms_norm.default)


def add_batch(program: ExportedProgram) -> None:
    """Rewrites layers without a batch, and the operators that follow them, in place.

    Args:
      program: functional; nodes without known shapes stay unchanged.
    """
    AddedDimension(
        place=0,
        begins=lambda node: _LAYERS.get(node.target) == _dims(node),
        goes_on=lambda node: node.target in _UNCHANGED,
        writes=_WRITES,
    ).add(program)


def _dims(node: Node) -> int:
    dims: int = node.all_input_nodes[0].meta["val"].dim()
    return dims


def _squeezed(node: Node, given: dict[str, Any]) -> Call:
    dims = [dim % _dims(node) + 1 for dim in as_list(given["dim"])]
    return _aten.squeeze.dims, {"self": given["self"], "dim": dims}


def _unsqueezed(node: Node, given: dict[str, Any]) -> Call:
    return node.target, given | {"dim": given["dim"] % (_dims(node) + 1) + 1}


def _transposed(node: Node, given: dict[str, Any]) -> Call:
    return node.target, given | {name: given[name] % _dims(node) + 1 for name in ("dim0", "dim1")}


def _permuted(node: Node, given: dict[str, Any]) -> Call:
    return node.target, given | {"dims": [0, *(dim % _dims(node) + 1 for dim in given["dims"])]}


def _viewed(node: Node, given: dict[str, Any]) -> Call:
    name = "size" if "size" in given else "shape"
    return node.target, given | {name: [1, *given[name]]}


_WRITES = {
    _aten.squeeze.dim: _squeezed,
    _aten.squeeze.dims: _squeezed,
    _aten.unsqueeze.default: _unsqueezed,
    _aten.transpose.int: _transposed,
    _aten.permute.default: _permuted,
    _aten.view.default: _viewed,
    _aten.reshape.default: _viewed,
}
