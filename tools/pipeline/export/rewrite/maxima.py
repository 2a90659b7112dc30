"""Maxima without their places, where nobody reads these: they would take twice the result's memory."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.rewriting import emit, named_arguments, rename_output


def drop_unused_argmax(module: GraphModule, alone: Mapping[Any, Any], program: ExportedProgram | None = None) -> None:
    """Computes maxima alone where nobody reads their places, in place.

    Args:
      alone: per operator that gives maxima and places the one that gives maxima, with the same arguments, or a list
        of them in place of one number.
      program: whose module it is, if it is one that has outputs by name.
    """
    for node in list(module.graph.nodes):
        if node.target not in alone or any(_is_other(user) for user in node.users):
            continue
        target = alone[node.target]
        given = list(zip(target._schema.arguments, named_arguments(node).values(), strict=True))
        # Passes look at how many arguments there are.
        count = next((i for i in range(len(node.args), len(given)) if given[i][0].has_default_value()), len(given))
        arguments = [
            [value] if str(each.type) == "List[int]" and type(value) is int else value for each, value in given[:count]
        ]
        with module.graph.inserting_before(node):
            maxima = emit(module.graph, node, target, *arguments)
        for user in list(node.users):
            # What else a quantizer or a pass has said of it.
            maxima.meta = {**user.meta, **node.meta, "val": maxima.meta["val"]}
            user.replace_all_uses_with(maxima)
            if program is not None:
                rename_output(program, user, maxima)
            module.graph.erase_node(user)
        module.graph.erase_node(node)
    module.recompile()


def _is_other(user: Node) -> bool:
    return user.target is not operator.getitem or user.args[1] != 0
