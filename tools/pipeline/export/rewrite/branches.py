"""Writes conditions and loops as operators, for backends whose graphs have neither."""

import functools
import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.ir.rewriting import emit, place_of, replace_node

_Form = Callable[[ExportedProgram, Node], list[Node]]

# A loop that would take more operators stays: quantizing each of them takes time, and so does each on a device.
MOST_OPERATORS = 1000


def write_branches(program: ExportedProgram) -> ExportedProgram:
    """Writes conditions as both branches and a choice between their results, and loops of a fixed number of steps as
    these steps, in place. Loops on a condition that doesn't bound their steps stay, and loops that would take more than
    MOST_OPERATORS.
    """
    return _write(program, _FORMS)


def write_loops(program: ExportedProgram) -> ExportedProgram:
    """Writes loops on a condition, which ExecuTorch has no form of, as steps if a counter bounds these, in place."""
    return _write(program, {_WHILE: _write_while})


def _write(program: ExportedProgram, forms: Mapping[Any, _Form]) -> ExportedProgram:
    left: set[Node] = set()
    graph = program.graph_module.graph
    while node := next((node for node in graph.nodes if node.target in forms and node not in left), None):
        if operators_of(program, node) > MOST_OPERATORS:
            left.add(node)
            continue
        with graph.inserting_before(node):
            results = forms[node.target](program, node)
        for user in list(node.users):
            assert user.target is operator.getitem
            replace_node(program, user, results[user.args[1]])
            graph.erase_node(user)
        subgraphs = [argument for argument in node.all_input_nodes if argument.op == "get_attr"]
        graph.erase_node(node)
        for subgraph in subgraphs:
            if not subgraph.users:
                graph.erase_node(subgraph)
                # The module's own method deletes what the graphs that stay refer to, too.
                if not graph.find_nodes(op="get_attr", target=subgraph.target):
                    program.graph_module.delete_submodule(str(subgraph.target))
    return program


def operators_of(program: ExportedProgram, node: Node) -> float:
    """Returns how many operators a condition or loop takes when it is written out; infinity if a condition doesn't
    bound a loop's steps.
    """
    steps: float
    if node.target is _WHILE:
        conditions = _conditions(program, node)
        steps = math.inf if conditions is None else len(conditions)
    else:
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
            return [copies[result] for result in tree_leaves(node.args[0])]
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


def _write_while(program: ExportedProgram, node: Node) -> list[Node]:
    """Writes the steps of a loop on a condition. A step whose condition depends on inputs is computed, and its results
    are chosen where the condition holds: state that doesn't change any more keeps it false.
    """
    condition, function, start, operands = node.args
    state = list(start)
    for known in _conditions(program, node) or ():
        made = _inline(program, node, function, [*state, *operands])
        if known is None:
            (holds,) = _inline(program, node, condition, [*state, *operands])
            choose = functools.partial(emit, program.graph, node, torch.ops.aten.where.self, holds)
            made = [before if new is before else choose(new, before) for new, before in zip(made, state, strict=True)]
        state = made
    return state


def _conditions(program: ExportedProgram, node: Node) -> list[bool | None] | None:
    """Returns the condition of each step of a loop that may be taken: True, or None if it depends on inputs; None if
    nothing bounds the number of steps.
    """
    condition, function, start, operands = node.args
    constants = Constants(program)
    # Of a state that changes with the steps alone, such as a counter.
    state, fixed = [constants.value(each) for each in start], [constants.value(each) for each in operands]
    found: list[bool | None] = []
    while len(found) <= MOST_OPERATORS:
        (holds,) = _known(_subgraph(program, condition), [*state, *fixed])
        if holds is not None and not holds:
            return found
        found.append(None if holds is None else True)
        state = _known(_subgraph(program, function), [*state, *fixed])
        if all(each is None for each in state):
            return None
    return None


def _known(module: GraphModule, operands: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
    """Returns the results of a subgraph that follow from the operands that are known; None for others."""
    given = iter(operands)
    values: dict[Node, torch.Tensor | None] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = next(given)
        elif node.op == "output":
            return [values.get(each) for each in tree_leaves(node.args[0])]
        elif isinstance(node.target, torch._ops.OpOverload):
            inputs = [values.get(each) for each in node.all_input_nodes]
            if node.target in _ANDS and any(each is not None and each.numel() == 1 and not each for each in inputs):
                values[node] = torch.tensor(False)
            elif all(each is not None for each in inputs) and torch.Tag.nondeterministic_seeded not in node.target.tags:
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), values.__getitem__)
                values[node] = node.target(*args, **kwargs)
    raise AssertionError("a subgraph returns nothing")


_ANDS = (torch.ops.aten.__and__.Tensor, torch.ops.aten.bitwise_and.Tensor, torch.ops.aten.logical_and.default)

_WHILE = torch.ops.higher_order.while_loop
_FORMS: dict[Any, _Form] = {
    torch.ops.higher_order.cond: _write_cond,
    torch.ops.higher_order.map_impl: _write_map,
    torch.ops.higher_order.scan: _write_scan,
    _WHILE: _write_while,
}
