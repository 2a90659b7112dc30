"""Decomposes attention into matrix products and a softmax.

`torch.nn.functional.scaled_dot_product_attention` returns zeros for queries whose keys are all masked. PyTorch's own
decomposition therefore searches all scores for minus infinity, with four operators besides the softmax. Where every
query has an unmasked key (without a mask, with a causal one, or with a constant one that guarantees it), attention is
decomposed without them here. Its scale is applied to the queries only.
"""

import functools
import math
from collections.abc import Iterable

import torch
from torch.export import ExportedProgram
from torch.fx import Graph, Node

from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.ir.rewriting import emit, named_arguments, replace_node

_aten = torch.ops.aten
_ATTENTION = _aten.scaled_dot_product_attention.default


def decompose_attention(
    program: ExportedProgram, nodes: Iterable[Node] | None = None, trusts_masks: bool = False
) -> ExportedProgram:
    """Decomposes every attention whose queries all have an unmasked key, in place; others stay unchanged.

    Args:
      nodes: the nodes to decompose; None: all.
      trusts_masks: whether to assume that masks which depend on inputs leave every query a key.
    """
    constants = Constants(program)
    for node in _attentions(program.graph) if nodes is None else nodes:
        _decompose(program, constants, program.graph, node, trusts_masks)
    program.graph_module.recompile()
    return program


def attention_for_arm(program: ExportedProgram) -> list[Node]:
    """Lists every attention that has a mask, whose query, key or value depends on constants only, or that has neither
    heads nor one number of queries and keys, which ExecuTorch takes for numbers of heads.
    """
    signature = program.graph_signature
    constants = {
        *signature.inputs_to_parameters,
        *signature.inputs_to_buffers,
        *signature.inputs_to_lifted_tensor_constants,
    }
    varying: set[Node] = set()
    for node in program.graph.nodes:
        is_given = node.op == "placeholder" and node.name not in constants
        if is_given or any(operand in varying for operand in node.all_input_nodes):
            varying.add(node)
    return [
        node
        for node in _attentions(program.graph)
        if any(named_arguments(node)[name] not in varying for name in ("query", "key", "value"))
        or named_arguments(node)["is_causal"]
        or named_arguments(node)["attn_mask"] is not None
        or _is_without_heads(*(named_arguments(node)[name].meta["val"].shape for name in ("query", "key")))
    ]


def _is_without_heads(query: torch.Size, key: torch.Size) -> bool:
    return len(query) != 4 and query[-2] != key[-2]


def _attentions(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.target == _ATTENTION]


def _decompose(program: ExportedProgram, constants: Constants, graph: Graph, node: Node, trusts_masks: bool) -> None:
    given = named_arguments(node)
    query, key, value, mask = (given[name] for name in ("query", "key", "value", "attn_mask"))
    shapes = [operand.meta["val"].shape for operand in (query, key, value)]
    is_static = all(isinstance(size, int) for shape in shapes for size in shape)
    if given["dropout_p"] or given["enable_gqa"] or not is_static:
        return
    constant = None if mask is None else constants.value(mask)
    if mask is not None and not (trusts_masks if constant is None else _lets_all_see(constant)):
        return

    emitted = functools.partial(emit, node)
    scale = given["scale"] if given["scale"] is not None else 1 / math.sqrt(shapes[0][-1])
    with graph.inserting_before(node), query.meta["val"].fake_mode:
        scaled = emitted(_aten.mul.Tensor, query, scale)
        scores = emitted(_aten.matmul.default, scaled, emitted(_aten.transpose.int, key, -2, -1))
        if given["is_causal"]:
            excluded = emitted(_aten.full.default, [shapes[0][-2], shapes[1][-2]], -math.inf)
            scores = emitted(_aten.add.Tensor, scores, emitted(_aten.triu.default, excluded, 1))
        elif constant is not None and constant.dtype == torch.bool:
            excluded = emitted(_aten.scalar_tensor.default, -math.inf)
            allowed = emitted(_aten.scalar_tensor.default, 0.0)
            scores = emitted(_aten.add.Tensor, scores, emitted(_aten.where.self, mask, allowed, excluded))
        elif mask is not None and mask.meta["val"].dtype == torch.bool:
            scores = emitted(_aten.where.ScalarOther, mask, scores, -math.inf)
        elif mask is not None:
            scores = emitted(_aten.add.Tensor, scores, mask)
        result = emitted(_aten.matmul.default, emitted(_aten.softmax.int, scores, -1), value)
    replace_node(program, node, result)
    graph.erase_node(node)


def _lets_all_see(mask: torch.Tensor) -> bool:
    """Whether a mask leaves every query at least one key."""
    is_seen = mask if mask.dtype == torch.bool else mask != -math.inf
    return bool(is_seen.any(-1).all())
