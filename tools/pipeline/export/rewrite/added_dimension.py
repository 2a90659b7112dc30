"""Gives layers, and the operators that follow them, tensors with one more dimension of size 1.

The dimension is a batch of one, or the height of a row that becomes an image of one row. The bytes in memory are the
same. A layer reads its operand with the dimension. Following operators that support the dimension keep it, so that they
stay next to their layer; where another operator reads a result, a view removes the dimension.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import as_list, emit, is_elementwise, named_arguments, replace_node

_aten = torch.ops.aten

# Operators that name dimensions of their first operand, and the argument that does.
_NAME_DIMENSIONS: dict[Any, str] = {
    **dict.fromkeys(
        (
            _aten.mean.dim, _aten.amax.default, _aten.amin.default, _aten.sum.dim_IntList, _aten.softmax.int,
            _aten.log_softmax.int, _aten.glu.default, _aten.slice.Tensor, _aten.select.int, _aten.cat.default,
            _aten.chunk.default, _aten.split.Tensor, _aten.split_with_sizes.default,
        ),
        "dim",
    ),
    _aten.flip.default: "dims",
}  # fmt: skip

# The operator that replaces a call, and its arguments by name. Nodes among them are those of the original call.
Call = tuple[Any, dict[str, Any]]


@dataclass(frozen=True)
class AddedDimension:
    """A dimension that is added to the operands of layers.

    Attributes:
      place: its index among the dimensions of a tensor that has it.
      begins: whether a call is a layer whose operand gets the dimension.
      goes_on: whether a call keeps the dimension if its first operand has it. Elementwise operators and those that name
        dimensions keep it anyway.
      writes: for operators that must change with the dimension: a function that takes a call and its arguments by name,
        and returns the changed call, or None if it can't have the dimension.
    """

    place: int
    begins: Callable[[Node], bool]
    goes_on: Callable[[Node], bool]
    writes: Mapping[Any, Callable[[Node, dict[str, Any]], Call | None]]

    def add(self, program: ExportedProgram) -> None:
        """Rewrites layers and the operators that follow them, in place.

        Args:
          program: functional; nodes without known shapes stay unchanged.
        """
        graph = program.graph
        added: dict[Node, Node] = {}
        begun: dict[Node, Node] = {}
        without: dict[Node, Node] = {}

        def operand_of(node: Node, operand: Node, dims: int) -> Node:
            place = self.place + operand.meta["val"].dim() - dims
            if operand in added or place < 0 or (place == 0 and self.place > 0):
                # Operands with fewer dimensions broadcast as before.
                return added.get(operand, operand)
            if operand not in begun:
                with graph.inserting_before(node):
                    begun[operand] = emit(node, _aten.unsqueeze.default, operand, place)
            return begun[operand]

        for node in list(graph.nodes):
            if node.op != "call_function" or not _has_fixed_sizes(node):
                continue
            if node.target is operator.getitem:
                if node.args[0] in added:
                    with graph.inserting_before(node):
                        added[node] = emit(node, operator.getitem, added[node.args[0]], node.args[1])
                continue
            operands = [each for each in node.all_input_nodes if isinstance(each.meta.get("val"), torch.Tensor)]
            if not operands:
                continue
            if self.begins(node) or (self.goes_on(node) and operands[0] in added):
                given = {operands[0]: operand_of(node, operands[0], operands[0].meta["val"].dim())}
            elif any(each in added for each in operands) and self._takes_all(node):
                dims = max(each.meta["val"].dim() for each in operands)
                given = {each: operand_of(node, each, dims) for each in operands}
            else:
                continue
            with graph.inserting_before(node):
                call = self._call(node)
                if call is None:
                    continue
                target, args, options = torch.fx.node.map_arg(call, lambda each, given=given: given.get(each, each))
                result = emit(node, target, *args, **options)
            sizes, wanted = _sizes(result), _sizes(node)
            if all(len(each) >= self.place for each in wanted) and sizes == [
                [*each[: self.place], 1, *each[self.place :]] for each in wanted
            ]:
                added[node] = result
            elif sizes == wanted:
                without[node] = result
            else:
                graph.erase_node(result)
        for node, result in added.items():
            if isinstance(result.meta["val"], torch.Tensor):
                with graph.inserting_after(result):
                    without[node] = emit(node, _aten.squeeze.dims, result, [self.place])
        for node, result in without.items():
            replace_node(program, node, result)
        graph.eliminate_dead_code()
        program.graph_module.recompile()

    def _takes_all(self, node: Node) -> bool:
        return is_elementwise(node.target) or node.target in _NAME_DIMENSIONS or node.target in self.writes

    def _call(self, node: Node) -> tuple[Any, Any, Any] | None:
        """Returns operator, arguments and options of a call with the dimension."""
        given = named_arguments(node)
        name = _NAME_DIMENSIONS.get(node.target)
        if node.target in self.writes:
            call = self.writes[node.target](node, given)
        elif name is None:
            return node.target, node.args, node.kwargs
        elif given[name] is None or given[name] == []:
            # The call works on all dimensions.
            call = None
        else:
            dims = node.all_input_nodes[0].meta["val"].dim()
            moved = [moved_dimension(dim, dims, self.place) for dim in as_list(given[name])]
            call = node.target, given | {name: moved[0] if isinstance(given[name], int) else moved}
        if call is None:
            return None
        target, given = call
        named = {each.name for each in target._schema.arguments if each.kwarg_only}
        options = {name: value for name, value in given.items() if name in named}
        return target, [value for name, value in given.items() if name not in named], options


def moved_dimension(dim: int, dims: int, place: int) -> int:
    """Returns the index of dimension `dim`, of `dims`, after a dimension is inserted at `place`."""
    dim %= dims
    return dim if dim < place else dim + 1


def _has_fixed_sizes(node: Node) -> bool:
    values = node.meta.get("val")
    values = values if isinstance(values, (list, tuple)) else [values]
    return all(isinstance(each, torch.Tensor) and all(isinstance(n, int) for n in each.shape) for each in values)


def _sizes(node: Node) -> list[list[int]]:
    values = node.meta["val"]
    return [list(each.shape) for each in (values if isinstance(values, (list, tuple)) else [values])]
