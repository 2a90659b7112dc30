"""Drops operators without effect: copies, `0 + x`, fills with one number, products with zeros."""

import torch
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.operators import COPIES, FILLS, FILLS_WITH, RESHAPES

_COPIES = COPIES | RESHAPES | {torch.ops.aten.expand.default, torch.ops.aten.slice.Tensor}
# The neutral second operand.
_NEUTRAL = {
    torch.ops.aten.add.Tensor: 0,
    torch.ops.aten.sub.Tensor: 0,
    torch.ops.aten.mul.Tensor: 1,
    torch.ops.aten.div.Tensor: 1,
}


def drop_no_ops(program: ExportedProgram) -> None:
    """Drops operators that return an operand unchanged, or a constant, in place.

    A tensor that is always zero has no range to quantize. Zero times infinity would be NaN, but a model that can be
    quantized has no infinities.
    """
    constants = Constants(program)
    for node in list(program.graph.nodes):
        # The program refers to its results by name, and a copy of an input must not become that input.
        if node.op != "call_function" or any(user.op == "output" for user in node.users):
            continue
        result = _filled(program, node) or _zeros(program, node, constants) or _unchanged(node, constants)
        if result is not None:
            node.replace_all_uses_with(result)
            program.graph.erase_node(node)
    program.graph.eliminate_dead_code()


def drop_empty_operands(program: ExportedProgram) -> None:
    """Drops tensors without elements from concatenations, in place, such as a slice that a stream shifts out whole.

    They have no range to quantize, and would share their scale with the others.
    """
    for node in program.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default):
        kept = [operand for operand in node.args[0] if not has_no_elements(operand)]
        # One may be there for its dtype.
        has_dtype = node.meta["val"].dtype in {operand.meta["val"].dtype for operand in kept}
        if not has_dtype or len(kept) == len(node.args[0]):
            continue
        node.args = (kept, *node.args[1:])
        if len(kept) == 1:
            node.target, node.args, node.kwargs = torch.ops.aten.clone.default, (kept[0],), {}


def has_no_elements(node: Node) -> bool:
    """Whether a node's result is a tensor without elements, whatever sizes are dynamic."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and any(isinstance(size, int) and size == 0 for size in value.shape)


def _filled(program: ExportedProgram, node: Node) -> Node | None:
    """Returns the constant result of an operator that only reads its operand's shape, or None for other nodes."""
    number = FILLS.get(node.target)
    if node.target in FILLS_WITH:
        number = node.args[FILLS_WITH[node.target]]
    if number is None:
        return None
    value = node.meta["val"]
    filled = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).fill_(number)
    return add_constant(program, f"{node.name}_filled", filled)


def _zeros(program: ExportedProgram, node: Node, constants: Constants) -> Node | None:
    """Returns the zeros that a product evaluates to, or None for other nodes."""
    if node.target != torch.ops.aten.mul.Tensor or constants.value(node) is not None:
        return None
    if not any(_is_zero(operand, constants) for operand in node.all_input_nodes):
        return None
    value = node.meta["val"]
    return add_constant(program, f"{node.name}_zeros", torch.zeros(value.shape, dtype=value.dtype))


def _is_zero(node: Node, constants: Constants) -> bool:
    value = constants.value(node)
    return value is not None and value.is_floating_point() and not value.count_nonzero()


def _unchanged(node: Node, constants: Constants) -> Node | None:
    """Returns the operand that an operator returns unchanged (copies, slices of everything, `0 + x`), or None."""
    operands = node.all_input_nodes
    if len(operands) == 1:
        is_neutral = node.target in _NEUTRAL and not node.kwargs and node.args[1] == _NEUTRAL[node.target]
        if node.target not in _COPIES and not is_neutral:
            return None
    elif node.target == torch.ops.aten.add.Tensor and not node.kwargs:
        operands = [operand for operand in operands if not _is_zero(operand, constants)]
    if len(operands) != 1:
        return None
    value, given = node.meta.get("val"), operands[0].meta.get("val")
    if not isinstance(value, torch.Tensor) or not isinstance(given, torch.Tensor):
        return None
    is_same = (value.dtype, value.shape, _steps(value)) == (given.dtype, given.shape, _steps(given))
    return operands[0] if is_same else None


def _steps(value: torch.Tensor) -> list[int]:
    """Returns the strides of dimensions of more than one element: those of the others say nothing."""
    return [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size != 1]
