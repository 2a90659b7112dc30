"""Folds batch normalization into the convolution or linear layer before it.

In evaluation mode batch normalization is y = (x - mean) / sqrt(variance + eps) * gamma + beta per channel. With
s = gamma / sqrt(variance + eps), a layer y = W x + b before it becomes W' = s W, b' = (b - mean) s + beta. The pass
writes these formulas into the graph as operators on constants, in double precision; constant propagation evaluates
them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import is_constant
from tools.pipeline.export.ir.operators import COPIES
from tools.pipeline.export.ir.rewriting import emit, replace_node

_aten = torch.ops.aten

# Maps operators to the dimension of their weight that is the output channel.
_OUTPUT_CHANNEL = {
    _aten.conv1d.default: 0,
    _aten.conv2d.default: 0,
    _aten.conv2d.padding: 0,
    _aten.conv1d.padding: 0,
    _aten.conv3d.default: 0,
    _aten.convolution.default: 0,
    _aten.conv_transpose1d.default: 1,
    _aten.conv_transpose2d.input: 1,
    _aten.linear.default: 0,
}

# An instance normalization by running statistics computes the same; both have the same arguments.
_NORMS = (_aten.batch_norm.default, _aten.instance_norm.default)

# Key in a node's meta: a weight that this pass wrote.
_FOLDED = "batch_norm_folded"


def fold_batch_norm(program: ExportedProgram) -> ExportedProgram:
    """Rewrites every batch normalization in evaluation mode, in place.

    It is folded into the weights of a layer whose result nothing else reads, even if that result is sliced or copied in
    between. Elsewhere it becomes one multiplication and one addition with constants.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _NORMS:
            continue
        x, gamma, beta, mean, variance, training, _, eps, *_ = node.args
        if training or mean is None or variance is None:
            continue
        layer, moved = _layer_before(x)
        with graph.inserting_before(layer if _is_foldable(layer) else node):
            emit = _Emitter(graph, node)
            scale, shift = emit.scale_and_shift(gamma, beta, mean, variance, eps)
            if _is_foldable(layer):
                result = folded = _folded_layer(emit, layer, scale, shift)
                if moved:
                    moved[-1].replace_input_with(layer, folded)
                    result = x
            else:
                dimensions = [1, -1] + [1] * (node.meta["val"].dim() - 2)
                dtype = x.meta["val"].dtype
                factor = emit(_aten.to.dtype, emit(_aten.reshape.default, scale, dimensions), dtype)
                term = emit(_aten.to.dtype, emit(_aten.reshape.default, shift, dimensions), dtype)
                result = emit(_aten.add.Tensor, emit(_aten.mul.Tensor, x, factor), term)
        replace_node(program, node, result)
        graph.erase_node(node)
        if not layer.users:
            graph.erase_node(layer)
    program.graph_module.recompile()
    return program


# Operators that keep each channel's elements or a part of them.
_MOVES = COPIES | {_aten.slice.Tensor}


def _layer_before(x: Node) -> tuple[Node, list[Node]]:
    """Returns the layer that computes a tensor, and the slices and copies in between, last first, if they have no other
    user.
    """
    moved = []
    while x.op == "call_function" and x.target in _MOVES and len(x.users) == 1:
        rank = x.meta["val"].dim()
        if x.target == _aten.slice.Tensor and (x.args[1] if len(x.args) > 1 else 0) % rank == 1:
            break
        moved.append(x)
        x = x.args[0]
    return x, moved


class _Emitter:
    """Inserts operators with the source location of `origin`."""

    def __init__(self, graph: torch.fx.Graph, origin: Node) -> None:
        self._graph = graph
        self._origin = origin

    def __call__(self, operator: Callable[..., Any], *args: Any, origin: Node | None = None) -> Node:
        return emit(origin or self._origin, operator, *args)

    def scale_and_shift(
        self, gamma: Node | None, beta: Node | None, mean: Node, variance: Node, eps: float
    ) -> tuple[Node, Node]:
        """Returns s and beta - mean * s per channel, in double precision."""
        scale = self(_aten.rsqrt.default, self(_aten.add.Scalar, self.double(variance), eps))
        if gamma is not None:
            scale = self(_aten.mul.Tensor, scale, self.double(gamma))
        shift = self(_aten.neg.default, self(_aten.mul.Tensor, self.double(mean), scale))
        if beta is not None:
            shift = self(_aten.add.Tensor, shift, self.double(beta))
        return scale, shift

    def double(self, node: Node) -> Node:
        """Casts `node` to float64."""
        return self(_aten.to.dtype, node, torch.float64)


def _is_foldable(layer: Node) -> bool:
    """Whether only the batch normalization reads the layer, and normalizes the layer's output channels."""
    if layer.op != "call_function" or layer.target not in _OUTPUT_CHANNEL or len(layer.users) != 1:
        return False
    weight, *rest = layer.args[1:3]
    if not all(parameter is None or _is_constant(parameter) for parameter in (weight, *rest)):
        return False
    output = layer.meta["val"]
    if layer.target == _aten.linear.default:
        # Batch normalization works on dimension 1, a linear layer on the last one.
        return output.dim() == 2
    # With groups, a transposed convolution's weight has only a part of the channels in its dimension 1. An unbatched
    # convolution has its channels in dimension 0.
    channels = weight.meta["val"].shape[_OUTPUT_CHANNEL[layer.target]]
    return output.dim() == weight.meta["val"].dim() and output.shape[1] == channels


def _is_constant(node: Node) -> bool:
    """Whether the node is a parameter or computed from parameters by this pass."""
    return (node.op == "placeholder" and is_constant(node)) or _FOLDED in node.meta


def _folded_layer(emit: _Emitter, layer: Node, scale: Node, shift: Node) -> Node:
    x, weight, *rest = layer.args
    bias, others = (rest[0], rest[1:]) if rest else (None, [])
    dtype = weight.meta["val"].dtype
    dimensions = [1] * weight.meta["val"].dim()
    dimensions[_OUTPUT_CHANNEL[layer.target]] = -1
    factor = emit(_aten.reshape.default, scale, dimensions)
    new_weight = emit(_aten.to.dtype, emit(_aten.mul.Tensor, emit.double(weight), factor), dtype)
    new_bias = (
        shift if bias is None else emit(_aten.add.Tensor, emit(_aten.mul.Tensor, emit.double(bias), scale), shift)
    )
    new_bias = emit(_aten.to.dtype, new_bias, dtype)
    new_weight.meta[_FOLDED] = new_bias.meta[_FOLDED] = True
    return emit(layer.target, x, new_weight, new_bias, *others, origin=layer)
