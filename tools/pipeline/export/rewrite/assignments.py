"""Turns tensors that are assigned slice by slice into concatenations.

An assignment to a slice of a tensor (`y[:, 1:] = x[:, :-1]`) is captured as an operator that returns a copy of the
whole tensor with one slice changed. Neither quantizers nor NPUs support it, and each one copies everything. Here such a
tensor becomes a concatenation of its final parts; parts that are overwritten are never computed.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from tools.pipeline.export.ir.operators import FILLS, FILLS_WITH
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node, run_decompositions

_aten = torch.ops.aten


# Operators that fill a tensor with one number.
_FILLS = FILLS | {_aten.ones.default: 1, _aten.zeros.default: 0}
_FILLS_WITH = FILLS_WITH | {_aten.full.default: 1}

_SCATTERS = (_aten.slice_scatter.default, _aten.select_scatter.default)

# Operators that replace a tensor's elements by those of another tensor, or by a number.
_COPIES = (_aten.copy.default, _aten.fill.Scalar, _aten.fill.Tensor)

# Beyond this, a concatenation takes more operators than the assignments.
_MOST_PARTS = 32


@dataclass(frozen=True)
class _Part:
    """Elements of a tensor that come from another one.

    Attributes:
      low, high: the bounds of the elements in each dimension.
      source: the other tensor.
      offset: the index of their first element in it.
    """

    low: tuple[int, ...]
    high: tuple[int, ...]
    source: Node
    offset: tuple[int, ...]

    def within(self, low: Sequence[int], high: Sequence[int]) -> _Part | None:
        """Returns the part inside two corners, or None if it is empty."""
        begin = tuple(map(max, self.low, low))
        end = tuple(map(min, self.high, high))
        if any(one >= other for one, other in zip(begin, end, strict=True)):
            return None
        offset = (at + one - other for at, one, other in zip(self.offset, begin, self.low, strict=True))
        return _Part(begin, end, self.source, tuple(offset))

    def moved(self, dim: int, distance: int) -> _Part:
        """Returns the same part, shifted by `distance` in a dimension."""
        low, high = (_with(corner, dim, corner[dim] + distance) for corner in (self.low, self.high))
        return _Part(low, high, self.source, self.offset)


def _with(corner: tuple[int, ...], dim: int, place: int) -> tuple[int, ...]:
    return (*corner[:dim], place, *corner[dim + 1 :])


def _corners(shape: tuple[int, ...], dim: int, taken: range) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Returns the bounds of a slice of a tensor."""
    return _with((0,) * len(shape), dim, taken.start), _with(shape, dim, taken.stop)


def assemble(program: ExportedProgram) -> ExportedProgram:
    """Turns tensors that are assigned slice by slice into concatenations. The program's outputs and state don't change.

    Returns:
      the program, without operators that write to their operands if it had such a tensor.
    """
    if not any(_writes(node) for node in program.graph.nodes):
        return program
    program = run_decompositions(program, {})
    graph = program.graph
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target in _COPIES and _is_static(node) and _is_known(node.args[1]):
            with graph.inserting_before(node):
                replace_node(program, node, _copied(node))
    graph.eliminate_dead_code()
    parts = _Assembled(graph)
    for node in list(graph.nodes):
        parts.add(node)
    for node in parts.changed():
        others = [user for user in node.users if user not in parts]
        if others and not any(user.op == "output" for user in others):
            with graph.inserting_before(node):
                replace_node(program, node, parts.build(node))
    graph.eliminate_dead_code()
    return program


def _writes(node: Node) -> bool:
    """Whether a node changes a part of a tensor, or changes a tensor in place that may be a view of another one."""
    if node.target in _SCATTERS:
        return True
    schema = getattr(node.target, "_schema", None)
    is_part = any(operand.target in (_aten.slice.Tensor, _aten.select.int) for operand in node.all_input_nodes)
    return schema is not None and schema.is_mutable and is_part


def _copied(node: Node) -> Node:
    """Emits the source of a copy or a fill, whose target's own elements are all overwritten."""
    value, source = node.meta["val"], node.args[1]
    if not isinstance(source, Node):
        return emit(node, _aten.full.default, [*value.shape], source, dtype=value.dtype)
    if source.meta["val"].dtype != value.dtype:
        source = emit(node, _aten._to_copy.default, source, dtype=value.dtype)
    if source.meta["val"].shape != value.shape:
        source = emit(node, _aten.expand.default, source, [*value.shape])
    return source


def _is_known(source: Any) -> bool:
    """Whether the source of a copy is a tensor or a number that doesn't depend on shapes."""
    return not isinstance(source, Node) or isinstance(source.meta.get("val"), torch.Tensor)


def _is_static(node: Any) -> bool:
    value = node.meta.get("val") if isinstance(node, Node) else None
    return isinstance(value, torch.Tensor) and value.dim() > 0 and all(isinstance(size, int) for size in value.shape)


def _range(given: dict[str, Any], size: int) -> range:
    return range(*slice(given["start"], given["end"], given["step"]).indices(size))


class _Assembled:
    """Tensors that slices were assigned to, their slices and copies, and the parts that they consist of."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        # Later parts overwrite earlier ones.
        self._parts: dict[Node, list[_Part]] = {}
        self._changed: dict[Node, None] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._parts

    def changed(self) -> list[Node]:
        """Returns the tensors that slices were assigned to, and those that were taken from them."""
        return list(self._changed)

    def add(self, node: Node) -> None:
        """Records the parts of a node, if they are known."""
        if node.op != "call_function" or not _is_static(node) or not all(map(_is_static, node.all_input_nodes)):
            return
        if node.target == _aten.clone.default:
            self._note(node, self._of(node.args[0]), node.args[0] in self._changed)
        elif node.target == _aten.slice.Tensor:
            self._add_slice(node)
        elif node.target in _SCATTERS:
            self._add_scatter(node)

    def _note(self, node: Node, parts: list[_Part], is_changed: bool) -> None:
        if len(parts) > _MOST_PARTS:
            return
        self._parts[node] = parts
        if is_changed:
            self._changed[node] = None

    def _of(self, node: Node) -> list[_Part]:
        shape = tuple(node.meta["val"].shape)
        start = (0,) * len(shape)
        return self._parts.get(node, [_Part(start, shape, node, start)])

    def _add_slice(self, node: Node) -> None:
        given = named_arguments(node)
        source = given["self"]
        shape = tuple(source.meta["val"].shape)
        dim = given["dim"] % len(shape)
        taken = _range(given, shape[dim])
        if taken.step == 1 and len(taken) > 0:
            parts = [part.moved(dim, -taken.start) for part in _inside(self._of(source), *_corners(shape, dim, taken))]
            self._note(node, parts, source in self._changed)

    def _add_scatter(self, node: Node) -> None:
        given = named_arguments(node)
        whole, written = given["self"], given["src"]
        shape = tuple(whole.meta["val"].shape)
        dim = given["dim"] % len(shape)
        if whole.meta["val"].dtype != written.meta["val"].dtype:
            return
        if node.target == _aten.select_scatter.default:
            if written.target == _aten.select.int and written.args == (whole, given["dim"], given["index"]):
                # The value that was written in place is read and written again.
                self._note(node, self._of(whole), whole in self._changed)
                return
            with self._graph.inserting_before(node):
                written = emit(node, _aten.unsqueeze.default, written, dim)
            start = given["index"] % shape[dim]
            taken = range(start, start + 1)
        else:
            taken = _range(given, shape[dim])
        if taken.step == 1 and written.meta["val"].numel() > 0:
            below, above = self._of(whole), [part.moved(dim, taken.start) for part in self._of(written)]
            above = _new(_inside(below, *_corners(shape, dim, taken)), above)
            self._note(node, _uncovered([*below, *above]), True)

    def build(self, node: Node) -> Node:
        """Emits an equivalent of a node before it."""
        shape = tuple(node.meta["val"].shape)
        return self._build(node, self._of(node), (0,) * len(shape), shape)

    def _build(self, node: Node, parts: list[_Part], low: tuple[int, ...], high: tuple[int, ...]) -> Node:
        inside = _inside(parts, low, high)
        top = inside[-1]
        if (top.low, top.high) == (low, high):
            return self._taken(node, top)
        # Split along the dimension that leaves the fewest parts to concatenate.
        cuts = {
            dim: sorted({low[dim], high[dim], top.low[dim], top.high[dim]})
            for dim in range(len(low))
            if (top.low[dim], top.high[dim]) != (low[dim], high[dim])
        }

        def pieces(dim: int) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
            bounds = itertools.pairwise(cuts[dim])
            return [(_with(low, dim, begin), _with(high, dim, end)) for begin, end in bounds]

        def count(dim: int) -> int:
            return sum(len(_inside(inside, *piece)) for piece in pieces(dim))

        dim = min(cuts, key=count)
        built: list[Node] = []
        for piece in pieces(dim):
            result = self._build(node, inside, *piece)
            is_along = result.target == _aten.cat.default and result.args[1] == dim and not result.users
            built += result.args[0] if is_along else [result]
        return emit(node, _aten.cat.default, built, dim)

    def _taken(self, node: Node, part: _Part) -> Node:
        """The elements of a part."""
        source = part.source
        sizes = [end - begin for begin, end in zip(part.low, part.high, strict=True)]
        filled = _filling(source)
        if filled is not None:
            return emit(node, _aten.full.default, sizes, filled, dtype=source.meta["val"].dtype)
        for dim, (offset, size) in enumerate(zip(part.offset, sizes, strict=True)):
            if size != source.meta["val"].shape[dim]:
                source = emit(node, _aten.slice.Tensor, source, dim, offset, offset + size)
        return source


def _uncovered(parts: list[_Part]) -> list[_Part]:
    """Those that no later one covers."""
    return [
        part
        for index, part in enumerate(parts)
        if not any(part.within(above.low, above.high) == part for above in parts[index + 1 :])
    ]


def _new(before: list[_Part], after: list[_Part]) -> list[_Part]:
    """Returns the parts that cover those before them: all, or those that were written into a copy of these."""
    new = [part for part in after if part not in before]
    is_copy = new == after[len(after) - len(new) :]
    gone = (part for part in before if part not in after)
    return new if is_copy and all(_uncovered([part, *new]) == new for part in gone) else after


def _inside(parts: list[_Part], low: tuple[int, ...], high: tuple[int, ...]) -> list[_Part]:
    """Returns the visible parts between two corners."""
    return _uncovered([part for each in parts if (part := each.within(low, high)) is not None])


def _filling(node: Node) -> float | None:
    """The number that all elements of a new tensor are; None for others."""
    if node.target in _FILLS:
        return _FILLS[node.target]
    index = _FILLS_WITH.get(node.target)
    value = None if index is None else node.args[index]
    return value if isinstance(value, (int, float)) else None
