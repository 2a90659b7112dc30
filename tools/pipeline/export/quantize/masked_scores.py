"""Finds masked scores.

These are the values between the addition of a mask of minus infinity, or of similar numbers, and a softmax or a
maximum. No int8 scale can represent such numbers and the scores, so these operators stay in floating point, except for
a sum and a softmax that an operator of our own computes (softmax.py).
"""

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.backends.cortex_m.quantizer.quantization_configs import (
    INT8_ACTIVATION_PER_TENSOR_QSPEC,
    SOFTMAX_OUTPUT_FIXED_QSPEC,
)
from torch.fx import GraphModule, Node

from tools.pipeline.export.backends.cortex_m.own_layers import mark
from tools.pipeline.export.backends.cortex_m.softmax import Scores, scores_of
from tools.pipeline.export.ir.operators import SOFTMAX
from tools.pipeline.export.ir.rewriting import is_elementwise
from tools.pipeline.export.quantize.nodes import attribute, is_view

_aten = torch.ops.aten

# Operators whose results don't depend on masked elements.
_UNMASKING = SOFTMAX | {_aten.amax.default, _aten.argmax.default, _aten.max.default, _aten.max.dim}
# Masks add less than this to the scores that they exclude; scores are larger.
EXCLUDED = -1e3


def find_masked_scores(module: GraphModule) -> list[Node]:
    """Lists the nodes from a mask to the softmax or maximum after it, both included."""
    found: dict[Node, None] = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and is_elementwise(node.target) and _is_masked(module, node):
            path = _path_from_mask(node)
            found |= dict.fromkeys(path)
    return list(found)


def _path_from_mask(node: Node) -> list[Node]:
    """Lists a node and its successors up to the operator that ignores masked elements; empty if another node reads
    them.
    """
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        reader = pending.pop()
        if reader in found:
            continue
        if reader.target not in _UNMASKING:
            if reader.op == "output" or not (is_elementwise(reader.target) or is_view(reader)):
                return []
            pending += reader.users
        found[reader] = None
    return list(found)


def _is_masked(module: GraphModule, node: Node) -> bool:
    for operand in node.args:
        if isinstance(operand, float) and operand < EXCLUDED:
            return True
        if isinstance(operand, Node) and operand.op == "get_attr":
            value = attribute(module, str(operand.target))
            if value.is_floating_point() and value.numel() and float(value.min()) < EXCLUDED:
                return True
    return False


def find_scores(module: GraphModule) -> dict[Node, Scores]:
    """Finds each softmax that an operator of our own computes in int8 together with the operators before it."""

    def value(node: Node) -> torch.Tensor | None:
        return attribute(module, str(node.target)) if node.op == "get_attr" else None

    found = {node: scores_of(node) for node in module.graph.nodes}
    return {node: scores for node, scores in found.items() if scores is not None and scores.scale(value) is not None}


def annotate_softmax(softmax: Node, scores: Scores) -> None:
    """Annotates a softmax and the operators before it as a group."""
    first, *others = scores.between
    _mark_node_as_quantized(first, {scores.source: INT8_ACTIVATION_PER_TENSOR_QSPEC}, None, False)
    for node in others:
        _mark_node_as_quantized(node, {}, None, False)
    _mark_node_as_quantized(softmax, {}, SOFTMAX_OUTPUT_FIXED_QSPEC, False)
    for node in (*scores.between, softmax):
        node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        mark(node)
