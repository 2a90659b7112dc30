"""Writes conditions and loops as operators, for backends whose graphs have neither."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.rewriting import emit, place_of, replace_node

# A loop that would take more operators stays: quantizing each of them takes time, and so does each on a device.
MOST_OPERATORS = 1000


def write_branches(program: ExportedProgram) -> ExportedProgram:
    """Writes conditions as both branches and a choice between their results, and loops of a fixed number of steps as
    these steps, in place. Loops on a condition stay, and loops that would take more than MOST_OPERATORS.
    """
    left: set[Node] = set()
    graph = program.graph_module.graph
    while node := next((node for node in graph.nodes if node.target in _FORMS and node not in left), None):
        if operators_of(program, node) > MOST_OPERATORS:
            left.add(node)
            continue
        with graph.inserting_before(node):
            results = _FORMS[node.target](program, node)
        for user in list(node.users):
            assert user.target is operator.getitem
            replace_node(program, user, results[user.args[1]])
            graph.erase_node(user)
        subgraphs = [argument for argument in node.all_input_nodes if argument.op == "get_attr"]
        graph.erase_node(node)
        for subgraph in subgraphs:
            if not subgraph.users:
                graph.erase_node(subgraph)
    program.graph_module.delete_all_unused_submodules()
    return program


def operators_of(program: ExportedProgram, node: Node) -> int:
    """Returns how many operators a condition or loop takes when it is written out."""
    steps = 1 if node.target is torch.ops.higher_order.cond else _steps(node)
    return steps * sum(
        sum(inner.op == "call_function" for inner in _subgraph(program, argument).graph.nodes)
        for argument in node.all_input_nodes
        if argument.op == "get_attr"
    )


def _steps(node: Node) -> int:
    """Returns the number of steps of a scan, whose operands are function, start and inputs, or of a map."""
    (first, *_) = node.args[2 if node.target is torch.ops.higher_order.scan else 1]
    return int(first.meta["val"].shape[0])


def _subgraph(program: ExportedProgram, node: Node) -> GraphModule:
    return program.graph_module.get_submodule(str(node.target))


def _inline(program: ExportedProgram, caller: Node, subgraph: Node, operands: Sequence[Node]) -> list[Node]:
    """Copies the operators of a subgraph before its caller; returns the nodes of its results."""
    module = _subgraph(program, subgraph)
    given = iter(operands)
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            copies[node] = next(given)
        elif node.op == "get_attr":
            # A condition or loop inside.
            name = f"{subgraph.target}_{node.target}"
            program.graph_module.add_submodule(name, module.get_submodule(node.target))
            copies[node] = program.graph.get_attr(name)
        elif node.op == "output":
            return [copies[result] for result in node.args[0]]
        else:
            copies[node] = program.graph.node_copy(node, copies.__getitem__)
            copies[node].meta = node.meta | place_of(caller)
    raise AssertionError(f"{subgraph.target} returns nothing")


def _write_cond(program: ExportedProgram, node: Node) -> list[Node]:
    condition, *branches, operands = node.args
    taken, other = (_inline(program, node, branch, operands) for branch in branches)
    if condition.meta["val"].dim():
        condition = emit(program.graph, node, torch.ops.aten.reshape.default, condition, [])
    return [
        first if first is second else emit(program.graph, node, torch.ops.aten.where.self, condition, first, second)
        for first, second in zip(taken, other, strict=True)
    ]


def _write_scan(program: ExportedProgram, node: Node) -> list[Node]:
    function, start, inputs, operands = node.args
    return _write_steps(program, node, function, start, inputs, operands)


def _write_map(program: ExportedProgram, node: Node) -> list[Node]:
    function, inputs, operands = node.args
    return _write_steps(program, node, function, [], inputs, operands)


def _write_steps(
    program: ExportedProgram, node: Node, function: Any, start: Any, inputs: Any, operands: Any
) -> list[Node]:
    """Writes the steps of a loop over the first dimension of its inputs; returns the state and the stacked results."""
    state, results = list(start), []
    for step in range(_steps(node)):
        slices = [emit(program.graph, node, torch.ops.aten.select.int, each, 0, step) for each in inputs]
        made = _inline(program, node, function, [*state, *slices, *operands])
        state = made[: len(state)]
        results.append(made[len(state) :])
    stacked = [
        emit(program.graph, node, torch.ops.aten.stack.default, list(each)) for each in zip(*results, strict=True)
    ]
    return state + stacked


_FORMS: dict[Any, Callable[[ExportedProgram, Node], list[Node]]] = {
    torch.ops.higher_order.cond: _write_cond,
    torch.ops.higher_order.map_impl: _write_map,
    torch.ops.higher_order.scan: _write_scan,
}
