"""Visits the graphs of branches and loops."""

from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node


def has_control_flow(program: ExportedProgram) -> bool:
    """Whether a program has branches or loops."""
    return next(graphs_inside(program.graph_module), None) is not None


def graphs_inside(module: GraphModule) -> Iterator[tuple[Node, GraphModule]]:
    """Yields each graph that is an operand of a branch or a loop of a module, after the node of that branch or loop."""
    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            for operand in node.all_input_nodes:
                inner = getattr(module, str(operand.target), None) if operand.op == "get_attr" else None
                if isinstance(inner, GraphModule):
                    yield node, inner
                    yield from graphs_inside(inner)
