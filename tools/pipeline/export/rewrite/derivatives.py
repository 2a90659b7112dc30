"""Writes operators that compute derivatives of others, which have no kernels, as further operators."""

import functools
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._decomp import decomposition_table
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, for_each, rewrites, run_decompositions

_aten = torch.ops.aten


def are_in(program: ExportedProgram) -> bool:
    """Whether a program has such operators."""
    return any("_backward" in str(node.target) for node in program.graph.nodes)


def write(program: ExportedProgram) -> ExportedProgram:
    """Writes them, where PyTorch or this module has a form of them; derivatives with respect to weights stay."""
    table = {**torch.export.default_decompositions(), **decomposition_table}
    forms = {target: table[target] for target in table if "_backward" in target.name()}
    forms[_aten.convolution_backward.default] = _convolution_backward
    return _write_activations(run_decompositions(program, forms))


@rewrites(_aten.mish_backward.default, _aten.silu_backward.default)
def _write_activations(node: Node) -> Node:
    """Writes the derivative of x f(x): PyTorch decomposes no operator that its processors have kernels of."""
    (gradient, x), call = node.args, functools.partial(emit, node)
    factor = sigmoid = call(_aten.sigmoid.default, x)
    slope = call(_aten.rsub.Scalar, sigmoid, 1)
    if node.target == _aten.mish_backward.default:
        factor = call(_aten.tanh.default, call(_aten.softplus.default, x))
        slope = call(_aten.rsub.Scalar, call(_aten.mul.Tensor, factor, factor), 1)
    slope = call(_aten.mul.Tensor, call(_aten.mul.Tensor, x, sigmoid), slope)
    return call(_aten.mul.Tensor, gradient, call(_aten.add.Tensor, factor, slope))


def _convolution_backward(
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    _bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    _output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, ...]:
    """Computes the derivatives with respect to the input; weights of a program are constant."""
    if output_mask[1] or output_mask[2]:
        return NotImplemented
    stride, padding, dilation = (for_each(each, x.dim() - 2) for each in (stride, padding, dilation))
    axes = zip(x.shape[2:], weight.shape[2:], stride, padding, dilation, strict=True)
    # The pixels behind the last window.
    more = [(size + 2 * pad - far * (kernel - 1) - 1) % step for size, kernel, step, pad, far in axes]
    if transposed:
        more = [0] * len(more)
    result = _aten.convolution(gradient, weight, None, stride, padding, dilation, not transposed, more, groups)
    return result, None, None
