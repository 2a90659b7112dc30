"""Writes conditions and loops as operators, for backends whose graphs have neither."""

import copy
import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves

from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.ir.rewriting import emit, place_of, replace_node

_Form = Callable[["_Inside", Node], list[Node]]

# A loop that would take more operators stays: quantizing each of them takes time, and so does each on a device.
MOST_OPERATORS = 1000


def write_branches(program: ExportedProgram) -> ExportedProgram:
    """Writes conditions as both branches and a choice between their results, loops of a fixed number of steps as these
    steps, and regions with gradients or without autocast as their operators, in place. Loops on a condition that
    doesn't bound their steps stay, and loops that would take more than MOST_OPERATORS.
    """
    _write(_Inside(program, program.graph_module), _FORMS)
    return program


def write_loops(program: ExportedProgram) -> ExportedProgram:
    """Writes loops on a condition, which ExecuTorch has no form of, as steps if a counter bounds these, in place: also
    those inside of conditions and of other loops.
    """
    _write_inside(_Inside(program, program.graph_module), {_WHILE: _write_while})
    return program


def lift_constants(program: ExportedProgram) -> ExportedProgram:
    """Makes constants that the graphs of conditions and loops hold operands of these, as weights are, in place."""
    for node in list(program.graph.nodes):
        for index, (value, _) in enumerate(_lift(program.graph_module, node)):
            _add_operand(node, add_constant(program, f"{node.name}_constant_{index}", value))
    return program


def _lift(module: GraphModule, node: Node) -> list[tuple[torch.Tensor, dict[str, Any]]]:
    """Makes the constants of a node's graphs placeholders, the last ones; returns the constants and their meta."""
    if not isinstance(node.target, HigherOrderOperator):
        return []
    held = [getattr(module, str(operand.target)) for operand in node.all_input_nodes if operand.op == "get_attr"]
    inside = [part for part in held if isinstance(part, GraphModule)]
    found: list[tuple[torch.Tensor, dict[str, Any]]] = []
    for part in inside:
        graph = part.graph
        for each in list(graph.nodes):
            for index, (value, meta) in enumerate(_lift(part, each)):
                part.register_buffer(name := f"{each.name}_constant_{index}", value)
                with graph.inserting_before(each):
                    constant = graph.get_attr(name)
                constant.meta = meta
                _add_operand(each, constant)
        for constant in graph.find_nodes(op="get_attr"):
            value = getattr(part, constant.target)
            if not isinstance(value, torch.Tensor):
                continue
            for other in inside:
                with other.graph.inserting_before(next(n for n in other.graph.nodes if n.op != "placeholder")):
                    given = other.graph.placeholder(f"constant_{len(found)}")
                given.meta = dict(constant.meta)
                if other is part:
                    constant.replace_all_uses_with(given)
            graph.erase_node(constant)
            delattr(part, constant.target)
            found.append((value, constant.meta))
        for other in inside:
            other.recompile()
    return found


def _add_operand(node: Node, operand: Node) -> None:
    node.args = (*node.args[:-1], (*node.args[-1], operand))


class _Inside(Constants):
    """A program's graph, or that of a condition or loop inside.

    Attributes:
      module, graph: the module and its graph.
    """

    def __init__(
        self, program: ExportedProgram, module: GraphModule, given: Mapping[Node, torch.Tensor | None] | None = None
    ) -> None:
        """Creates the view of a graph.

        Args:
          given: values of the placeholders of a graph inside, None for those that aren't constant; None for the
            program's own graph.
        """
        super().__init__(program)
        self.module, self.graph = module, module.graph
        self._given = given

    def _placeholder(self, node: Node) -> torch.Tensor | None:
        return super()._placeholder(node) if self._given is None else self._given.get(node)

    def subgraph(self, node: Node) -> GraphModule:
        return self.module.get_submodule(str(node.target))

    def replace(self, node: Node, result: Node) -> None:
        """Replaces all uses of a node by another one."""
        if self._given is None:
            replace_node(self._program, node, result)
        else:
            node.replace_all_uses_with(result)

    def inner(self) -> Iterator["_Inside"]:
        """Yields the graphs of conditions and loops, each with a module of its own if its constants may be too."""
        for node in self.graph.nodes:
            for subgraph in node.all_input_nodes if isinstance(node.target, HigherOrderOperator) else ():
                if subgraph.op != "get_attr" or not _contains(module := self.subgraph(subgraph), _WHILE):
                    continue
                name = str(subgraph.target)
                if len(self.graph.find_nodes(op="get_attr", target=name)) > 1 or len(subgraph.users) > 1:
                    module = copy.deepcopy(module)
                    name = f"{name}_of_{node.name}"
                    self.module.add_submodule(name, module)
                    with self.graph.inserting_before(node):
                        node.replace_input_with(subgraph, self.graph.get_attr(name))
                # State and slices of a loop precede its other operands.
                operands = node.args[-1]
                places = [each for each in module.graph.nodes if each.op == "placeholder"][-len(operands) or None :]
                given = zip(places, map(self.value, operands), strict=True) if operands else ()
                yield _Inside(self._program, module, dict(given))


def _contains(module: GraphModule, target: Any) -> bool:
    return any(node.target is target for _, inner in graphs_inside(module) for node in inner.graph.nodes) or any(
        node.target is target for node in module.graph.nodes
    )


def _write_inside(place: _Inside, forms: Mapping[Any, _Form]) -> None:
    _write(place, forms)
    for each in place.inner():
        _write_inside(each, forms)


def _write(place: _Inside, forms: Mapping[Any, _Form]) -> None:
    left: set[Node] = set()
    graph = place.graph
    while node := next((node for node in graph.nodes if node.target in forms and node not in left), None):
        if operators_of(place, node) > MOST_OPERATORS:
            left.add(node)
            continue
        with graph.inserting_before(node):
            results = forms[node.target](place, node)
        for user in list(node.users):
            assert user.target is operator.getitem
            place.replace(user, results[user.args[1]])
            graph.erase_node(user)
        subgraphs = [argument for argument in node.all_input_nodes if argument.op == "get_attr"]
        graph.erase_node(node)
        for subgraph in subgraphs:
            if not subgraph.users:
                graph.erase_node(subgraph)
                # The module's own method deletes what the graphs that stay refer to, too.
                if not graph.find_nodes(op="get_attr", target=subgraph.target):
                    place.module.delete_submodule(str(subgraph.target))
    place.module.recompile()


def operators_of(place: _Inside, node: Node) -> float:
    """Returns how many operators a condition or loop takes when it is written out; infinity if a condition doesn't
    bound a loop's steps.
    """
    if node.target in _REGIONS:
        return 0
    steps: float
    if node.target is _WHILE:
        conditions = _conditions(place, node)
        steps = math.inf if conditions is None else len(conditions)
    else:
        steps = 1 if node.target is torch.ops.higher_order.cond else _steps(node)
    return steps * sum(
        sum(inner.op == "call_function" for inner in place.subgraph(argument).graph.nodes)
        for argument in node.all_input_nodes
        if argument.op == "get_attr"
    )


def _steps(node: Node) -> int:
    """Returns the number of steps of a scan, whose operands are function, start and inputs, or of a map."""
    (first, *_) = node.args[2 if node.target is torch.ops.higher_order.scan else 1]
    return int(first.meta["val"].shape[0])


def _inline(place: _Inside, caller: Node, subgraph: Node, operands: Sequence[Node]) -> list[Node]:
    """Copies the operators of a subgraph before its caller; returns the nodes of its results."""
    module = place.subgraph(subgraph)
    given = iter(operands)
    copies: dict[Node, Node] = {}
    for node in module.graph.nodes:
        if node.op == "placeholder":
            copies[node] = next(given)
        elif node.op == "get_attr":
            # A condition or loop inside.
            name = f"{subgraph.target}_{node.target}"
            place.module.add_submodule(name, module.get_submodule(node.target))
            copies[node] = place.graph.get_attr(name)
        elif node.op == "output":
            return [copies[result] for result in tree_leaves(node.args[0])]
        else:
            copies[node] = place.graph.node_copy(node, copies.__getitem__)
            # A region is made after its operators have their places in the model.
            copies[node].meta = node.meta if caller.target in _REGIONS else node.meta | place_of(caller)
    raise AssertionError(f"{subgraph.target} returns nothing")


def _write_cond(place: _Inside, node: Node) -> list[Node]:
    condition, *branches, operands = node.args
    taken, other = (_inline(place, node, branch, operands) for branch in branches)
    if condition.meta["val"].dim():
        condition = emit(node, torch.ops.aten.reshape.default, condition, [])
    return [
        first if first is second else emit(node, torch.ops.aten.where.self, condition, first, second)
        for first, second in zip(taken, other, strict=True)
    ]


def _write_region(place: _Inside, node: Node) -> list[Node]:
    index = next(index for index, argument in enumerate(node.args) if isinstance(argument, Node))
    return _inline(place, node, node.args[index], node.args[index + 1 :])


def _write_scan(place: _Inside, node: Node) -> list[Node]:
    function, start, inputs, operands = node.args
    return _write_steps(place, node, function, start, inputs, operands)


def _write_map(place: _Inside, node: Node) -> list[Node]:
    function, inputs, operands = node.args
    return _write_steps(place, node, function, [], inputs, operands)


def _write_steps(place: _Inside, node: Node, function: Any, start: Any, inputs: Any, operands: Any) -> list[Node]:
    """Writes the steps of a loop over the first dimension of its inputs; returns the state and the stacked results."""
    state, results = list(start), []
    for step in range(_steps(node)):
        slices = [emit(node, torch.ops.aten.select.int, each, 0, step) for each in inputs]
        made = _inline(place, node, function, [*state, *slices, *operands])
        state = made[: len(state)]
        results.append(made[len(state) :])
    stacked = [emit(node, torch.ops.aten.stack.default, list(each)) for each in zip(*results, strict=True)]
    return state + stacked


def _write_while(place: _Inside, node: Node) -> list[Node]:
    """Writes the steps of a loop on a condition. A step whose condition depends on inputs is computed, and its results
    are chosen where the condition holds: state that doesn't change any more keeps it false.
    """
    condition, function, start, operands = node.args
    state = list(start)
    for known in _conditions(place, node) or ():
        made = _inline(place, node, function, [*state, *operands])
        if known is None:
            (holds,) = _inline(place, node, condition, [*state, *operands])
            choose = functools.partial(emit, node, torch.ops.aten.where.self, holds)
            made = [before if new is before else choose(new, before) for new, before in zip(made, state, strict=True)]
        state = made
    return state


def _conditions(place: _Inside, node: Node) -> list[bool | None] | None:
    """Returns the condition of each step of a loop that may be taken: True, or None if it depends on inputs; None if
    nothing bounds the number of steps.
    """
    condition, function, start, operands = node.args
    # The state changes with the steps alone, as a counter does.
    state, fixed = [place.value(each) for each in start], [place.value(each) for each in operands]
    found: list[bool | None] = []
    while len(found) <= MOST_OPERATORS:
        (holds,) = _known(place.subgraph(condition), [*state, *fixed])
        if holds is not None and not holds:
            return found
        found.append(None if holds is None else True)
        state = _known(place.subgraph(function), [*state, *fixed])
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
_REGIONS = (torch.ops.higher_order.wrap_with_autocast, torch.ops.higher_order.wrap_with_set_grad_enabled)
_FORMS: dict[Any, _Form] = {
    **dict.fromkeys(_REGIONS, _write_region),
    torch.ops.higher_order.cond: _write_cond,
    torch.ops.higher_order.map_impl: _write_map,
    torch.ops.higher_order.scan: _write_scan,
    _WHILE: _write_while,
}
