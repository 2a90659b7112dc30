"""Masks before softmax operators, however a model writes them.

A mask may be added, filled in or chosen by a condition, and be a constant or depend on inputs.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

import torch
from torch.fx import Node

from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.ir.operators import CHOICES, MASKED_FILLS, SIZE_CHANGES, SUMS
from tools.pipeline.export.ir.rewriting import named_arguments

_aten = torch.ops.aten

# Masks add at most this to excluded scores: e^-64 is a negligible share of a sum. Shifted windows have -100.
EXCLUDED = -64.0


class Kind(Enum):
    """The meaning of a mask tensor: true for excluded or for kept elements, or far from 0 for excluded ones."""

    EXCLUDED = auto()
    KEPT = auto()
    ADDED = auto()
    SUBTRACTED = auto()


@dataclass(frozen=True)
class Step:
    """An operator between scores and a softmax.

    Attributes:
      scores: its operand, of the result's shape.
      added: the constant that it adds, or that has the same effect; None if there is no constant.
      mask: the tensor that excludes some scores, if it is not constant.
    """

    scores: Node
    added: torch.Tensor | None = None
    mask: tuple[Node, Kind] | None = None


def before_views(softmax: Node) -> Node:
    """Returns the operand of a softmax, looking through views that keep its rows."""
    node, dim = softmax.args[0], named_arguments(softmax)["dim"]
    if dim in (-1, softmax.meta["val"].dim() - 1):
        while node.target in SIZE_CHANGES and len(node.users) == 1 and _keeps_rows(node):
            node = node.args[0]
    return node


def _keeps_rows(view: Node) -> bool:
    shapes = view.meta["val"].shape, view.args[0].meta["val"].shape
    return all(shapes) and shapes[0][-1] == shapes[1][-1]


def find_step(node: Node, constants: Constants, is_mask: Callable[[Node, bool], bool]) -> Step | None:
    """Reads a masking operator, or one that adds a constant; None for others and for those with several readers.

    Args:
      is_mask: whether a tensor that is added, or subtracted if the second argument says so, is a mask.
    """
    if len(node.users) != 1:
        return None
    given: Any = node.args
    pairs: list[Any] = []
    step = None
    if node.target in MASKED_FILLS:
        step = _conditional(given[0], given[1], Kind.EXCLUDED, given[2], constants)
    elif node.target in CHOICES:
        condition, one, other = given
        step = _conditional(one, condition, Kind.KEPT, other, constants) or _conditional(
            other, condition, Kind.EXCLUDED, one, constants
        )
    elif node.target in SUMS and not node.kwargs:
        pairs = [given] if node.target == _aten.sub.Tensor else [given, given[::-1]]
    for scores, other in pairs:
        step = step or _additive(scores, other, node.target == _aten.sub.Tensor, constants, is_mask)
    return step if step is not None and step.scores.meta["val"].shape == node.meta["val"].shape else None


def _value(operand: Any, constants: Constants) -> torch.Tensor | None:
    """Returns the constant value of an operand."""
    return constants.value(operand) if isinstance(operand, Node) else torch.tensor(float(operand))


def _conditional(scores: Any, condition: Node, kind: Kind, number: Any, constants: Constants) -> Step | None:
    """Reads the replacement of scores by a number; None if it is not one that excludes."""
    known, value = constants.value(condition), _value(number, constants)
    if not isinstance(scores, Node) or value is None or not bool((value <= EXCLUDED).all()):
        return None
    if known is None:
        return Step(scores, mask=(condition, kind))
    is_excluded = known if kind is Kind.EXCLUDED else ~known
    return Step(scores, added=torch.where(is_excluded, value.to(torch.float32), 0.0))


def _additive(
    scores: Any, other: Any, is_subtracted: bool, constants: Constants, is_mask: Callable[[Node, bool], bool]
) -> Step | None:
    if not isinstance(scores, Node):
        return None
    known = _value(other, constants)
    if known is not None:
        return Step(scores, added=-known if is_subtracted else known)
    kind = Kind.SUBTRACTED if is_subtracted else Kind.ADDED
    return Step(scores, mask=(other, kind)) if is_mask(other, is_subtracted) else None
