"""Functions of one int8 tensor as tables of their 256 results.

ExecuTorch's passes make tables of sigmoid, tanh and silu. Every other function of single elements is dequantized,
computed in floating point and quantized again; where both sides are int8 it is a table just as well, which gives the
same integers for a fraction of the instructions.
"""

from __future__ import annotations

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.cortex_m.pack import add_constant

_edge = exir_ops.edge
_QUANTIZE = _edge.cortex_m.quantize_per_tensor.default
_DEQUANTIZE = _edge.cortex_m.dequantize_per_tensor.default

# Functions of the elements of their first operand; the others are constants.
_FUNCTIONS = frozenset(
    operator.default
    for operator in (
        _edge.aten.abs, _edge.aten.acos, _edge.aten.asin, _edge.aten.atan, _edge.aten.clamp, _edge.aten.cos,
        _edge.aten.elu, _edge.aten.erf, _edge.aten.exp, _edge.aten.expm1, _edge.aten.gelu, _edge.aten.hardsigmoid,
        _edge.aten.hardswish, _edge.aten.hardtanh, _edge.aten.leaky_relu, _edge.aten.log, _edge.aten.log1p,
        _edge.aten.mish, _edge.aten.neg, _edge.aten.reciprocal, _edge.aten.relu, _edge.aten.rsqrt, _edge.aten.sigmoid,
        _edge.aten.silu, _edge.aten.sin, _edge.aten.softplus, _edge.aten.sqrt, _edge.aten.tanh,
    )
) | {_edge.aten.pow.Tensor_Scalar}  # fmt: skip


def tabulate(program: ExportedProgram) -> None:
    """Puts tables in place of functions between dequantization and quantization, alone or in a row, in place.

    Left are functions that have no number for one of the 256 operands, as the logarithm of negative ones.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target != _QUANTIZE or node.args[5] != torch.int8:
            continue
        functions = _functions(node)
        if not functions:
            continue
        source = functions[0].args[0]
        table = _table([source, *functions, node])
        if table is None:
            continue
        constant = add_constant(program, f"{functions[-1].name}_table", table)
        # Named for the function that the user wrote, and not for the quantization.
        node.meta = {**functions[-1].meta, "val": node.meta["val"]}
        node.target = _edge.cortex_m.quantized_activation.default
        node.args = (source.args[0], constant)
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _functions(quantization: Node) -> list[Node]:
    """The functions between a dequantization and this quantization, in order; none if there is anything else."""
    functions: list[Node] = []
    node = quantization.args[0]
    while node.target in _FUNCTIONS and len(node.users) == 1 and node.all_input_nodes == [node.args[0]]:
        functions.insert(0, node)
        node = node.args[0]
    return functions if node.target == _DEQUANTIZE and node.args[5] == torch.int8 else []


def _table(nodes: list[Node]) -> torch.Tensor | None:
    """What a row of calls makes of -128 to 127; None if one of them returns no number."""
    value = torch.arange(-128, 128).to(torch.int8)
    for node in nodes:
        value = node.target(value, *node.args[1:], **node.kwargs)
        if value.isnan().any():
            return None
    return value
