"""Isolates the scales of tensors that are concatenated with tensors of larger numbers.

ExecuTorch's quantizers for Arm give all operands of a concatenation one scale, and operators that only move elements
the scale of their operand. So if a part of a sigmoid is concatenated with coordinates, the sigmoid and all its other
readers would have the scale of the coordinates.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import SharedQspecQuantizer
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.operators import JOINS
from tools.pipeline.export.ir.rewriting import emit
from tools.pipeline.export.ir.signature import varying
from tools.pipeline.export.quantize.extents import Extents

_aten = torch.ops.aten
_SHARED = frozenset(SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT)
# The smallest ratio of the joint range to the operand's own for which the operand is isolated: it would lose two bits.
_WIDER = 4


def isolate_concat_scales(program: ExportedProgram, samples: Sequence[Sample], state: State, path: Path) -> None:
    """Inserts a product with one before concatenations with much larger numbers, in place, if the operand has other
    readers.

    Args:
      samples: inputs, from which ranges are measured.
      state: the state, which the program's first inputs read and its first outputs update.
      path: the model file, for messages.
    """
    graph, varies = program.graph, varying(program)
    found = [
        (join, operand, source)
        for join in graph.nodes
        if join.target in JOINS and join.meta["val"].is_floating_point()
        for operand in dict.fromkeys(join.all_input_nodes)
        if operand in varies
        for source in [_source(operand)]
        if any(user is not join for user in _readers(source))
    ]
    if not found:
        return
    seen = Extents(program, [node for join, _, source in found for node in (join, source)]).observe(
        samples, state, path
    )
    for join, operand, source in found:
        wide, narrow = (max(most, 0.0) - min(least, 0.0) for least, most in (seen.ranges[join], seen.ranges[source]))
        if narrow > 0 and wide >= _WIDER * narrow:
            with graph.inserting_before(join):
                join.replace_input_with(operand, emit(join, _aten.mul.Tensor, operand, 1.0))
    program.graph_module.recompile()


def _source(node: Node) -> Node:
    """Returns the node that determines a tensor's scale, looking through operators that keep it."""
    while _has_same_steps(node):
        operand = node.all_input_nodes[0]
        if not isinstance(operand.meta["val"], torch.Tensor) and not _has_same_steps(operand):
            # One of several results, with a scale of its own.
            break
        node = operand
    return node


def _readers(node: Node) -> Iterator[Node]:
    """Yields the readers of a tensor, looking through operators that keep its scale."""
    for user in node.users:
        if _has_same_steps(user):
            yield from _readers(user)
        else:
            yield user


def _has_same_steps(node: Node) -> bool:
    return node.target in _SHARED and node.target not in JOINS and len(node.all_input_nodes) == 1
