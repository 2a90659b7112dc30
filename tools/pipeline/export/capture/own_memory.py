"""Adds copies where a captured program would write into its inputs, or return an operand of a branch or a loop."""

import operator

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.ir.memory import changed_memory, memory_of
from tools.pipeline.export.ir.rewriting import place_of, rename_output
from tools.pipeline.export.ir.signature import user_inputs

_aten = torch.ops.aten


def return_changed_operands(program: ExportedProgram) -> ExportedProgram:
    """Makes branches that change an operand, such as a buffer, change a copy of it and return that, in place. A program
    has no other way to take changes from a branch.
    """
    _return_changed_operands(program.graph_module)
    return program


def _return_changed_operands(module: GraphModule) -> None:
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=torch.ops.higher_order.cond):
        branches = [getattr(module, str(branch.target)) for branch in node.args[1:3]]
        changed = set[int]()
        for branch in branches:
            _return_changed_operands(branch)
            owners = changed_memory(branch.graph)
            changed.update(i for i, each in enumerate(branch.graph.find_nodes(op="placeholder")) if each in owners)
        before = len(node.meta["val"])
        for branch in branches if changed else ():
            _return_copies(branch, sorted(changed))
        for index, operand in enumerate(sorted(changed), before):
            with graph.inserting_after(node):
                result = graph.call_function(operator.getitem, (node, index))
            given = node.args[3][operand]
            result.meta = {**place_of(node), "val": given.meta["val"].clone()}
            node.meta["val"] = (*node.meta["val"], result.meta["val"])
            with graph.inserting_after(result):
                written = graph.call_function(_aten.copy_.default, (given, result))
            written.meta = {**place_of(node), "val": given.meta["val"]}
    module.recompile()


def _return_copies(branch: GraphModule, operands: list[int]) -> None:
    """Makes a branch use copies of operands, and return these behind its results, in place."""
    graph = branch.graph
    placeholders, output = graph.find_nodes(op="placeholder"), graph.output_node()
    copies = []
    for operand in (placeholders[index] for index in operands):
        with graph.inserting_after(placeholders[-1]):
            copy = graph.call_function(_aten.clone.default, (operand,))
        copy.meta = {**place_of(operand), "val": operand.meta["val"].clone()}
        operand.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
        copies.append(copy)
    output.args = ((*output.args[0], *copies),)
    branch.recompile()


def copy_changed_inputs(program: ExportedProgram) -> ExportedProgram:
    """Makes a model that changes an input change a copy of it, in place. No caller reads an input after the call, and a
    sample stays unchanged for further runs.
    """
    graph = program.graph
    changed = changed_memory(graph)
    first = next(node for node in graph.nodes if node.op != "placeholder")
    for node in user_inputs(program):
        if node not in changed:
            continue
        with graph.inserting_before(first):
            copy = graph.call_function(_aten.clone.default, (node,))
        copy.meta = {**place_of(node), "val": node.meta["val"].clone()}
        node.replace_all_uses_with(copy, delete_user_cb=lambda user, copy=copy: user is not copy)
        rename_output(program, node, copy)
    return program


def copy_operands_returned(program: ExportedProgram) -> ExportedProgram:
    """Makes branches and loops return copies of operands, and of results that they return twice, in place.

    PyTorch captures branches that return an operand or a view of one, but rejects them in later steps.
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
    return program
