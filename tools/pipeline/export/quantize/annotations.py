"""Changes the annotations by which quantizers mark what becomes int8."""

import dataclasses
import math
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e.quantizer import QuantizationSpec, SharedQuantizationSpec
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.ir.rewriting import has_steps
from tools.pipeline.export.quantize.nodes import (
    COMPARISONS,
    PRODUCTS,
    becomes_int8,
    bounds,
    is_of_input,
    is_parameter,
    is_view,
)
from tools.pipeline.export.rewrite.own_operators import RECURRENT
from tools.pipeline.export.rewrite.spectra.spectra import SPECTRA

_aten = torch.ops.aten


def leave_state(graph: Graph, count: int) -> list[Node]:
    """Leaves the nodes in floating point that compute the first outputs of a graph, and returns them."""
    return leave_nodes(find_state(graph, count))


def leave_nodes(nodes: list[Node]) -> list[Node]:
    """Marks nodes as annotated, so that they stay in floating point, and returns them."""
    for node in nodes:
        _mark_node_as_quantized(node, {}, None, False)
        node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
    return nodes


def find_state(graph: Graph, count: int, moved: Collection[Node] = ()) -> list[Node]:
    """Lists the nodes that compute the first outputs of a graph, back to layers with weights and to products.

    Args:
      moved: outputs that are left out.
    """
    found: dict[Node, None] = {}
    outputs = graph.output_node().args[0][:count]
    pending = [node for node in outputs if isinstance(node, Node) and node not in moved]
    while pending:
        node = pending.pop()
        if node.op == "call_function" and node.target not in (*PRODUCTS, *RECURRENT) and node not in found:
            found[node] = None
            pending += node.all_input_nodes
    return list(found)


def find_signals(graph: Graph, in_float: set[Node]) -> list[Node]:
    """Finds inputs that only floating-point operators read on the way to spectra, which would lose accuracy in int8."""
    found = []
    for node in graph.nodes:
        readers: set[Node] = set(node.users) if node.op == "placeholder" else set()
        pending = list(readers)
        while pending:
            reader = pending.pop()
            following = set() if reader.target in SPECTRA else set(reader.users) - readers
            readers |= following
            pending += following
        if readers and readers <= in_float and any(reader.target in SPECTRA for reader in readers):
            found.append(node)
    return found


def moved_states(graph: Graph, may_be_int8: Sequence[bool]) -> dict[Node, Node]:
    """Maps state inputs to their new values, for states of which elements are only moved, such as a window of the last
    samples. In int8 they gather no error from call to call, unlike sums and averages.

    Args:
      may_be_int8: for each state, the first inputs and outputs of the graph, whether int8 can hold its first value.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    found = {}
    for before, after, may in zip(inputs, graph.output_node().args[0], may_be_int8, strict=False):
        behind = {before}
        for node in graph.nodes:
            if behind.intersection(node.all_input_nodes):
                behind.add(node)
        between: set[Node] = set()
        pending = [after]
        while pending:
            node = pending.pop()
            if node in behind and node is not before and node not in between:
                between.add(node)
                pending += node.all_input_nodes
        are_moves = all(is_view(node) and bounds(node) == (-math.inf, math.inf) for node in between)
        if may and between and are_moves and before.meta["val"].is_floating_point():
            found[before] = after
    return found


def comparisons_of_inputs(graph: Graph) -> list[Node]:
    """Lists the comparisons of the model's inputs with each other or with constants."""
    compared = [node for node in graph.nodes if node.target in COMPARISONS]
    return [node for node in compared if all(is_of_input(of) or is_parameter(of) for of in node.all_input_nodes)]


def leave_steps(graph: Graph, steps: Collection[Node]) -> None:
    """Makes comparisons and functions with steps read the model's inputs unquantized: rounding could move a value
    across a limit.

    Args:
      steps: operators that compute such functions, and stay in floating point.
    """

    def is_exact(user: Node) -> bool:
        if becomes_int8(user):
            return False
        if is_view(user):
            return Q_ANNOTATION_KEY in user.meta
        return user.target in COMPARISONS or user in steps or has_steps(user)

    # In reverse order, because views may be read through other views.
    for node in reversed(graph.nodes):
        if not node.users:
            continue
        if is_view(node) and Q_ANNOTATION_KEY not in node.meta and is_of_input(node):
            if all(map(is_exact, node.users)):
                _mark_node_as_quantized(node, {}, None, False)
        elif any(map(is_exact, node.users)):
            leave_input(node)


def leave_outputs(graph: Graph, states: int, has_float_border: bool) -> None:
    """Leaves results of operators in floating point as they are. Quantizers for Arm quantize all outputs of a graph, so
    that a state would be rounded to int8 from call to call.

    Args:
      states: the number of outputs, from the first one on, that are state.
      has_float_border: whether the other outputs are in floating point, too.
    """
    output = graph.output_node()
    annotation, results = output.meta.get(Q_ANNOTATION_KEY), output.args[0]
    if annotation is None:
        return
    for index, result in enumerate(results):
        source = result
        while isinstance(source, Node) and is_view(source) and Q_ANNOTATION_KEY not in source.meta:
            (source, *_) = source.all_input_nodes
        is_float = isinstance(source, Node) and source.op == "call_function" and not becomes_int8(source)
        if is_float and (has_float_border or (index < states and result not in results[states:])):
            annotation.input_qspec_map.pop(result, None)


def leave_input(node: Node) -> None:
    """Makes operators in floating point read an input of the model unquantized."""
    annotation = node.meta.get(Q_ANNOTATION_KEY) if node.op == "placeholder" else None
    if annotation is None or annotation.output_qspec is None:
        return
    # The remaining views will be int8 like their source.
    if any(is_view(user) and Q_ANNOTATION_KEY not in user.meta for user in node.users):
        return
    int8 = [user for user in node.users if becomes_int8(user)]
    if len(int8) == len(node.users):
        return
    for user in int8:
        operands = user.meta[Q_ANNOTATION_KEY].input_qspec_map
        shared = operands.get(node)
        # A concatenation's operands have one scale.
        if not isinstance(shared, SharedQuantizationSpec) or shared.edge_or_node is node:
            operands[node] = annotation.output_qspec
    annotation.output_qspec = None


def specify(model: GraphModule, change: Callable[[Any], Any]) -> GraphModule:
    """Replaces the specifications of all annotations, and returns the module.

    Args:
      model: the annotated module.
      change: returns the new specification for the present one of an operand or a result.
    """
    for node in model.graph.nodes:
        annotation = node.meta.get(Q_ANNOTATION_KEY)
        if annotation is not None:
            operands = annotation.input_qspec_map
            annotation.input_qspec_map = {operand: change(spec) for operand, spec in operands.items()}
            annotation.output_qspec = change(annotation.output_qspec)
    return model


def evenly_bounded(spec: Any) -> Any:
    """Limits a specification of weights to -127 to 127, since packing for DSP puts two of them into 16 bits."""
    if isinstance(spec, QuantizationSpec) and spec.qscheme in (torch.per_tensor_symmetric, torch.per_channel_symmetric):
        return dataclasses.replace(spec, quant_min=-127, quant_max=127)
    return spec
