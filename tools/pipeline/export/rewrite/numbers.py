"""Turns Python numbers beside tensors without dimensions into constants without dimensions.

ExecuTorch's quantizers turn such a number into a tensor with one dimension, which then the result has, too.
"""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import add_constant
from tools.pipeline.export.ir.operators import ARITHMETIC_WITH_ROUNDING
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node

_aten = torch.ops.aten

_COMPARISONS = {
    _aten.eq.Scalar: _aten.eq.Tensor,
    _aten.ge.Scalar: _aten.ge.Tensor,
    _aten.gt.Scalar: _aten.gt.Tensor,
    _aten.le.Scalar: _aten.le.Tensor,
    _aten.lt.Scalar: _aten.lt.Tensor,
    _aten.ne.Scalar: _aten.ne.Tensor,
}


def write_numbers(program: ExportedProgram) -> None:
    """Turns such numbers into constants, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        if not _has_number(node) or not all(map(_has_no_dimensions, node.all_input_nodes)):
            continue
        args = [_constant(program, node, each) if isinstance(each, (int, float)) else each for each in node.args]
        if node.target in ARITHMETIC_WITH_ROUNDING:
            node.args = tuple(args)
            continue
        target = _COMPARISONS.get(node.target, _aten.sub.Tensor)
        with graph.inserting_before(node):
            written = emit(node, target, *(args if node.target in _COMPARISONS else args[1::-1]))
        replace_node(program, node, written)
        graph.erase_node(node)
    program.graph_module.recompile()


def is_of_numbers(node: Node) -> bool:
    """Whether an operator computes a floating-point number from tensors without dimensions only."""
    values = [node, *node.all_input_nodes]
    return all(_has_no_dimensions(each) and each.meta["val"].is_floating_point() for each in values)


def _has_no_dimensions(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dim() == 0


def _has_number(node: Node) -> bool:
    """Whether a call has Python numbers that quantizers turn into tensors; differences only without factors."""
    is_known = node.target in ARITHMETIC_WITH_ROUNDING or node.target in _COMPARISONS
    is_difference = node.target == _aten.rsub.Scalar and named_arguments(node)["alpha"] == 1
    return (is_known or is_difference) and any(isinstance(each, (int, float)) for each in node.args)


def _constant(program: ExportedProgram, node: Node, number: float) -> Node:
    name = f"{node.name}_number_{len(program.graph_signature.input_specs)}"
    operand = torch.empty((), dtype=node.all_input_nodes[0].meta["val"].dtype)
    return add_constant(program, name, torch.tensor(number, dtype=torch.result_type(operand, number)))
