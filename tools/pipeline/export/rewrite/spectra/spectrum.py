"""Describes transforms of the frames of signals, which are emitted once their readers are known."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Node

from tools.pipeline.export.ir.operators import COPIES, SIZE_CHANGES, TRANSPOSITIONS
from tools.pipeline.export.ir.rewriting import named_arguments

_aten = torch.ops.aten

# Operators that return their complex operand.
SAME = COPIES | {_aten.resolve_conj.default, _aten.resolve_neg.default}
ALL_TRANSPOSITIONS = TRANSPOSITIONS | {_aten.mT.default, _aten.numpy_T.default, _aten.t.default}
_REARRANGING = SAME | ALL_TRANSPOSITIONS | SIZE_CHANGES | {_aten.select.int, _aten.slice.Tensor}


@dataclass(frozen=True)
class Spectrum:
    """Transforms of the frames of signals.

    Attributes:
      transform: the node of the model that transforms.
      signal: [signals, samples].
      window: [size].
      size, hop, pad, reflect, count, onesided: arguments of the operators.
      shape: the shape of the complex tensor in the model: any dimensions, then those of frames and frequencies.
      has_frames: whether frames have a dimension; otherwise there is one frame per signal.
      frames_first: whether the dimension of frames precedes that of frequencies.
    """

    transform: Node
    signal: Node
    window: Node | None
    size: int
    hop: int
    pad: int
    reflect: bool
    count: int
    onesided: bool
    shape: tuple[int, ...]
    has_frames: bool
    frames_first: bool

    @property
    def frames(self) -> tuple[Any, ...]:
        """Returns the operators' arguments about frames."""
        return (self.size, self.hop, self.pad, self.reflect, self.count)

    def rearranged(self, node: Node) -> Spectrum | None:
        """Returns the result of a node if it only reorders the transforms or selects frames, or None otherwise."""
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or node.target not in _REARRANGING:
            return None
        shape = tuple(value.shape)
        if node.target == _aten.slice.Tensor:
            given = named_arguments(node)
            is_first = given["start"] in (None, 0) and given["step"] == 1
            axis = len(self.shape) - (2 if self.frames_first else 1)
            if not self.has_frames or not is_first or given["dim"] % len(self.shape) != axis:
                return None
            return dataclasses.replace(self, count=shape[axis], shape=shape)
        if node.target in ALL_TRANSPOSITIONS:
            order = list(range(len(self.shape)))
            order[-2:] = reversed(order[-2:])
            if not self.has_frames or _order(node) != order:
                return None
            return dataclasses.replace(self, shape=shape, frames_first=not self.frames_first)
        kept = 2 if self.has_frames else 1
        if shape[-kept:] != self.shape[-kept:] or math.prod(shape) != math.prod(self.shape):
            return None
        return dataclasses.replace(self, shape=shape)


def _order(node: Node) -> list[int]:
    """Returns the permutation that a transposition applies to the dimensions of its operand."""
    rank = node.meta["val"].dim()
    order = list(range(rank))
    if node.target == _aten.permute.default:
        return [dim % rank for dim in node.args[1]]
    one, other = (node.args[1], node.args[2]) if node.target == _aten.transpose.int else (-2, -1)
    if rank > 1:
        order[one], order[other] = order[other], order[one]
    return order
