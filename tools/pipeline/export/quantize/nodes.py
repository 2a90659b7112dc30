"""Classifies the nodes of a captured graph for quantization."""

import math
from collections.abc import Mapping
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import SharedQspecQuantizer
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.ir.operators import SOFTMAX
from tools.pipeline.model_file.call import CALLED

_aten = torch.ops.aten

# Layers with weights, and products of two matrices.
PRODUCTS = frozenset((
    _aten.conv2d.default, _aten.conv_transpose2d.input, _aten.linear.default, _aten.bmm.default,
))  # fmt: skip
COMPARISONS = frozenset(
    getattr(operator, overload)
    for operator in (_aten.eq, _aten.ne, _aten.lt, _aten.le, _aten.gt, _aten.ge)
    for overload in ("Scalar", "Tensor")
)


def is_layer(node: Node) -> bool:
    """Whether a node has weights, or is an activation that is fused into such a node."""
    if node.target in (_aten.relu.default, _aten.hardtanh.default):
        return True
    return node.target in PRODUCTS and node.target != _aten.bmm.default and is_parameter(node.args[1])


def is_product(node: Node) -> bool:
    """Whether a node multiplies matrices or convolves."""
    return node.target in PRODUCTS


def bounds(node: Node) -> tuple[float, float]:
    """Returns known bounds of the results of an operator."""
    if node.target in (_aten.sigmoid.default, _aten.hardsigmoid.default, *SOFTMAX):
        return 0.0, 1.0
    if node.target == _aten.tanh.default:
        return -1.0, 1.0
    if node.target in (_aten.hardtanh.default, _aten.clamp.default):
        default = (-1.0, 1.0) if node.target == _aten.hardtanh.default else (None, None)
        low, high = with_defaults(node, 1, default)
        return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
    return (0.0 if node.target == _aten.relu.default else -math.inf), math.inf


def keeps_bounds(node: Node) -> bool:
    """Whether an operator's results are elements or means of its operands, and share their range."""
    # Activations are among the operators that may share a range.
    if node.op != "call_function" or bounds(node) != (-math.inf, math.inf):
        return False
    return is_view(node) or node.target in (_aten.max_pool2d.default, _aten.avg_pool2d.default)


def is_parameter(node: Any) -> bool:
    """Whether an argument is a constant of the module."""
    return isinstance(node, Node) and node.op == "get_attr"


def is_float(node: Node) -> bool:
    """Whether a node's result is a tensor of float32."""
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def is_view(node: Node) -> bool:
    """Whether an operator's results share the quantization parameters of its operands, since it only moves elements."""
    return node.target in SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT


def is_of_input(view: Node) -> bool:
    """Whether a node is an input of the model, or a view of one."""
    while is_view(view) and len(view.all_input_nodes) == 1:
        (view,) = view.all_input_nodes
    return view.op == "placeholder"


def has_computed_weights(node: Node) -> bool:
    """Whether the weights of a layer depend on an input."""
    is_layer = node.target in PRODUCTS and node.target != _aten.bmm.default
    return is_layer and not is_parameter(node.args[1])


def with_defaults(node: Node, place: int, defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a node's optional arguments from index `place` on."""
    given = tuple(node.args[place:])
    return given + defaults[len(given) :]


def layers_of(node: Node) -> list[str]:
    """Returns the names of the modules that an operator is inside."""
    return [name.removeprefix(f"{CALLED}.") for name, _ in node.meta.get("nn_module_stack", {}).values()]


def by_layer(node: Node, named: Mapping[str, str], otherwise: str) -> str:
    """Looks up a node's layer in a table of module names, which include all modules inside; the longest name wins."""
    names = [name for name in layers_of(node) if name in named]
    return named[max(names, key=len)] if names else otherwise


def attribute(module: GraphModule, name: str) -> torch.Tensor:
    """Returns the tensor of a node `get_attr` of a module."""
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    assert isinstance(value, torch.Tensor)
    return value


def becomes_int8(node: Node) -> bool:
    """Whether a quantizer has annotated an operator as int8."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None or node.op != "call_function":
        return False
    return annotation.output_qspec is not None or any(spec is not None for spec in annotation.input_qspec_map.values())
