"""Annotates groups of operators that ExecuTorch's Cortex-M quantizer annotates one by one, or not at all.

A *function* is a group of elementwise operators that compute their result from one tensor and from numbers: a GELU
written out, `x * relu6(x + 3) / 6`, a product with a constant. Quantizing each operator would lose precision and take
instructions at each step; the group becomes one table of 256 results (tables.py).

*Masked scores* are the values between the addition of a mask of minus infinity, or of similar numbers, and a softmax or
a maximum. No int8 scale can represent such numbers and the scores, so these operators stay in floating point, except
for a sum and a softmax that an operator of our own computes (softmax.py).
"""

import contextlib
import copy
import dataclasses
import itertools
import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import SharedQspecQuantizer, _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.backends.cortex_m.quantizer.quantization_configs import (
    INT8_ACTIVATION_PER_TENSOR_QSPEC,
    SOFTMAX_OUTPUT_FIXED_QSPEC,
)
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.quantizer_reporter import QuantizerInfo
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e.quantizer import QuantizationSpec, Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.backends.cortex_m.norms import norm_of
from tools.pipeline.export.backends.cortex_m.own_layers import mark
from tools.pipeline.export.backends.cortex_m.prelu import is_prelu
from tools.pipeline.export.backends.cortex_m.softmax import Scores, scores_of
from tools.pipeline.export.ir.operators import CLAMPS, SOFTMAX
from tools.pipeline.export.ir.rewriting import has_steps, is_elementwise, unshare_notes
from tools.pipeline.export.rewrite.no_ops import has_no_elements
from tools.pipeline.export.rewrite.own_operators import RECURRENT
from tools.pipeline.export.rewrite.spectra.spectra import SPECTRA
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.model_file.call import CALLED

_aten = torch.ops.aten

# Activations that are fused into the layer before them.
_FUSED = CLAMPS | {_aten.hardsigmoid.default}
_LAYERS = frozenset((
    _aten.conv2d.default, _aten.conv_transpose2d.input, _aten.linear.default, _aten.add.Tensor,
    _aten.max_pool2d.default,
))  # fmt: skip
# ExecuTorch's passes compute these in int8 if they stand alone.
_KNOWN = CLAMPS | {_aten.sigmoid.default, _aten.silu.default, _aten.tanh.default}
# Layers with weights, and products of two matrices.
_PRODUCTS = frozenset((
    _aten.conv2d.default, _aten.conv_transpose2d.input, _aten.linear.default, _aten.bmm.default,
))  # fmt: skip
# Operators whose results don't depend on masked elements.
_UNMASKING = SOFTMAX | {_aten.amax.default, _aten.argmax.default, _aten.max.default, _aten.max.dim}
_COMPARISONS = frozenset(
    getattr(operator, overload)
    for operator in (_aten.eq, _aten.ne, _aten.lt, _aten.le, _aten.gt, _aten.ge)
    for overload in ("Scalar", "Tensor")
)
# Masks add less than this to the scores that they exclude; scores are larger.
_EXCLUDED = -1e3


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


def is_layer(node: Node) -> bool:
    """Whether a node has weights, or is an activation that is fused into such a node."""
    if node.target in (_aten.relu.default, _aten.hardtanh.default):
        return True
    return node.target in _PRODUCTS and node.target != _aten.bmm.default and _is_parameter(node.args[1])


def is_product(node: Node) -> bool:
    """Whether a node multiplies matrices or convolves."""
    return node.target in _PRODUCTS


def bounds(node: Node) -> tuple[float, float]:
    """Returns known bounds of the results of an operator."""
    if node.target in (_aten.sigmoid.default, _aten.hardsigmoid.default, *SOFTMAX):
        return 0.0, 1.0
    if node.target == _aten.tanh.default:
        return -1.0, 1.0
    if node.target in (_aten.hardtanh.default, _aten.clamp.default):
        default = (-1.0, 1.0) if node.target == _aten.hardtanh.default else (None, None)
        low, high = _with_defaults(node, 1, default)
        return (-math.inf if low is None else float(low)), (math.inf if high is None else float(high))
    return (0.0 if node.target == _aten.relu.default else -math.inf), math.inf


def keeps_bounds(node: Node) -> bool:
    """Whether an operator's results are elements or means of its operands, and share their range."""
    # Activations are among the operators that may share a range.
    if node.op != "call_function" or bounds(node) != (-math.inf, math.inf):
        return False
    return _is_view(node) or node.target in (_aten.max_pool2d.default, _aten.avg_pool2d.default)


def _is_parameter(node: Any) -> bool:
    return isinstance(node, Node) and node.op == "get_attr"


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
        if source is not None and _is_float(source) and source.meta["val"].shape == node.meta["val"].shape:
            roots[node] = source
    # A group that ends in anything but numbers, such as a condition that other nodes read, is not a function.
    while True:
        ends = [
            node for node in roots if not _is_float(node) and any(roots.get(user) != roots[node] for user in node.users)
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
    return node.target not in _FUSED or not _is_layer(node.args[0])


def _is_layer(node: Any) -> bool:
    """Whether a node can fuse the activation after it."""
    if not isinstance(node, Node) or node.target not in _LAYERS or len(node.users) != 1:
        return False
    return node.target != _aten.add.Tensor or not any(_is_number(operand) for operand in node.all_input_nodes)


def _is_number(node: Node) -> bool:
    value = node.meta.get("val")
    return node.op == "get_attr" and isinstance(value, torch.Tensor) and value.numel() == 1


def _is_float(node: Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def _has_computed_weights(node: Node) -> bool:
    is_layer = node.target in _PRODUCTS and node.target != _aten.bmm.default
    return is_layer and not _is_parameter(node.args[1])


def _has_no_range(node: Node) -> bool:
    """Whether a tensor is of another format than float32, or has no elements: what shares its scale would lose its."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    return value.dtype != torch.float32 or has_no_elements(node)


def find_masked_scores(module: GraphModule) -> list[Node]:
    """Lists the nodes from a mask to the softmax or maximum after it, both included."""
    found: dict[Node, None] = {}
    for node in module.graph.nodes:
        if node.op == "call_function" and is_elementwise(node.target) and _is_masked(module, node):
            path = _path_from_mask(node)
            found |= dict.fromkeys(path)
    return list(found)


def _path_from_mask(node: Node) -> list[Node]:
    """Lists a node and its successors up to the operator that ignores masked elements; empty if another node reads
    them.
    """
    found: dict[Node, None] = {}
    pending = [node]
    while pending:
        reader = pending.pop()
        if reader in found:
            continue
        if reader.target not in _UNMASKING:
            if reader.op == "output" or not (is_elementwise(reader.target) or _is_view(reader)):
                return []
            pending += reader.users
        found[reader] = None
    return list(found)


def _is_view(node: Node) -> bool:
    return node.target in SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT


def _compares_number(node: Node) -> bool:
    return node.target in _COMPARISONS and not isinstance(node.args[1], Node)


def _is_of_integers(node: Node) -> bool:
    """Whether an operator computes integers or booleans from such tensors alone."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    is_of_tensors = node.op == "call_function" and len(values) > 1
    return is_of_tensors and all(isinstance(each, torch.Tensor) and not each.is_floating_point() for each in values)


def _is_masked(module: GraphModule, node: Node) -> bool:
    for operand in node.args:
        if isinstance(operand, float) and operand < _EXCLUDED:
            return True
        if isinstance(operand, Node) and operand.op == "get_attr":
            value = attribute(module, str(operand.target))
            if value.is_floating_point() and value.numel() and float(value.min()) < _EXCLUDED:
                return True
    return False


def _find_scores(module: GraphModule) -> dict[Node, Scores]:
    """Finds each softmax that an operator of our own computes in int8 together with the operators before it."""

    def value(node: Node) -> torch.Tensor | None:
        return attribute(module, str(node.target)) if node.op == "get_attr" else None

    found = {node: scores_of(node) for node in module.graph.nodes}
    return {node: scores for node, scores in found.items() if scores is not None and scores.scale(value) is not None}


def _annotate_softmax(softmax: Node, scores: Scores) -> None:
    """Annotates a softmax and the operators before it as a group."""
    first, *others = scores.between
    _mark_node_as_quantized(first, {scores.source: INT8_ACTIVATION_PER_TENSOR_QSPEC}, None, False)
    for node in others:
        _mark_node_as_quantized(node, {}, None, False)
    _mark_node_as_quantized(softmax, {}, SOFTMAX_OUTPUT_FIXED_QSPEC, False)
    for node in (*scores.between, softmax):
        node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        mark(node)


def by_layer(node: Node, named: Mapping[str, str], otherwise: str) -> str:
    """Looks up a node's layer in a table of module names, which include all modules inside; the longest name wins."""
    best, found = -1, otherwise
    for name, _ in node.meta.get("nn_module_stack", {}).values():
        name = name.removeprefix(f"{CALLED}.")
        if name in named and len(name) > best:
            best, found = len(name), named[name]
    return found


def attribute(module: GraphModule, name: str) -> torch.Tensor:
    """Returns the tensor of a node `get_attr` of a module."""
    value: Any = module
    for part in name.split("."):
        value = getattr(value, part)
    assert isinstance(value, torch.Tensor)
    return value


def _has_no_kernel(node: Node) -> bool:
    """Whether no int8 kernel supports a node.

    These are nodes of other dtypes than float32, layers with computed weights, poolings that are dilated, whose windows
    exceed the image or whose indices are read, and paddings of more than four dimensions or with a number below any
    image's.
    """
    if node.op == "call_function" and any(map(_has_no_range, (node, *node.all_input_nodes))):
        return True
    # Passes would take such a layer for an int8 layer if its weights were quantized.
    if _has_computed_weights(node) or any(_has_computed_weights(user) and user.args[1] is node for user in node.users):
        return True
    if node.target == _aten.constant_pad_nd.default:
        return node.meta["val"].dim() > 4 or _with_defaults(node, 2, (0.0,))[0] < _EXCLUDED
    if node.target == _aten.avg_pool2d.default:
        ceil_mode, _, divisor = _with_defaults(node, 4, (False, True, None))
        return bool(ceil_mode) or divisor is not None
    if node.target == _aten.max_pool2d_with_indices.default:
        return any(user.args[1] for user in node.users)
    if node.target == _aten.max_pool2d.default:
        dilation, ceil_mode = _with_defaults(node, 4, (1, False))
        return bool(ceil_mode) or dilation not in (1, [1], [1, 1])
    return False


def _with_defaults(node: Node, place: int, defaults: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns a node's optional arguments from index `place` on."""
    given = tuple(node.args[place:])
    return given + defaults[len(given) :]


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
        are_moves = all(_is_view(node) and bounds(node) == (-math.inf, math.inf) for node in between)
        if may and between and are_moves and before.meta["val"].is_floating_point():
            found[before] = after
    return found


def _find_state(graph: Graph, count: int, moved: Collection[Node] = ()) -> list[Node]:
    """Lists the nodes that compute the first outputs of a graph, back to layers with weights and to products.

    Args:
      moved: outputs that are left out.
    """
    found: dict[Node, None] = {}
    outputs = graph.output_node().args[0][:count]
    pending = [node for node in outputs if isinstance(node, Node) and node not in moved]
    while pending:
        node = pending.pop()
        if node.op == "call_function" and node.target not in (*_PRODUCTS, *RECURRENT) and node not in found:
            found[node] = None
            pending += node.all_input_nodes
    return list(found)


def leave_state(graph: Graph, count: int) -> list[Node]:
    """Leaves the nodes in floating point that compute the first outputs of a graph, and returns them."""
    return leave_nodes(_find_state(graph, count))


def leave_nodes(nodes: list[Node]) -> list[Node]:
    """Marks nodes as annotated, so that they stay in floating point, and returns them."""
    for node in nodes:
        _mark_node_as_quantized(node, {}, None, False)
        node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
    return nodes


def _find_signals(graph: Graph, in_float: set[Node]) -> list[Node]:
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


@dataclass(frozen=True)
class Decided:
    """The operators whose form was decided by cost.

    Attributes:
      floating: operators that stay in floating point.
      int8: operators of functions that are int8, whatever their neighbours are.
    """

    floating: frozenset[Node] = frozenset()
    int8: frozenset[Node] = frozenset()


class _Whole(Quantizer):
    """The first quantizer: protects groups of operators from quantizers that annotate single operators."""

    def __init__(
        self,
        states: Sequence[bool],
        stays: Callable[[Node], bool],
        decide: Callable[[GraphModule], Decided] | None,
        has_own_layers: bool,
        has_float_border: bool,
    ) -> None:
        self.functions: list[Function] = []
        # Softmax operators, each with the operators before it that one kernel computes with it.
        self.softmaxes: list[list[Node]] = []
        # Functions with steps of the model's inputs.
        self.steps: list[Node] = []
        # Inputs of the model that are only used to compute spectra.
        self.signals: list[Node] = []
        self.states = states
        # Those of the states that are int8, and their new values.
        self.moved: dict[Node, Node] = {}
        self.decided = Decided()
        self._stays = stays
        self._decide = decide
        self._has_own_layers = has_own_layers
        self._has_float_border = has_float_border

    def annotate(self, model: GraphModule) -> GraphModule:
        softmaxes = _find_scores(model) if self._has_own_layers else {}
        together = {node for softmax, each in softmaxes.items() for node in (*each.between, softmax)}
        scores = [node for node in find_masked_scores(model) if node not in together]
        if self._decide is not None:
            self.decided = self._decide(model)
        self.moved = {
            before: after
            for before, after in moved_states(model.graph, self.states).items()
            if before not in self.decided.floating
        }
        scores += _find_state(model.graph, len(self.states), self.moved.values())
        scores += [
            node
            for node in model.graph.nodes
            if _has_no_kernel(node)
            or (node.op == "call_function" and (node in self.decided.floating or self._stays(node)))
        ]
        for softmax, each in softmaxes.items():
            group = [*each.between, softmax]
            if not set(group) & set(scores):
                self.softmaxes.append(group)
                _annotate_softmax(softmax, each)
            elif each.mask is not None:
                scores += group
        self.functions = find_functions(model.graph)
        if self._has_float_border:
            self.steps = steps_of_inputs(self.functions)
            scores += self.steps
        for node in scores:
            _mark_node_as_quantized(node, {}, None, False)
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        self.signals = _find_signals(model.graph, set(scores))
        done = {*scores, *itertools.chain(*self.softmaxes)}
        self.functions = [each for each in self.functions if not set(each.nodes) & done]
        within = {node for function in self.functions for node in function.nodes}
        # ExecuTorch's quantizer would compare the integers of a tensor with the number itself, and take integers for
        # quantized ones, which have scales.
        left = [
            node
            for node in model.graph.nodes
            if (_compares_number(node) or _is_of_integers(node)) and node not in within and node not in done
        ]
        for node in left:
            _mark_node_as_quantized(node, {}, None, False)
        for node in (*within, *left):
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        return model

    def validate(self, model: GraphModule) -> None:
        """Checks nothing: nodes without annotations stay in floating point, and the build reports them."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """Describes the quantizer for ExecuTorch's report."""
        return QuantizerInfo("Groups", "functions and masked scores", "as a whole", __name__)


class _OwnLayers(Quantizer):
    """Annotates layers that have operators of our own: normalization, PReLU, recurrent ones, and differences.

    Args:
      has_float_border: whether states that the model takes and returns stay in floating point, bit for bit.
    """

    def __init__(self, has_float_border: bool) -> None:
        self._has_float_border = has_float_border

    def annotate(self, model: GraphModule) -> GraphModule:
        for node in model.graph.nodes:
            if node.op != "call_function" or Q_ANNOTATION_KEY in node.meta:
                continue
            if _is_int8_difference(node):
                operands = dict.fromkeys(node.all_input_nodes, INT8_ACTIVATION_PER_TENSOR_QSPEC)
                _mark_node_as_quantized(node, operands, INT8_ACTIVATION_PER_TENSOR_QSPEC, True)
                continue
            if not _is_layer_of_our_own(node):
                continue
            is_recurrent = node.target in RECURRENT
            result = None if is_recurrent else INT8_ACTIVATION_PER_TENSOR_QSPEC
            _mark_node_as_quantized(node, {node.args[0]: INT8_ACTIVATION_PER_TENSOR_QSPEC}, result, False)
            mark(node)
            for user in node.users if is_recurrent else ():
                if user.args[1] == 0:
                    _mark_node_as_quantized(user, {}, INT8_ACTIVATION_PER_TENSOR_QSPEC, False)
            if is_recurrent and self._has_float_border:
                _leave_states(node)
        return model

    def validate(self, model: GraphModule) -> None:
        """Checks nothing, as in _Whole."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """Describes the quantizer for ExecuTorch's report."""
        return QuantizerInfo("Own layers", "normalization, PReLU, LSTM and GRU", "int8", __name__)


def _is_int8_difference(node: Node) -> bool:
    """Whether both operands of a difference are int8 anyway: it quantizes nothing that is in floating point."""
    if node.target != _aten.sub.Tensor or node.kwargs or PatternMatcher.Q_PATTERN_MATCHED_KEY in node.meta:
        return False
    return _is_float(node) and all(isinstance(operand, Node) and _is_int8(operand, node) for operand in node.args)


def _is_int8(node: Node, reader: Node) -> bool:
    """Whether a tensor is int8 whatever a reader of it is; inputs and states may yet stay in floating point."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if node.op != "placeholder" and annotation is not None and annotation.output_qspec is not None:
        return True
    others = [user.meta.get(Q_ANNOTATION_KEY) for user in node.users if user is not reader]
    if any(other is not None and other.input_qspec_map.get(node) is not None for other in others):
        return True
    moves = _is_view(node) or node.target == operator.getitem
    return moves and all(_is_int8(source, node) for source in node.all_input_nodes)


def _leave_states(layer: Node) -> None:
    """Leaves a recurrent layer's states in floating point, back to the model's inputs and forward to its outputs."""
    pending = [(state, True) for state in layer.all_input_nodes[1:]]
    pending += [(user, False) for user in layer.users if user.args[1] != 0]
    seen = {layer}
    while pending:
        node, is_before = pending.pop()
        if node in seen or not (_is_view(node) or node.target == operator.getitem or node.op == "placeholder"):
            continue
        seen.add(node)
        if node.op == "placeholder":
            if Q_ANNOTATION_KEY in node.meta:
                node.meta[Q_ANNOTATION_KEY].output_qspec = None
            continue
        if Q_ANNOTATION_KEY not in node.meta:
            _mark_node_as_quantized(node, {}, None, False)
        for user in node.users:
            if user.op == "output" and Q_ANNOTATION_KEY in user.meta:
                user.meta[Q_ANNOTATION_KEY].input_qspec_map.pop(node, None)
        pending += [(other, is_before) for other in (node.all_input_nodes if is_before else node.users)]


def _is_layer_of_our_own(node: Node) -> bool:
    if norm_of(node) is None and not is_prelu(node) and node.target not in RECURRENT:
        return False
    # Skips the normalized tensor, or input and initial states.
    first = 1 if node.target not in RECURRENT else len(RECURRENT) + 1 - RECURRENT.index(node.target)
    given = [operand for operand in node.args[first:] if isinstance(operand, Node)]
    return _is_float(node.args[0]) and all(map(_is_parameter, given))


class _Functions(Quantizer):
    """Annotates functions next to int8 operators, after these are annotated.

    Args:
      has_float_border: whether the model takes and returns floating point; otherwise functions next to its inputs and
        outputs are int8, too.
    """

    def __init__(self, groups: _Whole, has_float_border: bool) -> None:
        self._groups = groups
        self._has_float_border = has_float_border

    def annotate(self, model: GraphModule) -> GraphModule:
        integers = self._integers(model.graph)
        for function in annotate_functions(self._groups.functions, integers, chosen=self._groups.decided.int8):
            for node in function.nodes:
                _mark_node_as_quantized(node, {}, None, False)
        for node in filter(_is_alone, model.graph.nodes):
            node.meta[Q_ANNOTATION_KEY].input_qspec_map.clear()
            node.meta[Q_ANNOTATION_KEY].output_qspec = None
        if self._has_float_border:
            leave_steps(model.graph, self._groups.steps)
        for node in model.graph.nodes:
            # Several int8 readers would each quantize the input.
            if sum(map(_is_quantized, node.users)) <= 1:
                _leave_input(node)
        self._leave_outputs(model.graph)
        self._leave_state(model.graph)
        for node in self._groups.signals:
            if Q_ANNOTATION_KEY in node.meta:
                node.meta[Q_ANNOTATION_KEY].output_qspec = None
        return model

    def _integers(self, graph: Graph) -> list[Node]:
        """Returns the model's inputs and outputs, without states, if they are integers."""
        if self._has_float_border:
            return []
        inputs = [node for node in graph.nodes if node.op == "placeholder"]
        return [*inputs[len(self._groups.states) :], graph.output_node()]

    def _leave_outputs(self, graph: Graph) -> None:
        """Makes the model return results unquantized that no int8 operator makes, or that are not float32."""
        output = graph.output_node()
        if Q_ANNOTATION_KEY not in output.meta:
            return
        for returned in output.all_input_nodes:
            if not _is_float(returned):
                output.meta[Q_ANNOTATION_KEY].input_qspec_map.pop(returned, None)
            if not self._has_float_border:
                continue
            node = returned
            while _is_view(node) and node.op == "call_function" and Q_ANNOTATION_KEY not in node.meta:
                node = node.all_input_nodes[0]
            if node.op == "call_function" and not _is_quantized(node):
                output.meta[Q_ANNOTATION_KEY].input_qspec_map.pop(returned, None)

    def _leave_state(self, graph: Graph) -> None:
        """Removes the annotations of state inputs and outputs: int8 operators may read them, but they are not
        quantized.
        """
        count, moved = len(self._groups.states), self._groups.moved
        for node in [node for node in graph.nodes if node.op == "placeholder"][:count]:
            if node not in moved:
                node.meta[Q_ANNOTATION_KEY].output_qspec = None
        output = graph.output_node()
        for node in output.args[0][:count]:
            if node not in moved.values():
                output.meta[Q_ANNOTATION_KEY].input_qspec_map.pop(node, None)

    def validate(self, model: GraphModule) -> None:
        """Checks nothing, as in _Whole."""

    def get_quantizer_info(self) -> QuantizerInfo:
        """Describes the quantizer for ExecuTorch's report."""
        return QuantizerInfo("Functions", "elementwise functions of one tensor", "int8", __name__)


def _is_alone(node: Node) -> bool:
    """Whether a sum or a product is between operators in floating point: quantizing it takes longer than itself."""
    if node.target not in (_aten.add.Tensor, _aten.mul.Tensor) or not _is_quantized(node):
        return False
    moved = SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT
    operands = [operand for operand in node.all_input_nodes if not _is_parameter(operand)]
    if any(operand.op != "call_function" or operand.target in moved for operand in operands):
        return False
    return not any(map(_is_quantized, (*operands, *node.users)))


def _is_of_input(view: Node) -> bool:
    while _is_view(view) and len(view.all_input_nodes) == 1:
        (view,) = view.all_input_nodes
    return view.op == "placeholder"


def steps_of_inputs(functions: Iterable[Function]) -> list[Node]:
    """Lists the operators of functions with steps that are computed from the model's inputs."""
    found = [each for each in functions if _is_of_input(each.source) and any(map(has_steps, each.nodes))]
    return [node for function in found for node in function.nodes]


def comparisons_of_inputs(graph: Graph) -> list[Node]:
    """Lists the comparisons of the model's inputs with each other or with constants."""
    compared = [node for node in graph.nodes if node.target in _COMPARISONS]
    return [node for node in compared if all(_is_of_input(of) or _is_parameter(of) for of in node.all_input_nodes)]


def leave_steps(graph: Graph, steps: Collection[Node]) -> None:
    """Makes comparisons and functions with steps read the model's inputs unquantized: rounding could move a value
    across a limit.

    Args:
      steps: operators that compute such functions, and stay in floating point.
    """

    def is_exact(user: Node) -> bool:
        if _is_quantized(user):
            return False
        if _is_view(user):
            return Q_ANNOTATION_KEY in user.meta
        return user.target in _COMPARISONS or user in steps or has_steps(user)

    # In reverse order, because views may be read through other views.
    for node in reversed(graph.nodes):
        if not node.users:
            continue
        if _is_view(node) and Q_ANNOTATION_KEY not in node.meta and _is_of_input(node):
            if all(map(is_exact, node.users)):
                _mark_node_as_quantized(node, {}, None, False)
        elif any(map(is_exact, node.users)):
            _leave_input(node)


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
        while isinstance(source, Node) and _is_view(source) and Q_ANNOTATION_KEY not in source.meta:
            (source, *_) = source.all_input_nodes
        is_float = isinstance(source, Node) and source.op == "call_function" and not _is_quantized(source)
        if is_float and (has_float_border or (index < states and result not in results[states:])):
            annotation.input_qspec_map.pop(result, None)


def _leave_input(node: Node) -> None:
    """Makes operators in floating point read an input of the model unquantized."""
    annotation = node.meta.get(Q_ANNOTATION_KEY) if node.op == "placeholder" else None
    if annotation is None or annotation.output_qspec is None:
        return
    # The remaining views will be int8 like their source.
    if any(_is_view(user) and Q_ANNOTATION_KEY not in user.meta for user in node.users):
        return
    int8 = [user for user in node.users if _is_quantized(user)]
    if len(int8) == len(node.users):
        return
    for user in int8:
        user.meta[Q_ANNOTATION_KEY].input_qspec_map[node] = annotation.output_qspec
    annotation.output_qspec = None


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
        return any(node in integers or _is_quantized(node) for node in _neighbours(function))

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
    return any(map(_is_quantized, function.nodes))


def _neighbours(function: Function) -> Iterator[Node]:
    """Yields the nodes that compute a function's operand and those that read its results, looking through views."""
    pending, seen = [(function.source, True)], set()
    pending += [(user, False) for node in function.results for user in node.users if user not in function.nodes]
    while pending:
        node, is_before = pending.pop()
        if node in seen:
            continue
        seen.add(node)
        if _is_view(node) and node.op == "call_function" and Q_ANNOTATION_KEY not in node.meta:
            others = node.all_input_nodes if is_before else node.users
            pending += [(other, is_before) for other in others]
        else:
            yield node


def _is_quantized(node: Node) -> bool:
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if annotation is None or node.op != "call_function":
        return False
    return annotation.output_qspec is not None or any(spec is not None for spec in annotation.input_qspec_map.values())


@contextlib.contextmanager
def _sizes_of_constants(model: GraphModule) -> Iterator[None]:
    """Makes ExecuTorch's passes treat the sizes of constants as fixed.

    Otherwise they treat these sizes, and all sizes that follow from them, as variable: a network of fifty layers then
    has symbolic sizes whose formulas take minutes to evaluate.
    """
    values = [value for node in model.graph.nodes for value in tree_leaves(node.meta.get("val"))]
    modes = {value.fake_mode for value in values if isinstance(value, FakeTensor)}
    with contextlib.ExitStack() as stack:
        for mode in modes:
            stack.enter_context(replaced(mode, "static_shapes", True))
        yield


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


class Quantizers(CortexMQuantizer):
    """ExecuTorch's quantizer, extended by groups of operators for functions and masked scores.

    Args:
      states: for each state, an input and an output, which come first: whether int8 can hold its first value. Those
        whose elements are only moved become int8 where it can.
      stays: whether a node stays in floating point for other reasons.
      decide: finds the operators that take fewer instructions in floating point; None: everything is int8 that can be.
      has_own_layers: whether layers may become int8 that only operators of our own compute.
      has_float_border: whether the model takes and returns floating point.
      transformed: takes the module that transform_for_annotation() returns, or has it from an earlier quantization.
    """

    def __init__(
        self,
        states: Sequence[bool],
        stays: Callable[[Node], bool],
        decide: Callable[[GraphModule], Decided] | None = None,
        has_own_layers: bool = True,
        has_float_border: bool = True,
        transformed: list[GraphModule] | None = None,
    ) -> None:
        super().__init__()
        self._transformed = [] if transformed is None else transformed
        own = [_OwnLayers(has_float_border)] if has_own_layers else []
        self._has_own_layers = has_own_layers
        per_channel, per_tensor, shared = CortexMQuantizer().quantizers
        self._groups = _Whole(states, stays, decide, has_own_layers, has_float_border)
        self.quantizers: list[Quantizer] = [
            self._groups, per_channel, per_tensor, *own, _Functions(self._groups, has_float_border), shared,
        ]  # fmt: skip

    def annotate(self, model: GraphModule) -> GraphModule:
        """Annotates as ExecuTorch's quantizer does, but limits weights to more than -128."""
        unshare_notes(model.graph)
        annotated = specify(super().annotate(model), evenly_bounded)
        for node in annotated.graph.nodes if self._has_own_layers else ():
            if node.target in SOFTMAX and Q_ANNOTATION_KEY in node.meta:
                mark(node)
        return annotated

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        """Transforms a graph as ExecuTorch's quantizer does, unless that is known from an earlier quantization."""
        if not self._transformed:
            with _sizes_of_constants(model):
                self._transformed.append(super().transform_for_annotation(model))
        return copy.deepcopy(self._transformed[0])

    @property
    def functions(self) -> list[Function]:
        """The functions of the annotated graph."""
        return self._groups.functions

    @property
    def softmaxes(self) -> list[list[Node]]:
        """Softmax operators of the annotated graph, each after the operators that are computed with it."""
        return self._groups.softmaxes

    @property
    def moved(self) -> dict[Node, Node]:
        """The states of the annotated graph that are int8, with their new values."""
        return self._groups.moved

    @property
    def cheaper(self) -> frozenset[Node]:
        """Operators of the annotated graph that stay in floating point to take fewer instructions."""
        return self._groups.decided.floating
