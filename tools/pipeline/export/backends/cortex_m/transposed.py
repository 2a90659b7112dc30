"""Implements transpositions of int8 tensors in memory: torch_fusion::transposed.

Copies to another order of dimensions, permutations, and views of channels-last images exchange two blocks of adjacent
dimensions in memory. Their general kernels determine in each call what is known here: the number of rows, columns, and
bytes side by side. kernels/cortex_m/transpose.cpp copies blocks of four by four.
"""

import math
from collections.abc import Sequence

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from torch import Tensor
from torch.export import ExportedProgram
from torch.fx import Node
from torch.library import Library, impl, register_fake

from tools.pipeline.export.ir.edge import COPIES_TO_ORDER
from tools.pipeline.export.ir.rewriting import place_of

_library = Library("torch_fusion", "FRAGMENT")
_ARGUMENTS = "Tensor input, int[] sizes, int orders, int rows, int columns, int unit"
_library.define(f"transposed({_ARGUMENTS}) -> Tensor")
_library.define(f"transposed.out({_ARGUMENTS}, *, Tensor(a!) out) -> Tensor(a!)")

_edge = exir_ops.edge
TRANSPOSED = _edge.torch_fusion.transposed.default
_PERMUTATIONS = (_edge.aten.permute_copy.default, _edge.cortex_m.transpose.default)
VIEWS = (
    _edge.aten.view_copy.default,
    _edge.aten.squeeze_copy.dims,
    _edge.aten.squeeze_copy.dim,
    _edge.aten.unsqueeze_copy.default,
)
_DIM_BITS = 4


def number_of(before: Sequence[int], after: Sequence[int]) -> int:
    """Returns the orders of dimensions of input and result as one number, since lists take time in each call."""
    return sum(dim << _DIM_BITS * i for i, dim in enumerate((*after, *before)))


@impl(_library, "transposed", "CompositeExplicitAutograd")
def transposed(input: Tensor, sizes: list[int], orders: int, rows: int, columns: int, unit: int) -> Tensor:
    """Transposes [..., rows, columns, unit] in memory; the result has sizes and an order of dimensions."""
    out = _like(input, sizes, orders, rows, columns, unit)
    after, before = _orders(orders, len(sizes), input.dim())
    in_memory = input.permute(before).reshape(-1, rows, columns, unit).transpose(1, 2)
    view = out.permute(after)
    view.copy_(in_memory.reshape(view.shape))
    return out


@register_fake("torch_fusion::transposed")
def _like(input: Tensor, sizes: list[int], orders: int, rows: int, columns: int, unit: int) -> Tensor:
    after, _ = _orders(orders, len(sizes), 0)
    return torch.empty_permuted(sizes, after, dtype=input.dtype, device=input.device)


def _orders(number: int, result_dims: int, input_dims: int) -> tuple[list[int], list[int]]:
    """Returns the orders of dimensions of result and input."""
    dims = [number >> _DIM_BITS * i & (1 << _DIM_BITS) - 1 for i in range(result_dims + input_dims)]
    return dims[:result_dims], dims[result_dims:]


def _order(tensor: Tensor) -> list[int]:
    """Returns the dimensions of a dense tensor in memory order."""
    return [*range(tensor.dim())] if tensor.is_contiguous() else [*tensor.dim_order()]


def _matrices(node: Node) -> tuple[int, int, int] | None:
    """Returns the rows, columns and unit of a transposition in memory; None for another operator."""
    value = node.meta.get("val")
    if node.target not in (*_PERMUTATIONS, *COPIES_TO_ORDER, *VIEWS) or not isinstance(value, Tensor):
        return None
    operand = node.args[0].meta["val"]
    if (value.dtype, operand.dtype) != (torch.int8, torch.int8):
        return None
    # Dimensions are the input's, and of a view those of the side that is not contiguous.
    before, after, sizes = _order(operand), _order(value), operand.shape
    if node.target in _PERMUTATIONS:
        dims = [dim % operand.dim() for dim in node.args[1]]
        after = [dims[dim] for dim in after]
    elif node.target in VIEWS and value.is_contiguous():
        after = sorted(before)
    elif node.target in VIEWS and operand.is_contiguous():
        before, sizes = sorted(after), value.shape
    elif node.target in VIEWS:
        return None
    if not all(isinstance(size, int) for size in sizes):
        return None
    before, after = ([dim for dim in dims if sizes[dim] != 1] for dims in (before, after))
    first = next((i for i, pair in enumerate(zip(before, after, strict=True)) if pair[0] != pair[1]), None)
    if first is None or 0 in sizes:
        return None
    # Behind what both begin with, a block of dimensions comes before another one.
    split = before.index(after[first])
    end = split + after.index(before[first]) - first
    blocks = [before[first:split], before[split:end], before[end:]]
    if after[first:] != [*blocks[1], *blocks[0], *blocks[2]]:
        return None
    rows, columns, unit = (math.prod(sizes[dim] for dim in block) for block in blocks)
    return rows, columns, unit


def _undone(node: Node, matrices: tuple[int, int, int]) -> Node | None:
    """Returns the tensor in whose memory the result of a transposition is, which is the inverse of one before it."""
    source = node.args[0]
    while source.target in VIEWS and source.meta["val"].is_contiguous() and _matrices(source) is None:
        source = source.args[0]
    rows, columns, unit = matrices
    return source.args[0] if source.target == TRANSPOSED and source.args[3:] == (columns, rows, unit) else None


def _view(program: ExportedProgram, node: Node, source: Node) -> Node:
    """Returns the result of a node from another tensor, in whose memory it is, in the default order of dimensions."""
    value, given = node.meta["val"], source.meta["val"]
    before, after = _order(given), _order(value)
    steps = [(_PERMUTATIONS[0], before), (VIEWS[0], [value.shape[dim] for dim in after])]
    steps.append((_PERMUTATIONS[0], [after.index(dim) for dim in range(len(after))]))
    for target, argument in steps:
        if target in _PERMUTATIONS and argument == sorted(argument):
            continue
        with program.graph.inserting_before(node):
            made = program.graph.call_function(target, (source, argument))
        made.meta = {**place_of(node), "val": target(source.meta["val"], argument).contiguous()}
        source = made
    return source


def transpose_in_memory(program: ExportedProgram) -> ExportedProgram:
    """Replaces copies that transpose an int8 tensor in memory, in place, and removes those that undo another one."""
    for node in list(program.graph.nodes):
        matrices = _matrices(node)
        if matrices is None:
            continue
        operand, value = node.args[0], node.meta["val"]
        undone = _undone(node, matrices)
        if undone is not None:
            view = _view(program, node, undone)
            if value.is_contiguous():
                node.replace_all_uses_with(view)
            else:
                node.args = (view, *node.args[1:])
            continue
        node.target = TRANSPOSED
        node.args = (operand, [*value.shape], number_of(_order(operand.meta["val"]), _order(value)), *matrices)
        node.kwargs = {}
    program.graph.eliminate_dead_code()
    program.graph_module.recompile()
    return program
