"""Writes products with a constant matrix or vector as linear layers, with or without a bias."""

from typing import Any

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import emit, replace_node
from tools.pipeline.export.ir.signature import varying

_aten = torch.ops.aten
_PRODUCTS = (_aten.matmul.default, _aten.mm.default, _aten.mv.default, _aten.dot.default)


def write_products(program: ExportedProgram) -> None:
    """Writes products with a constant matrix or vector as linear layers, and other products with vectors as matrix
    products, in place.

    Args:
      program: its constants must be propagated afterwards, since weights are transposed.
    """
    graph, varies = program.graph, varying(program)
    for node in list(graph.nodes):
        with graph.inserting_before(node):
            if node.target == _aten.addmm.default:
                result = _with_bias(node, varies)
            elif node.target in _PRODUCTS:
                result = _product(node, varies)
            else:
                continue
        if result is not None:
            varies.add(result)
            replace_node(program, node, result)
            graph.erase_node(node)
    graph.eliminate_dead_code()


def _product(product: Node, varies: set[Node]) -> Node | None:
    one, other = product.args
    ranks = [factor.meta["val"].dim() for factor in product.args]
    constant = [factor not in varies for factor in product.args]
    if ranks[0] < 2 and ranks[1] < 2 and constant == [True, False]:
        # A product of two vectors is symmetric.
        one, other, constant = other, one, constant[::-1]
    if constant == [False, True] and ranks[1] < 3:
        weight = _emit_matrix(product, other, is_transposed=True)
        result = emit(product, _aten.linear.default, one, weight)
        return result if ranks[1] == 2 else emit(product, _aten.squeeze.dim, result, -1)
    if constant == [True, False] and ranks[0] < 3:
        # (a x)' = x' a'
        weight = _emit_matrix(product, one, is_transposed=False)
        rows = emit(product, _aten.transpose.int, other, -2, -1) if ranks[1] > 1 else other
        result = emit(product, _aten.linear.default, rows, weight)
        if ranks[0] == 1:
            return emit(product, _aten.squeeze.dim, result, -1)
        return emit(product, _aten.transpose.int, result, -2, -1) if ranks[1] > 1 else result
    return None if all(constant) else _with_matrices(product, ranks)


def _emit_matrix(origin: Node, constant: Node, is_transposed: bool) -> Node:
    """Emits the weight of a linear layer."""
    if constant.meta["val"].dim() == 1:
        return emit(origin, _aten.unsqueeze.default, constant, 0)
    return emit(origin, _aten.permute.default, constant, [1, 0]) if is_transposed else constant


def _with_matrices(product: Node, ranks: list[int]) -> Node | None:
    """Writes x @ y with a vector as a product with a matrix of one row or column."""
    one, other = product.args
    if 1 not in ranks:
        return None
    if ranks[0] == 1:
        one = emit(product, _aten.unsqueeze.default, one, 0)
    if ranks[1] == 1:
        other = emit(product, _aten.unsqueeze.default, other, 1)
    result = emit(product, _aten.matmul.default, one, other)
    dims = [-1 - i for i in range(2) if ranks[1 - i] == 1]
    return emit(product, _aten.squeeze.dims, result, dims)


def _with_bias(layer: Node, varies: set[Node]) -> Node | None:
    """Writes b + x @ w with a constant matrix and vector as a linear layer with w transposed."""
    given: Any = layer.args
    bias, operand, matrix = given
    if layer.kwargs or operand not in varies or not varies.isdisjoint((bias, matrix)):
        return None
    if bias.meta["val"].shape != matrix.meta["val"].shape[1:]:
        return None
    weight = emit(layer, _aten.permute.default, matrix, [1, 0])
    return emit(layer, _aten.linear.default, operand, weight, bias)
