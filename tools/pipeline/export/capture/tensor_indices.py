"""Keeps computed indices as tensors: `path[-1]` as an index of a Viterbi decoder's table, the last step of a sequence.

PyTorch turns an index tensor without dimensions into a number, which no later step accepts. As a tensor, any indexing
operator accepts it.
"""

import torch
from torch.export import ExportedProgram

from tools.pipeline.export.ir.rewriting import replace_node

_aten = torch.ops.aten


def keep_tensor_indices(program: ExportedProgram) -> ExportedProgram:
    """Replaces indexing by a number that is read from a tensor with indexing by that tensor, in place."""
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
