"""Copies where a captured program would write into its inputs, or return what is given to a branch or a loop."""

from __future__ import annotations

import operator
from collections.abc import Iterator

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.ir.operators import DROPOUTS
from tools.pipeline.export.ir.rewriting import place_of, rename_output
from tools.pipeline.export.ir.signature import user_inputs

_aten = torch.ops.aten


def memory_of(node: Node) -> Node:
    """What has the memory that a tensor may lie in: the tensor itself, or the one that it is a view of."""
    while node.op == "call_function":
        schema = getattr(node.target, "_schema", None)
        is_view = schema is not None and any(result.alias_info is not None for result in schema.returns)
        if not (is_view or node.target is operator.getitem or node.target in DROPOUTS) or not node.all_input_nodes:
            break
        node = node.all_input_nodes[0]
    return node


def _written(node: Node) -> Iterator[Node]:
    """The operands that an operator writes into."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or not schema.is_mutable:
        return
    for place, argument in enumerate(schema.arguments):
        given = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
        if argument.alias_info is not None and argument.alias_info.is_write:
            yield from (
                each for each in (given if isinstance(given, (list, tuple)) else [given]) if isinstance(each, Node)
            )


def copy_changed_inputs(program: ExportedProgram) -> ExportedProgram:
    """Lets a model that changes an input in place change a copy of it, in place: nobody reads inputs afterwards, and
    who runs the program on a sample has the sample as it was.
    """
    graph = program.graph
    changed = {memory_of(operand) for node in graph.nodes for operand in _written(node)}
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in user_inputs(program):
        if node not in changed:
            continue
        with graph.inserting_before(first):
            copy = graph.call_function(_aten.clone.default, (node,))
        copy.meta = {**place_of(node), "val": node.meta["val"].clone()}
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
        rename_output(program, node, copy)
    program.graph_module.recompile()
    return program


def copy_operands_returned(program: ExportedProgram) -> ExportedProgram:
    """Lets branches and loops return copies of their operands and of what they return twice, in place.

    PyTorch captures those that return such a tensor itself, or a view of it, and takes them nowhere afterwards.
    """
    for _, inner in graphs_inside(program.graph_module):
        graph: Graph = inner.graph
        output = graph.output_node()
        seen: set[Node] = set()
        is_one = isinstance(output.args[0], Node)
        results = [output.args[0]] if is_one else list(output.args[0])
        for index, result in enumerate(results):
            if not isinstance(result, Node) or not isinstance(result.meta.get("val"), torch.Tensor):
                continue
            memory = memory_of(result)
            if memory.op == "call_function" and memory not in seen:
                seen.add(memory)
                continue
            with graph.inserting_before(output):
                results[index] = graph.call_function(torch.ops.aten.clone.default, (result,))
            results[index].meta = {**place_of(result), "val": result.meta["val"].clone()}
        output.args = (results[0] if is_one else tuple(results),)
        inner.recompile()
    program.graph_module.recompile()
    return program
