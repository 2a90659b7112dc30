"""Replaces circular padding by a concatenation of both ends.

PyTorch decomposes it into assignments to memory without values, which constant folding would store in the program.
"""

import sys

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.control_flow import graphs_inside
from tools.pipeline.export.ir.rewriting import crop, emit, named_arguments, rename_output

_aten = torch.ops.aten


def join_ends(program: ExportedProgram) -> ExportedProgram:
    """Replaces each circular padding, also in branches and loops, in place."""
    modules = [program.graph_module, *(inner for _, inner in graphs_inside(program.graph_module))]
    for module in modules:
        for node in list(module.graph.nodes):
            if node.target == _aten.pad.default and named_arguments(node)["mode"] == "circular":
                ends = named_arguments(node)["pad"]
                if not any(ends):
                    continue
                result = _joined(node, ends)
                node.replace_all_uses_with(result)
                if module is program.graph_module:
                    rename_output(program, node, result)
                module.graph.erase_node(node)
        module.recompile()
    return program


def _joined(pad: Node, ends: list[int]) -> Node:
    result = pad.args[0]
    assert isinstance(result, Node)
    rank = result.meta["val"].dim()
    with pad.graph.inserting_before(pad):
        for place in range(0, len(ends), 2):
            dim, (before, after) = rank - 1 - place // 2, ends[place : place + 2]
            # The cropped tensor is repeated.
            result = crop(pad, result, place, before, after)
            parts = [result]
            if before > 0:
                parts.insert(0, emit(pad, _aten.slice.Tensor, result, dim, -before, sys.maxsize))
            if after > 0:
                parts.append(emit(pad, _aten.slice.Tensor, result, dim, 0, after))
            if len(parts) > 1:
                result = emit(pad, _aten.cat.default, parts, dim)
    return result
