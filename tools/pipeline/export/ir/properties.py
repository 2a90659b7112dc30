"""Checks the properties of passes.py: finds the nodes of a program that violate one."""

from collections.abc import Callable

import torch
from executorch.exir.dialects.edge._ops import EdgeOpOverload
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.passes import Property
from tools.pipeline.export.rewrite.decompositions.decompositions import has_decomposition

_aten = torch.ops.aten


def _is_dynamic(node: Node) -> bool:
    values = [operand.meta.get("val") for operand in node.all_input_nodes]
    return any(not isinstance(size, int) for value in values for size in getattr(value, "shape", ()))


def has_kernel(node: Node) -> bool:
    """Whether the kernels can compute a recurrent layer."""
    tensors = [operand.meta["val"] for operand in node.all_input_nodes if hasattr(operand.meta.get("val"), "dtype")]
    layers, directions = node.args[4], 1 + node.args[7]
    # Projections add one parameter.
    is_plain = len(node.args[2]) == layers * directions * (4 if node.args[3] else 2)
    is_float = all(tensor.dtype == torch.float32 for tensor in tensors)
    return is_plain and is_float and not node.args[6] and not _is_dynamic(node)


_HOLDS: dict[Property, Callable[[Node], bool]] = {
    Property.FUNCTIONAL: lambda node: not node.target._schema.is_mutable,
    # PyTorch's attention differs from its formula where all keys of a query are masked.
    Property.ATTENTION_DECOMPOSED: lambda node: (
        node.target != _aten.scaled_dot_product_attention.default or len(node.args) + len(node.kwargs) > 3
    ),
    Property.BATCH_NORM_FOLDED: lambda node: node.target != _aten.batch_norm.default,
    Property.RECURRENT_WHOLE: lambda node: (
        node.target not in (_aten.lstm.input, _aten.gru.input) or not has_kernel(node)
    ),
    Property.DECOMPOSED: lambda node: not has_decomposition(node),
    Property.RESHAPED: lambda node: node.target not in (_aten.view.default, _aten._unsafe_view.default),
    Property.EDGE: lambda node: (
        isinstance(node.target, EdgeOpOverload) or node.target.namespace not in ("aten", "prims")
    ),
}


def violations(program: ExportedProgram, wanted: Property) -> list[str]:
    """Lists the operators of a program that violate a property."""
    calls = (node for node in program.graph.nodes if isinstance(node.target, OpOverload | EdgeOpOverload))
    return [str(node.target) for node in calls if not _HOLDS[wanted](node)]
