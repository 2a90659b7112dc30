"""Computes logarithms of a softmax from log_softmax: a softmax in int8 has no probabilities below 1/256."""

import torch
from torch.fx import Node

from tools.pipeline.export.ir.memory import writes
from tools.pipeline.export.ir.rewriting import emit, rewrites

_aten = torch.ops.aten

# The operators that keep a probability away from zero.
_LIMITS = (_aten.add.Tensor, _aten.clamp.default, _aten.clamp_min.default)


@rewrites(_aten.log.default)
def write_log_softmax(node: Node) -> Node | None:
    """Writes log(softmax(x)) as log_softmax(x), and log(softmax(x) + e) as log(exp(log_softmax(x)) + e), of which
    quantizers make one function.
    """
    limits: list[Node] = []
    (source,) = node.all_input_nodes
    while source.target in _LIMITS and len(source.all_input_nodes) == 1:
        limits.insert(0, source)
        (source,) = source.all_input_nodes
    if source.target != _aten.softmax.int or any(writes(user) for each in (source, *limits) for user in each.users):
        return None
    result = emit(source, _aten.log_softmax.int, *source.args, **source.kwargs)
    if not limits:
        return result
    result = emit(source, _aten.exp.default, result)
    for limit in limits:
        result = emit(limit, limit.target, result, *limit.args[1:], **limit.kwargs)
    return emit(node, _aten.log.default, result)
