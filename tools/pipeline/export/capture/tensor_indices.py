"""Indices that the program computes: `path[-1]` as an index of a Viterbi decoder's table, a sequence's last step.

PyTorch makes a number of an index without dimensions, as which no later step takes it. As a tensor it is one of any
indexing operator's.
"""

from __future__ import annotations

import torch
from torch.export import ExportedProgram

from tools.pipeline.export.ir.rewriting import replace_node

_aten = torch.ops.aten


def keep_tensor_indices(program: ExportedProgram) -> ExportedProgram:
    """Puts indexing by tensors in place of indexing by numbers that come of them, in place."""
    graph = program.graph
    for number in graph.find_nodes(op="call_function", target=_aten.item.default):
        for selection in list(number.users):
            if selection.target != _aten.select.int or selection.args[2] is not number:
                continue
            operand, dim = selection.args[:2]
            before = [None] * (dim % operand.meta["val"].dim())
            with graph.inserting_before(selection):
                indexed = graph.call_function(_aten.index.Tensor, (operand, [*before, number.args[0]]))
            indexed.meta = dict(selection.meta)
            replace_node(program, selection, indexed)
            graph.erase_node(selection)
        if not number.users:
            graph.erase_node(number)
    program.graph_module.recompile()
    return program
