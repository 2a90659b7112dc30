"""Keeps computed indices as tensors: `path[-1]` as an index of a Viterbi decoder's table, the last step of a sequence.

PyTorch turns an index tensor without dimensions into a number, which no later step accepts. As a tensor, any indexing
operator accepts it.
"""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.overrides import TorchFunctionMode

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
    return program


class AssignmentsKept(TorchFunctionMode):
    """Gives an index without dimensions one in assignments, such as to a slot of a ring buffer: `ring[i] = x`."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.Tensor.__setitem__:
            args = _with_dimension(*args)
        return func(*args, **(kwargs or {}))


def _with_dimension(target: torch.Tensor, index: Any, value: Any) -> tuple[Any, ...]:
    indices = list(index) if isinstance(index, tuple) else [index]
    places = [place for place, each in enumerate(indices) if isinstance(each, torch.Tensor)]
    plain = all(isinstance(each, int | slice | torch.Tensor) for each in indices)
    if not plain or len(places) != 1 or any(isinstance(each, int) for each in indices):
        return target, index, value
    (place,) = places
    if indices[place].dim() or indices[place].dtype not in (torch.int32, torch.int64):
        return target, index, value
    indices[place] = indices[place].reshape(1)
    behind = target.dim() - place - 1
    if isinstance(value, torch.Tensor) and value.dim() > behind:
        value = value.unsqueeze(value.dim() - behind)
    return target, tuple(indices), value
