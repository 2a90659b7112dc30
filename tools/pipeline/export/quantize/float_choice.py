"""Chooses the operators that stay in floating point because they take fewer instructions there than in int8.

Tensors between the two forms are quantized or dequantized, which costs instructions, too. The cheapest choice for a
whole graph is a minimum cut between int8 and floating point, where every operator has a cost on either side, and every
tensor that crosses the cut one.

Layers with weights are in floating point only if they are no larger there.

The cut also estimates the instructions of the whole program, which are compared with those of the same model in
floating point only: there images are in the default order of dimensions, and nothing is quantized or dequantized.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import networkx
import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.abi.layouts.layouts import MOST_FLOATS
from tools.pipeline.export.backends.cortex_m.forms import is_channels_last
from tools.pipeline.export.ir.dim_orders import CONTIGUOUS_ONLY
from tools.pipeline.export.ir.operators import CLAMPS, SIZE_CHANGES, TRANSPOSITIONS
from tools.pipeline.export.quantize.costs import Costs
from tools.pipeline.export.quantize.float_work import Work
from tools.pipeline.export.quantize.int8_work import MOVES, VIEWS, dense_groups, shape_of, work_of, work_of_group

_aten = torch.ops.aten

# The bytes of a packed layer besides its weights: the header, and per output its bias, multiplier and shift; and the
# least bytes of an instruction in a program.
_PACKED_BYTES = 48
_PACKED_BYTES_PER_OUTPUT = 9
_INSTRUCTION_BYTES = 80

# The safety factor for costs in floating point: estimates of convolutions are off by up to a third.
_DOUBT = 1.25

# The resolution of capacities per instruction. Capacities are integers, because floating-point sums would depend on the
# order in which networkx adds them, which is that of addresses in memory, and could decide between equal cuts.
_UNITS = 1024


@dataclass(frozen=True)
class Choice:
    """The operators of an annotated graph that stay in floating point, and estimated instructions.

    Attributes:
      cheaper: operators that are annotated as int8, but take fewer instructions in floating point.
      instructions: the estimate for the whole graph with these in floating point.
      all_floating: the estimate without int8.
    """

    cheaper: set[Node]
    instructions: float
    all_floating: float


def choose(
    module: GraphModule,
    functions: Sequence[Sequence[Node]],
    states: Mapping[Node, Node],
    costs: Costs,
    is_all_int8: bool = False,
) -> Choice:
    """Chooses the operators that stay in floating point because they take fewer instructions there.

    Args:
      module: an annotated module.
      functions: groups of operators that are computed as one in int8.
      states: inputs that keep values from call to call and can be int8, with the values that they get.
      is_all_int8: whether inputs and outputs are int8, and all operators that can be.
    """
    int8, floating_point = "int8", "floating point"
    cut = networkx.DiGraph()
    # Neither has an edge if the module has no operators.
    cut.add_nodes_from((int8, floating_point))
    tables = {node: group for group in functions if any(map(_is_annotated, group)) for node in group}

    def can_be_int8(node: Node) -> bool:
        if node.op != "call_function":
            return is_all_int8 or node in states
        is_handed_on = node.target in VIEWS or not isinstance(node.meta.get("val"), torch.Tensor)
        return node in tables or _is_annotated(node) or is_handed_on

    def pay(one: Any, other: Any, instructions: float, doubt: float = 1.0) -> None:
        """Adds the cost of `one` being int8 while `other` is not."""
        if instructions > 0:
            if not cut.has_edge(one, other):
                cut.add_edge(one, other, capacity=0, instructions=0.0)
            paid = doubt * instructions
            cut[one][other]["capacity"] += paid if math.isinf(paid) else round(_UNITS * paid)
            cut[one][other]["instructions"] += instructions

    # Floating point must not take more memory than the largest operator of the program in int8.
    room = max((_memory(node, can_be_int8(node)) for node in module.graph.nodes), default=0)
    for node in module.graph.nodes:
        if node.op == "get_attr":
            continue
        # A small cost for floating point decides between equal ones.
        pay(int8, node, 0.5)
        if not can_be_int8(node):
            pay(node, floating_point, math.inf)
        else:
            work = work_of(node)
            if node not in tables:
                # An activation that is fused into the layer before it costs nothing.
                is_free = _is_clamp_of_layer(node) or any(_is_fused(operand, node) for operand in node.all_input_nodes)
                pay(node, floating_point, 0.0 if is_free else costs.int8(work))
            elif node is tables[node][-1]:
                pay(node, floating_point, costs.int8(work_of_group(tables[node])))
            has_one_form = is_all_int8 or _is_larger(node) or _memory(node, is_int8=False) > room
            pay(int8, node, math.inf if has_one_form else _cost_in_float(node, work, costs), _DOUBT)
        operands = node.all_input_nodes
        if node in states:
            # The next call reads what this one writes.
            operands = [states[node]]
        elif node.op == "output":
            written = list(states.values())
            operands = [operand for operand in node.all_input_nodes if operand not in written]
        for operand in operands:
            value = operand.meta.get("val")
            if operand.op == "get_attr" or (isinstance(value, torch.Tensor) and not value.is_floating_point()):
                continue
            is_together = node in tables and tables[node] is tables.get(operand)
            if is_together or not isinstance(value, torch.Tensor) or _is_fused(operand, node):
                # Operators of one kernel, and those with several results, must stay together.
                pay(operand, node, math.inf)
                pay(node, operand, math.inf)
                continue
            # A tensor is quantized or dequantized once for all its readers.
            read, quantized = ("read", operand), ("quantized", operand)
            if not cut.has_edge(operand, read):
                elements = math.prod(value.shape)
                is_read, is_quantized = (elements <= MOST_FLOATS and each for each in _linear_around(operand))
                pay(operand, read, costs.border(False, elements, is_read), _DOUBT)
                pay(quantized, operand, costs.border(True, elements, is_quantized), _DOUBT)
            pay(read, node, math.inf)
            pay(node, quantized, math.inf)
    _, (in_int8, in_float) = networkx.minimum_cut(cut, int8, floating_point)
    cheaper = {node for node in in_float if isinstance(node, Node) and can_be_int8(node)}
    crossed = (paid for one, other, paid in cut.edges(data="instructions") if one in in_int8 and other in in_float)
    floating = {node: costs.float32(work_of(node)) for node in module.graph.nodes}
    # The cut has no cost for operators that are in floating point anyway.
    anyway = sum(
        instructions + _cost_of_order(node, costs) for node, instructions in floating.items() if not can_be_int8(node)
    )
    all_floating = sum(instructions for node, instructions in floating.items() if not _is_change_of_order(node))
    return Choice(cheaper, sum(crossed) + anyway, all_floating)


def _is_change_of_order(node: Node) -> bool:
    """Whether an operator copies an image to or from channels-last order, which a program all in floating point never
    does.
    """
    return node.target == _aten.clone.default and is_channels_last(node) != is_channels_last(node.all_input_nodes[0])


def _cost_of_order(node: Node, costs: Costs) -> float:
    """Returns the instructions of copies around an operator among int8 ones that needs the default dimension order."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name not in CONTIGUOUS_ONLY:
        return 0.0
    images = [each for each in (*node.all_input_nodes, node) if isinstance(each.meta.get("val"), torch.Tensor)]
    shapes = [shape_of(each) for each in images]
    return sum(costs.float32(Work("permute", (1, math.prod(shape)))) for shape in shapes if len(shape) == 4)


# Kinds of operators whose floating-point kernels process channels-last images element by element.
_SLOW_CHANNELS_LAST = frozenset((
    "channelwise", "convolution", "depthwise", "depthwise_3x3", "few_groups", "grouped", "transposed",
    "avg_pool2d", "max_pool2d", "max_pool2d_2x2", "group_norm", "pixel_shuffle",
))  # fmt: skip
# Kinds that move or repeat elements.
_ROW_BY_ROW = frozenset((*MOVES.values(), "cat", "index_select", "add_broadcast", "mul_broadcast"))


def _cost_in_float(node: Node, work: Work | None, costs: Costs) -> float:
    """Returns the instructions of an operator in floating point among int8 ones, where images are channels-last.

    costs.json has the costs of images in the default order of dimensions.
    """
    value = node.meta.get("val")
    if work is None or not isinstance(value, torch.Tensor) or value.dim() != 4:
        return costs.float32(work)
    # An image of one channel is in both orders.
    if work.kind in _SLOW_CHANNELS_LAST and not value.shape[1] == shape_of(node.args[0])[1] == 1:
        return math.inf
    return max(costs.float32(work), costs.int8(work)) if work.kind in _ROW_BY_ROW else costs.float32(work)


def _is_annotated(node: Node) -> bool:
    """Whether a node is annotated as int8."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None:
        return False
    return annotation.output_qspec is not None or any(
        specification is not None for specification in annotation.input_qspec_map.values()
    )


def _is_fused(operand: Node, node: Node) -> bool:
    """Whether an operator is fused into the one before it, so that nothing is quantized between them."""
    if not (_is_annotated(operand) and _is_annotated(node)) or operand.op != "call_function":
        return False
    before, after = operand.meta[Q_ANNOTATION_KEY], node.meta[Q_ANNOTATION_KEY]
    return before.output_qspec is None and after.input_qspec_map.get(operand) is None


def _is_clamp_of_layer(node: Node) -> bool:
    """Whether an activation clamps a transposed result of a layer, which does that itself in int8."""
    if node.target not in CLAMPS or node.args[0].target not in TRANSPOSITIONS:
        return False
    operand = node.args[0]
    while operand.target in TRANSPOSITIONS and len(operand.users) == 1:
        operand = operand.args[0]
    return operand.target == _aten.linear.default and len(operand.users) == 1


def _linear_around(tensor: Node) -> tuple[bool, bool]:
    """Returns whether a tensor is what a linear layer returns, and whether nothing but such a layer reads it.

    These dequantize their few results themselves, and quantize their few inputs.
    """
    made, readers = tensor, [*tensor.users]
    is_alone = len(readers) == 1
    while made.target in SIZE_CHANGES | TRANSPOSITIONS and is_alone:
        is_transposed = made.target in TRANSPOSITIONS
        made = made.all_input_nodes[0]
        is_alone = len(made.users) == 1
        if is_transposed:
            # Only rows that are computed together are transposed in memory, too.
            work = work_of(made) if made.target == _aten.linear.default else None
            is_alone = is_alone and work is not None and work.kind == "linear_rows"
    is_read = is_alone and made.target == _aten.linear.default
    return is_read, len(readers) == 1 and readers[0].target == _aten.linear.default


def _memory(node: Node, is_int8: bool) -> int:
    """Returns the bytes of an operator's operands and results, in int8 or in floating point."""
    given = [each for each in (node, *node.all_input_nodes) if each.op != "get_attr"]
    sizes = [each.meta["val"].numel() for each in given if isinstance(each.meta.get("val"), torch.Tensor)]
    if node.op == "call_function":
        return (1 if is_int8 else 4) * sum(sizes)
    # At the boundary, tensors are quantized or dequantized one after another.
    return max((5 * size for size in sizes), default=0)


def _is_larger(node: Node) -> bool:
    """Whether a layer's constants are larger in floating point than packed."""
    constants = [operand.meta["val"].numel() for operand in node.all_input_nodes if operand.op == "get_attr"]
    if not constants or max(constants) == 1:
        return False
    is_layer = node.target in (_aten.conv2d.default, _aten.conv_transpose2d.input, _aten.linear.default)
    outputs = node.args[1].meta["val"].shape[0] if is_layer else 0
    groups = dense_groups(node) if node.target == _aten.conv2d.default else 1
    packed = constants[0] * groups + _PACKED_BYTES_PER_OUTPUT * outputs + _PACKED_BYTES + 2 * _INSTRUCTION_BYTES
    return 4 * sum(constants) > (packed if is_layer else sum(constants) + 2 * _INSTRUCTION_BYTES)
