"""Tensors in the order of dimensions that kernels take.

Kernels work on tensors of any order where it costs little; the others take the default order only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from tools.pipeline.export.ir.rewriting import rename_output, replace_node

_COPY = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
_VIEW = "aten::view_copy"

# The dimensions of an image in the order in which it lies channels-last, and where each of them is then, which permutes
# it back.
PIXELS = [0, 2, 3, 1]
IMAGE = [0, 3, 1, 2]

# Operators on images whose kernels refuse other orders; in kernels/*/operators.yaml without the variant dim_order.
CONTIGUOUS_ONLY = frozenset(
    {
        "aten::_cdist_forward",
        "aten::_upsample_bilinear2d_aa",
        "aten::convolution_backward",
        "aten::embedding",
        "aten::grid_sampler_2d",
        "aten::linear",
        "aten::max_pool2d_with_indices_backward",
        "aten::native_group_norm",
        "aten::native_layer_norm",
        "aten::tril",
        "aten::triu",
        "aten::upsample_nearest2d",
        "cortex_m::quantized_linear",
        "quantized_decomposed::choose_qparams_per_token_asymmetric",
        "quantized_decomposed::dequantize_per_token",
        "quantized_decomposed::mixed_linear",
        "quantized_decomposed::quantize_per_token",
        "torch_fusion::quantized_gru",
        "torch_fusion::quantized_layer_norm",
        "torch_fusion::quantized_lstm",
    }
)

# Their kernels take any order, but compute others than the default one product after another: a copy costs less.
_FAST_IN_DEFAULT_ORDER = frozenset({"aten::convolution"})

# Emission would copy images to the default order before poolings, means and sums, whose kernels take any order, and not
# back for what reads their results.
LegalizePortableDimOrderPass._target_ops = frozenset()

# Where operators come from that this project has kernels for.
_KNOWN_NAMESPACES = frozenset(
    {
        "aten",
        "cortex_m",
        "dim_order_ops",
        "executorch_prim",
        "higher_order",
        "prims",
        "quantized_decomposed",
        "torch_fusion",
    }
)


def takes_any_order(name: str) -> bool:
    """Whether an operator's kernel is as good on images of any order; those of a user's own take the default one."""
    is_ordered = name in CONTIGUOUS_ONLY or name in _FAST_IN_DEFAULT_ORDER
    return not is_ordered and name.partition("::")[0] in _KNOWN_NAMESPACES


def takes_any_order_as_emitted(name: str) -> bool:
    """As takes_any_order, where ExecuTorch emits the program: it lets a view have the memory of what it is of."""
    return name != _VIEW and takes_any_order(name)


def takes_any_order_upstream(name: str) -> bool:
    """Whether ExecuTorch's own kernel takes images of any order; most want one that all of their tensors have."""
    return name.startswith("dim_order_ops::")


def default_order(tensor: torch.Tensor) -> list[int]:
    """The order of dimensions of contiguous tensors."""
    return list(range(tensor.dim()))


def has_default_order(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements lie as in a contiguous one; dimensions of size 1 have no order."""
    order = [dim for dim in tensor.dim_order() if tensor.shape[dim] != 1]
    return order == sorted(order)


def _is_ambiguous(tensor: torch.Tensor) -> bool:
    """Whether a tensor lies in the default order, but its strides say another one, which results would take over."""
    return tensor.dim() == 4 and tensor.stride() != torch.empty(tensor.shape, device="meta").stride()


def copy_to_order(program: ExportedProgram, source: Node, order: list[int], meta: dict[str, Any]) -> Node:
    """Adds a copy of a tensor in another order at the place where the graph inserts.

    Args:
      meta: of the operator that the copy belongs to: where in the model it is from.
    """
    copy = program.graph.call_function(_COPY, (source,), {"dim_order": order})
    value = source.meta["val"]
    copy.meta = {
        **meta,
        "val": value.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))]),
    }
    return copy


def order_for_kernels(program: ExportedProgram, takes_any: Callable[[str], bool] = takes_any_order) -> ExportedProgram:
    """Copies images to the default order before operators that take no other, and their results back, in place.

    Args:
      takes_any: whether operators with a name take any order.
    """
    graph = program.graph
    copies: dict[Node, Node] = {}
    for node in list(graph.nodes):
        name = getattr(getattr(node.target, "_schema", None), "name", None)
        if node.op != "call_function" or name is None or takes_any(name):
            continue
        for source in list(node.all_input_nodes):
            value = source.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            # A view has no strides to take over.
            if has_default_order(value) and (name == _VIEW or not _is_ambiguous(value)):
                continue
            if _order_constant(program, source):
                continue
            if source not in copies:
                with graph.inserting_before(node):
                    copies[source] = copy_to_order(program, source, default_order(value), node.meta)
                copies[source].meta["val"] = value.new_empty(value.shape)
            node.replace_input_with(source, copies[source])
        if node.meta["val"] is None:
            # A check of a size.
            continue
        if isinstance(node.meta["val"], torch.Tensor):
            _order_result(program, node, name in _FAST_IN_DEFAULT_ORDER)
        else:
            node.meta["val"] = tuple(value if value is None else value.contiguous() for value in node.meta["val"])
            for user in node.users:
                if user.target is operator.getitem:
                    _order_result(program, user)
    program.graph_module.recompile()
    return program


def drop_round_trips(program: ExportedProgram) -> None:
    """Lets operators read what was copied to another order and back as it was before, in place."""
    graph = program.graph
    for node in list(graph.nodes):
        source = node.args[0] if node.target == _COPY else None
        if source is None or source.target != _COPY:
            continue
        before, after = source.args[0].meta["val"], node.meta["val"]
        if before.dtype == after.dtype and before.dim_order() == after.dim_order():
            replace_node(program, node, source.args[0])
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _order_constant(program: ExportedProgram, node: Node) -> bool:
    """Lays a weight out in the default order, if nothing else reads it than operators that compute faster with it."""
    signature = program.graph_signature
    name = signature.inputs_to_parameters.get(node.name)
    if name is None or any(
        getattr(getattr(user.target, "_schema", None), "name", "") not in _FAST_IN_DEFAULT_ORDER for user in node.users
    ):
        return False
    data = program.state_dict[name].detach()
    program.state_dict[name] = torch.nn.Parameter(data.new_empty(data.shape).copy_(data), requires_grad=False)
    node.meta["val"] = node.meta["val"].new_empty(data.shape)
    return True


def _order_result(program: ExportedProgram, node: Node, is_ambiguity_ordered: bool = False) -> None:
    """Gives a result the default order, and what reads it a copy in the order that it had.

    Args:
      is_ambiguity_ordered: whether a result that lies in both orders is such a one, too.
    """
    value = node.meta["val"]
    if has_default_order(value) and not (is_ambiguity_ordered and _is_ambiguous(value)):
        return
    users = list(node.users)
    node.meta["val"] = value.new_empty(value.shape)
    with program.graph.inserting_after(node):
        copy = copy_to_order(program, node, [int(dim) for dim in value.dim_order()], node.meta)
    for user in users:
        user.replace_input_with(node, copy)
    rename_output(program, node, copy)


def order_outputs(program: ExportedProgram) -> ExportedProgram:
    """Gives every output the default order of dimensions, as callers expect it."""
    output = program.graph.output_node()
    results = list(output.args[0])
    for index, (node, spec) in enumerate(zip(results, program.graph_signature.output_specs, strict=True)):
        value = node.meta["val"]
        order = default_order(value)
        if spec.kind != OutputKind.USER_OUTPUT or list(value.dim_order()) == order:
            continue
        with program.graph.inserting_before(output):
            results[index] = copy_to_order(program, node, order, node.meta)
        spec.arg.name = results[index].name
    output.args = (tuple(results),)
    program.graph_module.recompile()
    return program
