"""Finds functions that become tables of int8 results.

A *function* is a group of elementwise operators that compute their result from one tensor and from numbers: a GELU
written out, `x * relu6(x + 3) / 6`, a product with a constant. Quantizing each operator would lose precision and take
instructions at each step; the group becomes one table of 256 results (tables.py).
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_ACTIVATION_PER_TENSOR_QSPEC
from torch.fx import Graph, Node
from torchao.quantization.pt2e.quantizer import QuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.ir.operators import CLAMPS
from tools.pipeline.export.ir.rewriting import has_steps, is_elementwise
from tools.pipeline.export.quantize.nodes import becomes_int8, is_float, is_of_input, is_view

_aten = torch.ops.aten

# Activations that are fused into the layer before them.
_FUSED = CLAMPS | {_aten.hardsigmoid.default}
_LAYERS = frozenset((
    _aten.conv2d.default, _aten.conv_transpose2d.input, _aten.linear.default, _aten.add.Tensor,
    _aten.max_pool2d.default,
))  # fmt: skip
# ExecuTorch's passes compute these in int8 if they stand alone.
_KNOWN = CLAMPS | {_aten.sigmoid.default, _aten.silu.default, _aten.tanh.default}


@dataclass
class Function:
    """Elementwise operators that compute one function of a tensor.

    Attributes:
      source: the tensor.
      nodes: the operators, in order.
      results: the operators whose results other nodes read.
    """

    source: Node
    nodes: list[Node]
    results: list[Node]


def find_functions(graph: Graph) -> list[Function]:
    """Finds the functions of a graph, without operators that are fused into a layer or known to the quantizer."""
    # A function ends at an operator whose result other nodes read, too; the rest begins another function.
    sources: set[Node] = set()
    while True:
        roots = _roots(graph, sources)
        shared = {
            node
            for node in roots
            if (inside := [user for user in node.users if roots.get(user) == roots[node]])
            and len(inside) < len(node.users)
        }
        if shared <= sources:
            break
        sources |= shared
    functions: dict[Node, Function] = {}
    for node, root in roots.items():
        function = functions.setdefault(root, Function(root, [], []))
        function.nodes.append(node)
        if any(roots.get(user) != root for user in node.users):
            function.results.append(node)
    return [each for each in functions.values() if len(each.nodes) > 1 or each.nodes[0].target not in _KNOWN]


def _roots(graph: Graph, sources: set[Node]) -> dict[Node, Node]:
    """Maps each elementwise operator of one tensor to that tensor, followed back through all such operators."""
    roots: dict[Node, Node] = {}
    for node in graph.nodes:
        if not _is_function(node):
            continue
        operands = {
            operand if operand in sources else roots.get(operand, operand)
            for operand in node.all_input_nodes
            if not _is_number(operand)
        }
        source = operands.pop() if len(operands) == 1 else None
        if source is not None and is_float(source) and source.meta["val"].shape == node.meta["val"].shape:
            roots[node] = source
    # A group that ends in anything but numbers, such as a condition that other nodes read, is not a function.
    while True:
        ends = [
            node for node in roots if not is_float(node) and any(roots.get(user) != roots[node] for user in node.users)
        ]
        if not ends:
            return roots
        for node in ends:
            del roots[node]


def _is_function(node: Node) -> bool:
    if (
        node.op != "call_function"
        or not is_elementwise(node.target)
        or not isinstance(node.meta.get("val"), torch.Tensor)
    ):
        return False
    if node.meta["val"].numel() < 2:
        return False
    if node.target not in _FUSED or not _is_layer(node.args[0]):
        return True
    return node.target == _aten.hardsigmoid.default and _is_concatenated(node)


def _is_concatenated(node: Node) -> bool:
    """Whether a concatenation reads a result: a layer can't fuse a slope beside the scale of the other parts."""
    return any(user.target == _aten.cat.default or (is_view(user) and _is_concatenated(user)) for user in node.users)


def _is_layer(node: Any) -> bool:
    """Whether a node can fuse the activation after it."""
    if not isinstance(node, Node) or node.target not in _LAYERS or len(node.users) != 1:
        return False
    return node.target != _aten.add.Tensor or not any(_is_number(operand) for operand in node.all_input_nodes)


def _is_number(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op == "get_attr" and isinstance(value, torch.Tensor) and value.numel() == 1


def annotate_functions(
    functions: Sequence[Function],
    integers: Collection[Node] = (),
    operand: QuantizationSpec = INT8_ACTIVATION_PER_TENSOR_QSPEC,
    result: QuantizationSpec = INT8_ACTIVATION_PER_TENSOR_QSPEC,
    chosen: Collection[Node] = (),
) -> list[Function]:
    """Annotates functions next to int8 operators; returns the functions that are not annotated.

    Args:
      integers: further nodes next to which functions are annotated.
      operand: the annotation of their operands.
      result: the annotation of their results.
      chosen: operators of functions that are annotated whatever their neighbours are.
    """

    def is_ready(function: Function) -> bool:
        if any(node in chosen for node in function.nodes):
            return True
        return any(node in integers or becomes_int8(node) for node in _neighbours(function))

    pending = list(functions)
    # Annotating one function may make the next one's neighbour int8.
    while ready := list(filter(is_ready, pending)):
        for function in ready:
            pending.remove(function)
            for node in function.nodes:
                is_first = function.source in node.all_input_nodes
                operands = {function.source: operand} if is_first else {}
                output = result if node in function.results else None
                _mark_node_as_quantized(node, operands, output, False)
    return pending


def is_annotated(function: Function) -> bool:
    """Whether a quantizer has annotated an operator of a function."""
    return any(Q_ANNOTATION_KEY in node.meta for node in function.nodes)


def is_int8(function: Function) -> bool:
    """Whether a quantizer has annotated a function as int8, rather than to leave it alone."""
    return any(map(becomes_int8, function.nodes))


def _neighbours(function: Function) -> Iterator[Node]:
    """Yields the nodes that compute a function's operand and those that read its results, looking through views."""
    pending, seen = [(function.source, True)], set()
    pending += [(user, False) for node in function.results for user in node.users if user not in function.nodes]
    while pending:
        node, is_before = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if is_view(node) and node.op == "call_function" and Q_ANNOTATION_KEY not in node.meta:
            others = node.all_input_nodes if is_before else node.users
            pending += [(other, is_before) for other in others]
        else:
            yield node


def steps_of_inputs(functions: Iterable[Function]) -> list[Node]:
    """Lists the operators of functions with steps that are computed from the model's inputs."""
    found = [each for each in functions if is_of_input(each.source) and any(map(has_steps, each.nodes))]
    return [node for function in found for node in function.nodes]
