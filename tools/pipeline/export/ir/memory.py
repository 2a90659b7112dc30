"""Tells which tensors of a captured program share memory, and which of it operators write to."""

import operator
from collections.abc import Iterator

import torch
from torch.fx import Graph, Node

from tools.pipeline.export.ir.operators import DROPOUTS


def memory_of(node: Node) -> Node:
    """Returns the node that owns a tensor's memory: the node itself, or the one that it is a view of."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = schema is not None and any(result.alias_info is not None for result in schema.returns)
        if not (is_view or node.target is operator.getitem or node.target in DROPOUTS) or not node.all_input_nodes:
            break
        node = node.all_input_nodes[0]
    return node


def writes(node: Node) -> bool:
    """Whether a node changes elements in place; detach_, which `torch.tensor(0)` becomes, changes none."""
    is_mutable = getattr(getattr(node.target, "_schema", None), "is_mutable", False)
    return is_mutable and node.target != torch.ops.aten.detach_.default


def _written(node: Node) -> Iterator[Node]:
    """Yields the operands that an operator writes to."""
    if not writes(node):
        return
    for place, argument in enumerate(node.target._schema.arguments):
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from (
                each for each in (given if isinstance(given, (list, tuple)) else [given]) if isinstance(each, Node)
            )


def changed_memory(graph: Graph) -> set[Node]:
    """Returns the nodes that own memory which operators write to."""
    return {memory_of(operand) for node in graph.nodes for operand in _written(node)}
