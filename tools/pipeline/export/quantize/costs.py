"""Chooses the operators that stay in floating point because they take fewer instructions there than in int8.

The instructions of an operator in either form follow from its shapes and from costs.json: instructions per call, per
output and per product, which `bazel run //conformance/networks:costs` measures with the kernels of the checkout on an
emulated Cortex-M4, and on a Cortex-M55 for cores with vectors. A vector instruction there takes two cycles or more, so
that floating point, which has few of them, gains even more than the estimate says. Tensors between the two forms are
quantized or dequantized, which costs instructions, too. The cheapest choice for a whole graph is a minimum cut between
int8 and floating point, where every operator has a cost on either side, and every tensor that crosses the cut one.

Layers with weights are in floating point only if they are no larger there.

The cut also estimates the instructions of the whole program, which are compared with those of the same model in
floating point only: there images are in the default order of dimensions, and nothing is quantized or dequantized.
"""

import json
import math
import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import networkx
import torch
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.artifacts.core.core import has_fpu, layout
from tools.artifacts.packed_layer.packed_layer import DSP, MVE, round_up
from tools.pipeline.export.backends.cortex_m.forms import WORD, is_channels_last
from tools.pipeline.export.backends.cortex_m.norms import norm_of
from tools.pipeline.export.backends.cortex_m.pack import (
    are_computed_together,
    has_depthwise_kernel,
    has_grouped_kernel,
    has_window,
    is_packed_dense,
)
from tools.pipeline.export.backends.cortex_m.prelu import is_prelu
from tools.pipeline.export.backends.cortex_m.softmax import has_table, scores_of
from tools.pipeline.export.ir.dim_orders import CONTIGUOUS_ONLY, IMAGE
from tools.pipeline.export.ir.operators import SIZE_CHANGES, SOFTMAX, TRANSPOSITIONS
from tools.pipeline.export.ir.rewriting import for_each, named_arguments
from tools.pipeline.export.quantize.float_work import (
    Geometry,
    Work,
    convolution_in_float,
    index_select,
    pool_in_float,
    transposed_in_float,
    work_of_call,
)
from tools.pipeline.export.rewrite.own_operators import RECURRENT

_aten = torch.ops.aten

_TABLE = Path(__file__).with_name("costs.json")
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

# Elementwise operators whose int8 form is not a table.
_BINARY = {
    _aten.add.Tensor: "add",
    _aten.sub.Tensor: "add",
    _aten.mul.Tensor: "mul",
    _aten.maximum.default: "maximum",
    _aten.minimum.default: "maximum",
}
_POOLS = {_aten.max_pool2d.default: "max_pool2d", _aten.avg_pool2d.default: "avg_pool2d"}
_MOVES = {
    _aten.constant_pad_nd.default: "pad",
    _aten.slice.Tensor: "slice",
    _aten.clone.default: "permute",
}
# Operators that read more elements than they return.
_REDUCTIONS = {
    _aten.amax.default: "amax",
    _aten.amin.default: "amax",
    _aten.sum.dim_IntList: "sum",
    _aten.mean.dim: "sum",
    _aten.mean.default: "sum",
    **dict.fromkeys((_aten.var.dim, _aten.var.correction, _aten.std.dim, _aten.std.correction), "sum"),
}


def work_of(node: Node) -> Work | None:
    """Returns the work of an operator in a captured graph, or None if it moves no data."""
    value = node.meta.get("val")
    target: Any = node.target
    if target in RECURRENT:
        out, given = math.prod(value[0].shape), named_arguments(node)
        (rows, features), hidden = _shape(given["input_weight"]), value[1].shape[-1]
        # Products per step and gate of each hidden value, with the input and with the hidden state.
        products = out * (rows // hidden) * (features + hidden)
        return Work(target._schema.name.partition("::")[2], (1, out, products))
    if not isinstance(value, torch.Tensor) or node.op != "call_function":
        return None
    outputs = math.prod(value.shape)
    if target == _aten.conv2d.default:
        return _convolution(node, outputs)
    if target == _aten.conv_transpose2d.input:
        return Work("transposed", transposed_in_float(_geometry(node)))
    if target == _aten.linear.default:
        features, inner = _shape(node.args[1])
        if are_computed_together(outputs // features, features):
            return Work("linear_rows", (1, outputs, outputs * inner, outputs // features * inner))
        return Work("linear", (1, outputs, outputs * inner))
    if target == _aten.bmm.default:
        return Work("bmm", (1, outputs, outputs * _shape(node.args[0])[2]))
    if target in SOFTMAX:
        exact = Work("softmax", (1, outputs))
        rows = outputs // max(_shape(node)[named_arguments(node)["dim"]], 1)
        return Work("softmax_by_table", (1, outputs, rows), exact) if has_table(node) else exact
    norm = norm_of(node)
    if norm is not None:
        kind, in_float = target._schema.name.partition("::")[2], (1, outputs, outputs // norm.count)
        # Groups of channels are normalized pixel by pixel.
        groups = outputs // _shape(node)[1] * norm.groups if norm.groups is not None else 0
        return Work(kind, (*in_float, groups), Work(kind, in_float))
    if is_prelu(node):
        # Pixel by pixel, with contiguous channels.
        planes = math.prod(_shape(node)[:2] if value.dim() > 2 else _shape(node)[:1])
        return Work("prelu", (1, outputs, outputs // _shape(node)[1]), Work("prelu", (1, outputs, planes)))
    if target in _POOLS:
        given = named_arguments(node)
        kernel = for_each(given["kernel_size"])
        count = math.prod(kernel)
        stride = for_each(given["stride"] or kernel)
        floating = Work(_POOLS[target], pool_in_float(_image_shape(node), kernel, stride))
        # Kernels for int8 process four channels at a time, and divide by shifting where the count is a power of two.
        # Columns that windows don't join are channels, too, and sums of one column are those of one row.
        batch, channels, height, width = _image_shape(node)
        if (kernel[1], stride[1], for_each(given["padding"])[1]) == (1, 1, 0):
            channels, width = channels * width, 1
        pixels = outputs // channels
        rows = 1 if kernel[1] == 1 and target == _aten.avg_pool2d.default else kernel[0]
        alone = pixels * (channels % 4)
        divided = outputs if count & (count - 1) else 0
        vectors = batch * height * width * math.ceil(channels / 16)
        with_vectors = Work(_POOLS[target], (1, outputs, pixels, vectors, vectors * count, divided))
        amounts = (1, outputs, outputs * rows, outputs * count, pixels, divided, alone, alone * rows, alone * count)
        has_squares = kernel == [2, 2] and not any(for_each(given["padding"])) and channels >= WORD
        if has_squares and target == _aten.max_pool2d.default:
            # The last channels are computed with some of those before them.
            words = pixels * math.ceil(channels / WORD)
            return Work("max_pool2d_2x2", (1, pixels, words), floating, with_vectors)
        return Work(_POOLS[target], amounts, floating, with_vectors)
    if target in _BINARY:
        shapes = {_shape(operand) for operand in node.all_input_nodes}
        is_broadcast = any(math.prod(shape) not in (1, outputs) for shape in shapes)
        if len(shapes) == 1 and len(node.all_input_nodes) == 1:
            # Only in int8 is a square a function of one operand.
            is_square = node.args[0] == node.args[1]
            return Work("scale", (1, outputs), Work(_BINARY[target], (1, outputs)) if is_square else None)
        return Work(_BINARY[target] + ("_broadcast" if is_broadcast else ""), (1, outputs))
    if target in _REDUCTIONS:
        return Work(_REDUCTIONS[target], (1, outputs, math.prod(_shape(node.args[0]))))
    if target == _aten.cat.default:
        # In int8, images are concatenated pixel by pixel, which takes longer if the channels are not a multiple of
        # four.
        parts = [_shape(operand) for operand in node.all_input_nodes]
        pieces = outputs // _shape(node)[1] * len(parts) if value.dim() == 4 and any(p[1] % 4 for p in parts) else 0
        return Work("cat", (1, outputs, pieces))
    if target == _aten.index_select.default:
        return index_select(node)
    if target in _MOVES:
        if target == _aten.clone.default and _is_of_pixels(node):
            return None
        return Work(_MOVES[target], (1, outputs))
    if target == _aten.permute.default and value.dim() > 4:
        # In int8 programs this permutation is a pixel_shuffle.
        return Work("pixel_shuffle", (1, outputs))
    if target in _VIEWS:
        return None
    return work_of_call(node) if hasattr(target, "_schema") else Work("", (1, outputs))


def work_of_group(group: Sequence[Node]) -> Work | None:
    """Returns the work of operators that are one in int8: a table of a function, or a softmax with the operators before
    it.
    """
    last = group[-1]
    scores = scores_of(last)
    if scores is not None and scores.mask is not None:
        outputs = math.prod(_shape(last))
        return Work("masked_softmax", (1, outputs, outputs // _shape(last)[-1]))
    return work_of(last) if last.target in SOFTMAX else Work("table", (1, math.prod(_shape(last))))


def _is_of_pixels(node: Node) -> bool:
    """Whether a channels-last image is a permuted view that moves no data."""
    image = node.all_input_nodes[0]
    return is_channels_last(node) and image.target == _aten.permute.default and image.args[1] == IMAGE


def _shape(node: Any) -> tuple[int, ...]:
    """Returns the shape of a node's result."""
    return tuple(node.meta["val"].shape)


def _image_shape(node: Any) -> tuple[int, ...]:
    """Returns the shape of an image with its batch, which poolings and convolutions may omit."""
    shape = _shape(node)
    return shape if len(shape) == 4 else (1, *shape)


_VIEWS = (
    SIZE_CHANGES
    | TRANSPOSITIONS
    | {
        _aten.alias.default,
        _aten.expand.default,
        _aten.select.int,
        operator.getitem,
    }
)


def _vectors(node: Node) -> int:
    """Returns the number of vectors of sixteen channels in an image's pixels."""
    batch, channels, height, width = _image_shape(node)
    return batch * height * width * math.ceil(channels / 16)


def _convolution(node: Node, outputs: int) -> Work:
    image, weight = _image_shape(node.args[0]), _shape(node.args[1])
    channels, inner = weight[0], math.prod(weight[1:])
    floating, given = convolution_in_float(_geometry(node)), named_arguments(node)
    steps = (for_each(given[name]) for name in ("stride", "padding", "dilation"))
    if not has_window(_dialect_shape(weight), *steps):
        kind = "convolution" if image[1] == weight[1] else "depthwise" if weight[1] == 1 else "grouped"
        return Work("unpacked", _unpacked(outputs, weight), Work(kind, floating))
    if image[1] == weight[1]:
        amounts: tuple[int, ...] = (1, outputs, *_products(_image_shape(node), image[1], weight))
        return Work("convolution", amounts, Work("convolution", floating), _with_vectors(node, weight))
    if weight[1] == 1 and weight[2:] == (1, 1) and image == _image_shape(node):
        # In floating point, a factor and a term per channel are a product and a sum of images.
        return Work("channelwise", (1, outputs, image[0] * channels, outputs if channels < WORD else 0))
    if weight[1] == 1 and image[1] >= WORD:
        planes = image[0] * channels
        dilation = for_each(given["dilation"])
        if has_depthwise_kernel(MVE, image[1], channels // image[1], weight[2], dilation):
            vectors, lines = _vectors(node), _vectors(node) // _image_shape(node)[3]
            amounts = (1, outputs, vectors, vectors * inner, lines, lines * weight[2], planes)
            with_vectors = Work("depthwise_3x3" if weight[2:] == (3, 3) else "depthwise", amounts)
        else:
            with_vectors = _without_kernel(node)
        if weight[2:] == (3, 3) and set(dilation) == {1} and channels == image[1]:
            # Four channels at a time: the kernel reads the words of their image, and unpacks the columns under windows.
            words = round_up(channels, 4) // 4 * image[0]
            columns = words * _image_shape(node)[2] * ((_image_shape(node)[3] - 1) * for_each(given["stride"])[1] + 3)
            read, in_rows = words * image[2] * image[3], words * _image_shape(node)[2]
            amounts = (1, outputs, read, columns, in_rows, planes)
            return Work("depthwise_3x3", amounts, Work("depthwise_3x3", floating), with_vectors)
        # Words of int8 have four channels, and rows of their outputs are computed one after another.
        unaligned = outputs if channels % 4 else 0
        rows = math.prod(_image_shape(node)[:-1])
        several = outputs if channels > image[1] else 0
        amounts = (1, outputs, outputs * inner, unaligned, several, rows, rows * inner, planes)
        return Work("depthwise", amounts, Work("depthwise", floating), with_vectors)
    with_vectors, in_groups = _without_kernel(node), Work("grouped", floating)
    if has_grouped_kernel(DSP, _dialect_shape(weight), _groups(node)):
        # The kernel computes four pixels of a group at a time.
        groups, pixels = _groups(node), math.prod(_image_shape(node)) // channels
        blocks = groups * math.ceil(pixels / 4)
        amounts = (1, outputs, outputs * inner, pixels * groups * inner, blocks, blocks * weight[2])
        return Work("grouped", amounts, in_groups, with_vectors)
    groups = _dense_groups(node)
    if groups > 1:
        # Packed layers also multiply by the zeros between the groups.
        amounts = (1, outputs, outputs * inner, outputs * inner * groups)
        return Work("few_groups", amounts, in_groups, with_vectors)
    return Work("unpacked", _unpacked(outputs, weight), in_groups, with_vectors)


def _unpacked(outputs: int, weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the amounts that determine the cost of an unpacked int8 convolution."""
    inner = math.prod(weight[1:])
    # Its kernels compute four products at a time if a group's channels are a multiple of four.
    unaligned = outputs if weight[1] % 4 else 0
    return 1, outputs, outputs * inner, outputs * math.prod(weight[2:]), unaligned, unaligned * inner


def _without_kernel(node: Node) -> Work:
    """Returns the work of a grouped convolution that has no kernel for vectors."""
    image, weight = _image_shape(node.args[0]), _shape(node.args[1])
    if is_packed_dense(MVE, _dialect_shape(weight), _groups(node)):
        return _with_vectors(node, (weight[0], image[1], *weight[2:]))
    return Work("unpacked", _unpacked(math.prod(_shape(node)), weight))


def _with_vectors(node: Node, weight: tuple[int, ...]) -> Work:
    """Returns the work of a convolution without groups by the kernel for vectors of sixteen products."""
    outputs, inner = math.prod(_image_shape(node)), math.prod(weight[1:])
    pixels = outputs // weight[0]
    # Windows larger than a pixel are gathered: row by row, or pixel by pixel.
    windows = 0 if weight[2:] == (1, 1) else pixels
    pieces = weight[2] * (weight[3] if for_each(named_arguments(node)["dilation"])[1] > 1 else 1)
    vectors, alone = math.ceil(inner / 16), pixels * (weight[0] % 4)
    amounts = (1, outputs, outputs * vectors, pixels, alone, alone * vectors, windows * pieces, windows * inner)
    return Work("convolution", amounts)


def _products(out: tuple[int, ...], inputs: int, weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the amounts besides outputs that determine the cost of an int8 convolution without groups.

    Returns:
      products, including the padding of packed weights; products if outputs were padded to fours; products of pixels
      beyond a multiple of four; and for windows larger than a pixel: elements of all windows, their rows, and elements
      of windows whose channels are not a multiple of four.
    """
    channels, inner = weight[0], math.prod(weight[1:])
    pixels = math.prod(out) // channels
    products, in_fours = (pixels * round_up(channels, each) * round_up(inner, 4) for each in (2, 4))
    windows = 0 if inner == inputs else pixels
    unaligned = windows * inner if inputs % 4 else 0
    left = products // pixels * (pixels % 4)
    return products, in_fours, left, windows * inner, windows * weight[2], unaligned


def _geometry(node: Node) -> Geometry:
    given = named_arguments(node)
    stride, padding, dilation = (for_each(given[name]) for name in ("stride", "padding", "dilation"))
    image, out, weight = _image_shape(node.args[0]), _image_shape(node), _shape(node.args[1])
    return Geometry(image, out, weight, stride, padding, dilation, given["groups"])


def _dense_groups(node: Node) -> int:
    """Returns the groups of a convolution that is packed without groups, and 1 for all others."""
    weight, groups = _dialect_shape(_shape(node.args[1])), _groups(node)
    return groups if is_packed_dense(DSP, weight, groups) and not has_grouped_kernel(DSP, weight, groups) else 1


def _groups(node: Node) -> int:
    """Returns the groups of a convolution."""
    return _image_shape(node.args[0])[1] // _shape(node.args[1])[1]


def _dialect_shape(weight: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of a weight in the int8 dialect, [out, height, width, in / groups]."""
    return (weight[0], *weight[2:], weight[1])


class Costs:
    """The instructions of operators on a core that has_costs(), from costs.json."""

    def __init__(self, core: str) -> None:
        self._core = core
        self._forms: dict[str, dict[str, list[float]]] = json.loads(_TABLE.read_text(encoding="utf-8"))[layout(core)]

    def int8(self, work: Work | None) -> float:
        """Returns the instructions of an operator in int8."""
        return self._of("int8", None if work is None else work.in_int8(self._core), "table")

    def float32(self, work: Work | None) -> float:
        """Returns the instructions of an operator in floating point."""
        return self._of("float32", None if work is None else work.in_float(), "add")

    def border(self, is_quantized: bool, elements: int) -> float:
        """Returns the instructions that quantize or dequantize a tensor."""
        return self._of("int8", Work("quantize" if is_quantized else "dequantize", (1, elements)), "")

    def _of(self, form: str, work: Work | None, other: str) -> float:
        if work is None:
            return 0.0
        factors = self._forms[form].get(work.kind) or self._forms[form][other]
        return sum(map(operator.mul, factors, work.amounts))


def instructions(nodes: Iterable[Node | None], costs: Costs) -> float:
    """Returns the instructions of the operators of a program in floating point."""
    return sum(costs.float32(work_of_call(node)) for node in nodes if node is not None)


def has_costs(core: str) -> bool:
    """Whether costs.json is valid for a core: it was measured with an FPU, and with DSP instructions or vectors."""
    return has_fpu(core) and layout(core) != "scalar"


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
        is_handed_on = node.target in _VIEWS or not isinstance(node.meta.get("val"), torch.Tensor)
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
                is_free = any(_is_fused(operand, node) for operand in node.all_input_nodes)
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
                pay(operand, read, costs.border(False, math.prod(value.shape)), _DOUBT)
                pay(quantized, operand, costs.border(True, math.prod(value.shape)), _DOUBT)
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
    """Returns the instructions of copies around an operator that needs the default order of dimensions among int8 ones.
    """
    schema = getattr(node.target, "_schema", None)
    if schema is None or schema.name not in CONTIGUOUS_ONLY:
        return 0.0
    images = [each for each in (*node.all_input_nodes, node) if isinstance(each.meta.get("val"), torch.Tensor)]
    shapes = [_shape(each) for each in images]
    return sum(costs.float32(Work("permute", (1, math.prod(shape)))) for shape in shapes if len(shape) == 4)


# Kinds of operators whose floating-point kernels process channels-last images element by element.
_SLOW_CHANNELS_LAST = frozenset((
    "channelwise", "convolution", "depthwise", "depthwise_3x3", "few_groups", "grouped", "transposed",
    "avg_pool2d", "max_pool2d", "max_pool2d_2x2", "group_norm", "pixel_shuffle",
))  # fmt: skip
# Kinds that move or repeat elements.
_ROW_BY_ROW = frozenset((*_MOVES.values(), "cat", "index_select", "add_broadcast", "mul_broadcast"))


def _cost_in_float(node: Node, work: Work | None, costs: Costs) -> float:
    """Returns the instructions of an operator in floating point among int8 ones, where images are channels-last.

    costs.json has the costs of images in the default order of dimensions.
    """
    value = node.meta.get("val")
    if work is None or not isinstance(value, torch.Tensor) or value.dim() != 4:
        return costs.float32(work)
    # An image of one channel is in both orders.
    if work.kind in _SLOW_CHANNELS_LAST and not value.shape[1] == _shape(node.args[0])[1] == 1:
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
    groups = _dense_groups(node) if node.target == _aten.conv2d.default else 1
    packed = constants[0] * groups + _PACKED_BYTES_PER_OUTPUT * outputs + _PACKED_BYTES + 2 * _INSTRUCTION_BYTES
    return 4 * sum(constants) > (packed if is_layer else sum(constants) + 2 * _INSTRUCTION_BYTES)
