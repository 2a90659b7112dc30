"""Replaces functions of one int8 tensor by tables of their 256 results.

ExecuTorch's passes make tables of sigmoid, tanh and silu. All other elementwise functions, of one or several operators,
are dequantized, computed in floating point and quantized again. If both sides are int8, a table gives the same integers
for a fraction of the instructions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.transforms.utils import get_param_tensor, is_param_node
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.rewriting import is_elementwise, replace_node

_edge = exir_ops.edge
_QUANTIZE = _edge.cortex_m.quantize_per_tensor.default
_DEQUANTIZE = _edge.cortex_m.dequantize_per_tensor.default


def tabulate(program: ExportedProgram) -> None:
    """Replaces functions between dequantization and quantization by tables, in place.

    Functions that are undefined for one of the 256 operands, such as the logarithm of negative ones, are not replaced.
    """
    graph = program.graph
    for node in list(graph.nodes):
        if node.target != _QUANTIZE or node.args[5] != torch.int8:
            continue
        function = function_of(program, node.args[0], _DEQUANTIZE)
        if function is None or not function.nodes:
            continue
        results = results_of(program, function)
        if results.isnan().any():
            continue
        table = node.target(results, *node.args[1:])
        operand = function.operands[0].args[0]
        is_same = torch.equal(table, torch.arange(-128, 128).to(torch.int8))
        if is_same and operand.meta["val"].dim_order() == node.meta["val"].dim_order():
            # A product with a positive number, or a quotient, has the integers of its operand in another scale.
            replace_node(program, node, operand)
            continue
        last = function.nodes[-1]
        constant = add_constant(program, f"{last.name}_table", table)
        # The name refers to the user's function, not to the quantization.
        node.meta = {**last.meta, "val": node.meta["val"]}
        node.target = _edge.cortex_m.quantized_activation.default
        node.args = (operand, constant)
    graph.eliminate_dead_code()


@dataclass
class Function:
    """Elementwise operators from a dequantized tensor and numbers to one result.

    Attributes:
      nodes: the operators, in order; the last one computes the result.
      operands: the dequantizations they read, all of one tensor.
      numbers: the constants they read, of one element.
    """

    nodes: list[Node]
    operands: list[Node]
    numbers: list[Node]


def function_of(program: ExportedProgram, result: Node, dequantize: Callable[..., Any]) -> Function | None:
    """Finds the operators that compute a node elementwise from one int8 tensor; returns None if it reads anything else.

    Args:
      dequantize: the operator that dequantizes the tensor.
    """
    found, seen, pending = Function([], [], []), set(), [result]
    while pending:
        node = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if node.target == dequantize and node.args[5] == torch.int8:
            found.operands.append(node)
        elif is_param_node(program, node) and node.meta["val"].numel() == 1:
            found.numbers.append(node)
        elif is_elementwise(node.target._op if isinstance(node.target, EdgeOpOverload) else node.target):
            found.nodes.append(node)
            pending += node.all_input_nodes
        else:
            return None
    if len({operand.args for operand in found.operands}) != 1:
        return None
    order = {node: index for index, node in enumerate(program.graph.nodes)}
    found.nodes.sort(key=order.__getitem__)
    return found


def results_of(program: ExportedProgram, function: Function) -> torch.Tensor:
    """Evaluates a function for -128 to 127."""
    dequantization = function.operands[0]
    numbers = dequantization.target(torch.arange(-128, 128).to(torch.int8), *dequantization.args[1:])
    values = dict.fromkeys(function.operands, numbers)
    for constant in function.numbers:
        value = get_param_tensor(program, constant)
        assert value is not None
        values[constant] = value.reshape(())
    for node in function.nodes:
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
        values[node] = node.target(*args, **kwargs)
    return values[function.nodes[-1]].expand(256).contiguous()
