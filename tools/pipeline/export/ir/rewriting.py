"""What passes over an exported program have in common: calls' arguments, new nodes, what takes the place of others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, Node

# Where in the user's model a node is from.
_PLACE = ("stack_trace", "nn_module_stack", "source_fn_stack", "torch_fn", "from_node")

# Elementwise, though PyTorch does not say so.
_UNTAGGED = frozenset((
    torch.ops.aten.hardswish.default, torch.ops.aten.where.Scalar, torch.ops.aten.where.ScalarSelf,
    torch.ops.aten.where.ScalarOther,
))  # fmt: skip


def run_decompositions(program: ExportedProgram, table: dict[OpOverload, Callable[..., Any]]) -> ExportedProgram:
    """program.run_decompositions(table), without a check of the inputs before.

    PyTorch gathers its conditions while shapes are inferred, of tensors inside the program, too, which no check knows.
    """
    program._guards_code = []
    return program.run_decompositions(table)


def place_of(node: Node) -> dict[str, Any]:
    """What of a node's meta says where in the user's model it is from."""
    return {key: node.meta[key] for key in _PLACE if key in node.meta}


def named_arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call of an operator, by the names in its schema, with the defaults of those not given."""
    given = {argument.name: argument.default_value for argument in node.target._schema.arguments}
    given.update(zip(given, node.args, strict=False))
    given.update(node.kwargs)
    return given


def is_elementwise(operator: Any) -> bool:
    """Whether each element of an operator's result depends on the elements at its place alone."""
    if operator in _UNTAGGED:
        return True
    is_pointwise = isinstance(operator, OpOverload) and torch.Tag.pointwise in operator.tags
    return is_pointwise and operator != torch.ops.aten.clone.default


def for_each(argument: int | Sequence[int], dims: int = 2) -> list[int]:
    """An argument for each dimension of an image, where it may stand for all of them at once."""
    values = as_list(argument)
    return values * dims if len(values) == 1 else values


def as_list(argument: int | Sequence[int]) -> list[int]:
    """An argument that is a number, or several."""
    return [argument] if isinstance(argument, int) else list(argument)


def emit(graph: Graph, origin: Node, operator: Callable[..., Any], *args: Any, **options: Any) -> Node:
    """A call that says it comes from where `origin` came from, with its result's shape and layout.

    Args:
      args: nodes and constants.
      options: constants that the operator takes by name.
    """
    node = graph.call_function(operator, args, options)
    node.meta = place_of(origin)
    node.meta["val"] = operator(*torch.fx.node.map_arg(args, lambda argument: argument.meta["val"]), **options)
    return node


def replace_node(program: ExportedProgram, node: Node, result: Node) -> None:
    """Lets all that reads a node read another one, among them the program's outputs, which are known by name.

    The node itself stays in the graph, with nothing that reads it.
    """
    node.replace_all_uses_with(result)
    rename_output(program, node, result)


def rename_output(program: ExportedProgram, node: Node, result: Node) -> None:
    """Gives outputs of a program that have a node's name that of another one."""
    for spec in program.graph_signature.output_specs:
        if spec.arg.name == node.name:
            spec.arg.name = result.name
