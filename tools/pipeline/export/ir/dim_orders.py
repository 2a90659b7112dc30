"""Gives tensors the order of dimensions that kernels accept.

Kernels accept any order where that costs little; the others only accept the default order.
"""

import operator
from collections.abc import Callable
from typing import Any

import torch
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.passes.legalize_portable_dim_order_pass import LegalizePortableDimOrderPass
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind
from torch.fx import Node

from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.rewriting import rename_output, replace_node

_COPY = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
_VIEW = "aten::view_copy"

# The permutation of an image's dimensions to channels-last order, and its inverse.
PIXELS = [0, 2, 3, 1]
IMAGE = [0, 3, 1, 2]

# Image operators whose kernels refuse other orders: those without the variant dim_order in kernels/*/operators.yaml.
CONTIGUOUS_ONLY = frozenset(
    {
        "aten::_cdist_forward",
        "aten::convolution_backward",
        "aten::embedding",
        "aten::grid_sampler_2d",
        "aten::linear",
        "aten::max_pool2d_with_indices_backward",
        "aten::native_group_norm",
        "aten::native_layer_norm",
        "aten::tril",
        "aten::triu",
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

# The kernels of these accept any order, but compute orders other than the default element by element, which costs more
# than a copy.
_FAST_IN_DEFAULT_ORDER = frozenset({"aten::convolution"})

# Emission would copy images to the default order before poolings, means and sums, whose kernels accept any order, and
# would not restore the order for their readers.
LegalizePortableDimOrderPass._target_ops = frozenset()

# The namespaces of operators that this project has kernels for.
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
    """Whether an operator's kernel is as fast on images of any order. Users' operators take the default order."""
    is_ordered = name in CONTIGUOUS_ONLY or name in _FAST_IN_DEFAULT_ORDER
    return not is_ordered and name.partition("::")[0] in _KNOWN_NAMESPACES


def takes_any_order_as_emitted(name: str) -> bool:
    """Like takes_any_order, for emission by ExecuTorch, which lets a view share the memory of its source."""
    return name != _VIEW and takes_any_order(name)


def takes_any_order_upstream(name: str) -> bool:
    """Whether ExecuTorch's own kernel accepts images of any order. Most need the same order in all tensors."""
    return name.startswith("dim_order_ops::")


def default_order(tensor: torch.Tensor) -> list[int]:
    """Returns the order of dimensions of contiguous tensors."""
    return list(range(tensor.dim()))


def has_default_order(tensor: torch.Tensor) -> bool:
    """Whether a tensor's elements are ordered as in a contiguous one; dimensions of size 1 have no order."""
    order = [dim for dim in tensor.dim_order() if tensor.shape[dim] != 1]
    return order == sorted(order)


def _is_ambiguous(tensor: torch.Tensor) -> bool:
    """Whether a tensor has the default order, but strides that indicate another one, which results would inherit."""
    return tensor.dim() == 4 and tensor.stride() != torch.empty(tensor.shape, device="meta").stride()


def _name(node: Node) -> str:
    """Returns the name of the operator that a node calls, or an empty string."""
    return getattr(getattr(node.target, "_schema", None), "name", "")


def copy_to_order(program: ExportedProgram, source: Node, order: list[int], meta: dict[str, Any]) -> Node:
    """Adds a copy of a tensor in another order at the graph's insertion point.

    Args:
      meta: the meta of the operator that the copy belongs to, which tells its source location.
    """
    copy = program.graph.call_function(_COPY, (source,), {"dim_order": order})
    value = source.meta["val"]
    copy.meta = {
        **meta,
        "val": value.permute(order).contiguous().permute([order.index(dim) for dim in range(len(order))]),
    }
    return copy


def order_for_kernels(program: ExportedProgram, takes_any: Callable[[str], bool] = takes_any_order) -> ExportedProgram:
    """Copies images to the default order before operators that require it, and restores the order of their results, in
    place.

    Args:
      takes_any: whether the operator of a name accepts any order.
    """
    graph = program.graph
    copies: dict[Node, Node] = {}
    for node in list(graph.nodes):
        name = _name(node)
        if node.op != "call_function" or not name or takes_any(name):
            continue
        for source in list(node.all_input_nodes):
            value = source.meta.get("val")
            if not isinstance(value, torch.Tensor):
                continue
            # A view inherits no strides.
            if has_default_order(value) and (name == _VIEW or not _is_ambiguous(value)):
                continue
            if source not in copies and (ordered := _order_constant(program, source, takes_any)):
                copies[source] = ordered
            if source not in copies:
                with graph.inserting_before(node):
                    copies[source] = copy_to_order(program, source, default_order(value), node.meta)
                copies[source].meta["val"] = value.new_empty(value.shape)
            node.replace_input_with(source, copies[source])
        if node.meta["val"] is None:
            # The node only checks a size.
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
    """Removes pairs of copies to another order and back, in place; one to another dtype drops what it cannot hold."""
    graph = program.graph
    for node in list(graph.nodes):
        source = node.args[0] if node.target == _COPY else None
        if source is None or source.target != _COPY:
            continue
        before, between, after = (each.meta["val"] for each in (source.args[0], source, node))
        if before.dtype == between.dtype == after.dtype and before.dim_order() == after.dim_order():
            replace_node(program, node, source.args[0])
    graph.eliminate_dead_code()
    program.graph_module.recompile()


def _order_constant(program: ExportedProgram, node: Node, takes_any: Callable[[str], bool]) -> Node | None:
    """Stores a constant in the default order, or a second one if an operator that accepts any order reads it, too.

    Returns the constant in the default order, or None for other nodes.
    """
    data = Constants(program).value(node) if node.op == "placeholder" else None
    if data is None:
        return None
    ordered = data.new_empty(data.shape).copy_(data)
    if any(takes_any(_name(user)) for user in node.users):
        return add_constant(program, f"{node.name}_in_default_order", ordered)
    name = next(spec.target for spec in program.graph_signature.input_specs if spec.arg.name == node.name)
    if node.name in program.graph_signature.inputs_to_parameters:
        ordered = torch.nn.Parameter(ordered, requires_grad=False)
    (program.state_dict if name in program.state_dict else program.constants)[name] = ordered
    node.meta["val"] = node.meta["val"].new_empty(data.shape)
    return node


def _order_result(program: ExportedProgram, node: Node, is_ambiguity_ordered: bool = False) -> None:
    """Gives a result the default order, and its readers a copy in the original order.

    Args:
      is_ambiguity_ordered: whether to treat a result that has both orders in the same way.
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
    """Gives every output the default order of dimensions, which callers expect."""
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
    return program


def channels_last(sample: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    """Returns the sample with images (4 dimensions) in channels-last order, as the int8 kernels read them."""
    return tuple(_image_last(tensor) if tensor.dim() == 4 else tensor.contiguous() for tensor in sample)


def _image_last(image: torch.Tensor) -> torch.Tensor:
    # Images of one channel or pixel have both orders. PyTorch's operators follow their strides, which contiguous()
    # doesn't change.
    if image.shape[1] > 1 and image.shape[2:].numel() > 1:
        return image.contiguous(memory_format=torch.channels_last)
    return torch.empty_like(image, memory_format=torch.channels_last).copy_(image)
