"""Rewrites masks before softmax operators, maxima and minima to preserve the resolution of what is not masked.

A mask adds minus infinity, or a number of that effect, to excluded scores, which stretches the range of the sum. An NPU
may also lack a selection between both. The softmax is the same if excluded scores become the minimum of all scores, and
their exponentials are omitted from the sum. Both are minima with a tensor of two values, which are the bounds that
scores and exponentials have anyway, so that nothing is rounded again. Before a maximum excluded values become the
minimum of all values, and before a minimum the maximum.
"""

import functools
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.operators import (
    CHOICES,
    EXTREMES,
    MASKED_FILLS,
    SIZE_CHANGES,
    SOFTMAX,
    SUMS,
    TRANSPOSITIONS,
)
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node
from tools.pipeline.export.quantize.extents import Extents
from tools.pipeline.export.rewrite.masks import EXCLUDED, Kind, Step, before_views, find_step

_aten = torch.ops.aten
# Reductions to the largest elements, and to the smallest ones.
_MAXIMA = frozenset((_aten.amax.default, _aten.max.dim))
_ALL_EXTREMES = EXTREMES | _MAXIMA | {_aten.min.dim}
_MOVES = SIZE_CHANGES | TRANSPOSITIONS
# The exponential is less than half a unit of 16 bits.
_NOTHING = 12.0


class _Seen(Extents):
    """Also records whether values were those of masks."""

    def __init__(self, program: ExportedProgram, nodes: Iterable[Node]) -> None:
        super().__init__(program, nodes)
        # Whether all values were either 0 or far from it.
        self._is_mask = dict.fromkeys(self.ranges, True)

    def see(self, node: Node, value: torch.Tensor) -> None:
        super().see(node, value)
        self._is_mask[node] &= bool(((value == 0) | (value.abs() >= -EXCLUDED)).all())

    def excludes(self, node: Node, is_subtracted: bool) -> bool:
        """Whether an added node was always 0 or far below it, or a subtracted node 0 or far above it."""
        if not self._is_mask.get(node, False):
            return False
        least, most = self.ranges[node]
        return (-most <= EXCLUDED and least >= 0) if is_subtracted else (least <= EXCLUDED and most <= 0)


def write_masks(program: ExportedProgram, samples: Sequence[Sample], state: State, bits: int, path: Path) -> bool:
    """Rewrites softmax operators of masked scores so that the mask does not affect the range, in place, and returns
    whether it has: such scores are then limited to the range of the samples.

    Masks may be added, filled in or selected by a condition, and may be constants, inputs or computed from these. Masks
    that exclude a whole row are not rewritten.

    Args:
      samples: inputs, from which the range of the scores and the masks are determined.
      state: the state, which the program's first inputs read and its first outputs update.
      bits: the width of the activations, 8 or 16.
      path: the model file, for messages.
    """
    graph, constants = program.graph, Constants(program)
    softmaxes = [node for node in graph.nodes if node.target in SOFTMAX]
    sums = [operand for node in softmaxes for operand in _varying_operands(before_views(node), constants)]
    seen = _Seen(program, sums)
    if sums:
        seen.observe(samples, state, path)
    found = {node: steps for node in softmaxes if (steps := _steps(node, constants, seen))}
    # Constants that are added to scores contribute to their range.
    scores = {node: _scores(program, node, steps) for node, steps in found.items()}
    ranges = _Seen(program, scores.values())
    if found:
        ranges.observe(samples, state, path)
    is_limited = False
    for node, steps in found.items():
        with graph.inserting_before(node):
            result = _write(program, node, steps, scores[node], ranges.ranges[scores[node]], bits)
        if result is not None:
            is_limited = True
            replace_node(program, node, result)
    is_limited |= _narrow_fills(program, samples, state, path)
    graph.eliminate_dead_code()
    program.graph_module.recompile()
    return is_limited


def _narrow_fills(program: ExportedProgram, samples: Sequence[Sample], state: State, path: Path) -> bool:
    """Replaces numbers that exclude elements from maxima or minima by the least or the largest of the elements, and
    returns whether there are any.

    A finite number that calibration sees as a result is kept.
    """
    constants = Constants(program)
    found = []
    for node in program.graph.nodes:
        if node.target not in MASKED_FILLS | CHOICES:
            continue
        first = 1 if node.target in CHOICES else 0
        extremes = _extremes_of(node)
        for place, other in ((first, 2), (2, first)):
            values, number = node.args[place], _number(node.args[other], constants)
            are_maxima = {extreme.target in _MAXIMA for extreme in extremes}
            if number is not None and isinstance(values, Node) and constants.value(values) is None:
                if are_maxima == {number < 0} and abs(number) >= -EXCLUDED:
                    found.append((node, values, other, number, extremes))
                break
    seen = Extents(program, (each for _, values, _, _, extremes in found for each in (values, *extremes)))
    if found:
        seen.observe(samples, state, path)
    for node, values, other, number, extremes in found:
        least, most = seen.ranges[values]
        is_reached = any(number in seen.ranges[extreme] for extreme in extremes)
        if least <= most and math.isfinite(most - least) and (math.isinf(number) or not is_reached):
            fill = torch.tensor(least if number < 0 else most, dtype=values.meta["val"].dtype)
            constant = add_constant(program, f"{node.name}_fill", fill)
            arguments = [*node.args[:other], constant, *node.args[other + 1 :]]
            condition, one, two = arguments if node.target in CHOICES else (node.args[1], constant, node.args[0])
            with program.graph.inserting_before(node):
                replace_node(program, node, emit(node, _aten.where.self, condition, one, two))
    return bool(found)


def _extremes_of(node: Node) -> list[Node]:
    """Lists the maxima and minima that read a tensor, also through views; none if anything else reads it."""
    found = list[Node]()
    for user in node.users:
        each = [user] if user.target in _ALL_EXTREMES else _extremes_of(user) if user.target in _MOVES else []
        if not each:
            return []
        found += each
    return found


def _number(operand: Any, constants: Constants) -> float | None:
    """Returns the number that an operand is, or that all elements of a constant are."""
    value = constants.value(operand) if isinstance(operand, Node) else torch.tensor(float(operand))
    return float(value.flatten()[0]) if value is not None and value.numel() and len(value.unique()) == 1 else None


def _varying_operands(node: Node, constants: Constants) -> list[Node]:
    """Lists all operands of sums before a softmax that depend on inputs: any of them may be a mask."""
    found: list[Node] = []
    if node.target in SUMS | MASKED_FILLS | CHOICES:
        for operand in node.all_input_nodes:
            if operand.meta["val"].is_floating_point() and constants.value(operand) is None:
                found += [operand] if node.target in SUMS else []
                found += _varying_operands(operand, constants)
    # A single operand has no mask.
    return found if len(found) > 1 else []


def _steps(softmax: Node, constants: Constants, seen: _Seen) -> list[Step]:
    """Lists the operators from a softmax back to the first mask; empty if they mask nothing or everything."""
    node, steps = before_views(softmax), list[Step]()
    while (step := find_step(node, constants, seen.excludes)) is not None:
        steps.append(step)
        node = step.scores
    while steps and steps[-1].mask is None and _excluded(steps[-1:]) is None:
        steps.pop()
    excluded = _excluded(steps)
    if excluded is None:
        return steps
    rows = excluded.expand(steps[-1].scores.meta["val"].shape)
    return [] if bool(rows.all(named_arguments(softmax)["dim"]).any()) else steps


def _excluded(steps: Iterable[Step]) -> torch.Tensor | None:
    """Returns the elements that the constant masks exclude together."""
    found = [excluded for step in steps if step.added is not None and (excluded := step.added <= EXCLUDED).any()]
    return functools.reduce(torch.logical_or, found) if found else None


def _scores(program: ExportedProgram, softmax: Node, steps: Sequence[Step]) -> Node:
    """Returns the scores without masks, plus the constants that are added to them."""
    scores = steps[-1].scores
    for index, step in enumerate(reversed(steps)):
        added = None if step.added is None else torch.where(step.added <= EXCLUDED, 0.0, step.added)
        if added is not None and added.any():
            constant = add_constant(program, f"{softmax.name}_added_{index}", added)
            with program.graph.inserting_before(softmax):
                scores = emit(softmax, _aten.add.Tensor, scores, constant)
    return scores


def _write(
    program: ExportedProgram, softmax: Node, steps: Sequence[Step], scores: Node, extent: tuple[float, float], bits: int
) -> Node | None:
    """Returns the softmax without the excluded elements, or None if it can't be rewritten.

    Args:
      scores: the scores without masks.
      extent: their minimum and maximum.
    """
    least, most = extent
    dim, masks = named_arguments(softmax)["dim"], [step.mask for step in steps if step.mask is not None]
    bounds = list[tuple[Node, Node]]()
    if not least < most:
        return None
    for mask, kind in masks:
        if bits == 16 and kind in (Kind.ADDED, Kind.SUBTRACTED):
            # 16 bits have room for the mask, but no tables for comparisons.
            below = least - most - _NOTHING
            limits = (below, 0.0) if kind is Kind.ADDED else (0.0, -below)
            limited = emit(softmax, _aten.clamp.default, mask, *limits)
            target = _aten.add.Tensor if kind is Kind.ADDED else _aten.sub.Tensor
            scores = emit(softmax, target, scores, limited)
            continue
        condition, values = _condition(softmax, mask, kind), ((least, most), (0.0, 1.0))
        one, other = (
            emit(softmax, _aten.where.Scalar, condition, *(each[::-1] if kind is Kind.KEPT else each))
            for each in values
        )
        bounds.append((one, other))
    excluded = _excluded(steps)
    if excluded is not None:
        one, other = (
            add_constant(program, f"{softmax.name}_{name}", torch.where(excluded, *values))
            for name, values in (("least", (least, most)), ("left_out", (0.0, 1.0)))
        )
        bounds.append((one, other))
    for bound, _ in bounds:
        scores = emit(softmax, _aten.minimum.default, scores, bound)
    most_of_row = emit(softmax, _aten.amax.default, scores, [dim], True)
    difference = emit(softmax, _aten.sub.Tensor, scores, most_of_row)
    exponentials = emit(softmax, _aten.exp.default, difference)
    for _, bound in bounds:
        exponentials = emit(softmax, _aten.minimum.default, exponentials, bound)
    total = emit(softmax, _aten.sum.dim_IntList, exponentials, [dim], True)
    reciprocal = emit(softmax, _aten.reciprocal.default, total)
    result = emit(softmax, _aten.mul.Tensor, exponentials, reciprocal)
    shape = list(softmax.meta["val"].shape)
    if list(result.meta["val"].shape) == shape:
        return result
    return emit(softmax, _aten.reshape.default, result, shape)


def _condition(origin: Node, mask: Node, kind: Kind) -> Node:
    """Returns a condition that is true for excluded elements, or for kept ones if the mask is such a condition."""
    if kind is Kind.ADDED:
        return emit(origin, _aten.le.Scalar, mask, EXCLUDED)
    if kind is Kind.SUBTRACTED:
        return emit(origin, _aten.ge.Scalar, mask, -EXCLUDED)
    return mask
