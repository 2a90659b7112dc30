"""Drops the indices of maxima that nothing reads: they would take twice the memory of the result."""

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from tools.pipeline.export.ir.rewriting import emit, named_arguments, rename_output

_aten = torch.ops.aten


def drop_pool_places(program: ExportedProgram) -> None:
    """Drops the indices of poolings that nothing reads, in place."""
    alone = {_aten.max_pool2d_with_indices.default: _aten.max_pool2d.default}
    drop_unused_argmax(program.graph_module, alone, program)


def drop_unused_argmax(module: GraphModule, alone: Mapping[Any, Any], program: ExportedProgram | None = None) -> None:
    """Replaces operators whose indices nothing reads by ones that only compute maxima, in place.

    Args:
      alone: maps operators that return maxima and indices to those that return maxima, with the same arguments. A
        number of the former may be a list in the latter.
      program: the program that the module belongs to, if its outputs have names.
    """
    for node in list(module.graph.nodes):
        is_value = all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)
        if node.target not in alone or not is_value:
            continue
        target = alone[node.target]
        given = list(zip(target._schema.arguments, named_arguments(node).values(), strict=True))
        # Passes check the number of arguments.
        count = next((i for i in range(len(node.args), len(given)) if given[i][0].has_default_value()), len(given))
        arguments = [
            [value] if str(each.type) == "List[int]" and type(value) is int else value for each, value in given[:count]
        ]
        with module.graph.inserting_before(node):
            maxima = emit(node, target, *arguments)
        for user in list(node.users):
            # Keep annotations of quantizers and passes on the result.
            maxima.meta = {**user.meta, **node.meta, "val": maxima.meta["val"]}
            user.replace_all_uses_with(maxima)
            if program is not None:
                rename_output(program, user, maxima)
            module.graph.erase_node(user)
        module.graph.erase_node(node)
    module.recompile()
