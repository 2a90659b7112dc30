"""Annotates what becomes int8 for Cortex-M.

ExecuTorch's quantizer is extended by functions, masked scores and layers that have operators of our own.
"""

import copy
import itertools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import SharedQspecQuantizer, _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.backends.cortex_m.quantizer.quantization_configs import INT8_ACTIVATION_PER_TENSOR_QSPEC
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from executorch.backends.cortex_m.quantizer_reporter import QuantizerInfo
from torch.fx import Graph, GraphModule, Node
from torchao.quantization.pt2e.quantizer import Quantizer
from torchao.quantization.pt2e.quantizer.quantizer import Q_ANNOTATION_KEY

from tools.pipeline.export.backends.cortex_m.norms import norm_of
from tools.pipeline.export.backends.cortex_m.own_layers import mark
from tools.pipeline.export.backends.cortex_m.prelu import is_prelu
from tools.pipeline.export.ir.operators import SOFTMAX
from tools.pipeline.export.ir.rewriting import adds_to_elements, unshare_notes
from tools.pipeline.export.quantize.activation_tables import (
    Function,
    annotate_functions,
    find_functions,
    steps_of_inputs,
)
from tools.pipeline.export.quantize.annotations import (
    evenly_bounded,
    find_signals,
    find_state,
    leave_input,
    leave_steps,
    moved_states,
    specify,
)
from tools.pipeline.export.quantize.masked_scores import EXCLUDED, annotate_softmax, find_masked_scores, find_scores
from tools.pipeline.export.quantize.nodes import (
    COMPARISONS,
    becomes_int8,
    has_computed_weights,
    is_float,
    is_parameter,
    is_view,
    with_defaults,
)
from tools.pipeline.export.rewrite.no_ops import has_no_elements
from tools.pipeline.export.rewrite.own_operators import RECURRENT
from tools.pipeline.export.upstream.retracing import sizes_of_constants

_aten = torch.ops.aten


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
        softmaxes = find_scores(model) if self._has_own_layers else {}
        together = {node for softmax, each in softmaxes.items() for node in (*each.between, softmax)}
        scores = [node for node in find_masked_scores(model) if node not in together]
        if self._decide is not None:
            self.decided = self._decide(model)
        self.moved = {
            before: after
            for before, after in moved_states(model.graph, self.states).items()
            if before not in self.decided.floating
        }
        scores += find_state(model.graph, len(self.states), self.moved.values())
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
                annotate_softmax(softmax, each)
            elif each.mask is not None:
                scores += group
        self.functions = find_functions(model.graph)
        if self._has_float_border:
            self.steps = steps_of_inputs(self.functions)
            scores += self.steps
        for node in scores:
            _mark_node_as_quantized(node, {}, None, False)
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        self.signals = find_signals(model.graph, set(scores))
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
    return is_float(node) and all(isinstance(operand, Node) and _is_int8(operand, node) for operand in node.args)


def _is_int8(node: Node, reader: Node) -> bool:
    """Whether a tensor is int8 whatever a reader of it is; inputs and states may yet stay in floating point."""
    annotation = node.meta.get(Q_ANNOTATION_KEY)
    if node.op != "placeholder" and annotation is not None and annotation.output_qspec is not None:
        return True
    others = [user.meta.get(Q_ANNOTATION_KEY) for user in node.users if user is not reader]
    if any(other is not None and other.input_qspec_map.get(node) is not None for other in others):
        return True
    moves = is_view(node) or node.target == operator.getitem
    return moves and all(_is_int8(source, node) for source in node.all_input_nodes)


def _leave_states(layer: Node) -> None:
    """Leaves a recurrent layer's states in floating point, back to the model's inputs and forward to its outputs."""
    pending = [(state, True) for state in layer.all_input_nodes[1:]]
    pending += [(user, False) for user in layer.users if user.args[1] != 0]
    seen = {layer}
    while pending:
        node, is_before = pending.pop()
        if node in seen or not (is_view(node) or node.target == operator.getitem or node.op == "placeholder"):
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
    return is_float(node.args[0]) and all(map(is_parameter, given))


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
            if sum(map(becomes_int8, node.users)) <= 1:
                leave_input(node)
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
            if not is_float(returned):
                output.meta[Q_ANNOTATION_KEY].input_qspec_map.pop(returned, None)
            if not self._has_float_border:
                continue
            node = returned
            while is_view(node) and node.op == "call_function" and Q_ANNOTATION_KEY not in node.meta:
                node = node.all_input_nodes[0]
            if node.op == "call_function" and not becomes_int8(node):
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
    if node.target not in (_aten.add.Tensor, _aten.mul.Tensor) or not becomes_int8(node):
        return False
    moved = SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT
    operands = [operand for operand in node.all_input_nodes if not is_parameter(operand)]
    if any(operand.op != "call_function" or operand.target in moved for operand in operands):
        return False
    return not any(map(becomes_int8, (*operands, *node.users)))


def _compares_number(node: Node) -> bool:
    return node.target in COMPARISONS and not isinstance(node.args[1], Node)


def _is_of_integers(node: Node) -> bool:
    """Whether an operator computes integers or booleans from such tensors alone."""
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
    is_of_tensors = node.op == "call_function" and len(values) > 1
    return is_of_tensors and all(isinstance(each, torch.Tensor) and not each.is_floating_point() for each in values)


def _has_no_range(node: Node) -> bool:
    """Whether a tensor is of another format than float32, or has no elements: what shares its scale would lose its."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return False
    return value.dtype != torch.float32 or has_no_elements(node)


def _has_no_kernel(node: Node) -> bool:
    """Whether no int8 kernel supports a node.

    These are nodes of other dtypes than float32, layers with computed weights, poolings that are dilated, whose windows
    exceed the image or whose indices are read, paddings of more than four dimensions or with a number below any
    image's, and assignments that add.
    """
    if node.op == "call_function" and any(map(_has_no_range, (node, *node.all_input_nodes))):
        return True
    # Passes would take such a layer for an int8 layer if its weights were quantized.
    if has_computed_weights(node) or any(has_computed_weights(user) and user.args[1] is node for user in node.users):
        return True
    if adds_to_elements(node):
        return True
    if node.target == _aten.constant_pad_nd.default:
        return node.meta["val"].dim() > 4 or with_defaults(node, 2, (0.0,))[0] < EXCLUDED
    if node.target == _aten.avg_pool2d.default:
        ceil_mode, _, divisor = with_defaults(node, 4, (False, True, None))
        return bool(ceil_mode) or divisor is not None
    if node.target == _aten.max_pool2d_with_indices.default:
        return any(user.args[1] for user in node.users)
    if node.target == _aten.max_pool2d.default:
        dilation, ceil_mode = with_defaults(node, 4, (1, False))
        return bool(ceil_mode) or dilation not in (1, [1], [1, 1])
    return False


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
            with sizes_of_constants(model):
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
