"""Quantizes a captured model with ExecuTorch's Cortex-M quantizer: int8 activations, per-channel int8 weights.

It follows PyTorch 2 export quantization: observers go into the captured graph, the calibration inputs run through it,
and the observed ranges become scales and zero points of quantize and dequantize operators.
"""

import copy
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import PatternQuantizer, SharedQspecQuantizer
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tools.pipeline.export.backends.cortex_m.int4 import WeightDtypes, has_room_for_bias, quantize_weights
from tools.pipeline.export.backends.cortex_m.recurrent import round_weights
from tools.pipeline.export.backends.cortex_m.softmax import has_table
from tools.pipeline.export.capture.diagnosis import is_slow
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE, SOFTMAX
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.quantize.activation_tables import is_int8
from tools.pipeline.export.quantize.biases import correct_biases
from tools.pipeline.export.quantize.calibration import calibrate, measured_of, without_observers
from tools.pipeline.export.quantize.equalize import equalize
from tools.pipeline.export.quantize.float_choice import Choice
from tools.pipeline.export.quantize.in_float import InFloat, NoInt8Form
from tools.pipeline.export.quantize.observers import prepare_pt2e
from tools.pipeline.export.quantize.quantizer import Decided, Quantizers
from tools.pipeline.export.quantize.ranges import Methods, RangeQuantizers, prepare_observers
from tools.pipeline.export.quantize.repeated_layers import share_ranges
from tools.pipeline.export.rewrite.numbers import is_of_numbers
from tools.pipeline.export.upstream.retracing import known_results_of

_NAMESPACE = "quantized_decomposed"
# The names of operators that compute with scales begin with these.
_QUANTIZED = ("cortex_m::", f"{_NAMESPACE}::", "torch_fusion::quantized_")

_NO_STATE = State({})
_INT8_WEIGHTS = WeightDtypes()
_RANGES = Methods()

# The resolution of an int8 softmax, and the lowest acceptable signal-to-noise ratio of its results.
_SOFTMAX_STEP = 1 / 256
_SOFTMAX_DECIBELS = 15
_COARSE = "the resolution of an int8 softmax, 1/256, is too coarse for its results"
# The smallest scale of a dialect's softmax: 31 * 2^-shift of its multiplier of 2^26 must fit into 64 bits.
_SOFTMAX_SCALE = 2**-50
_FINE = "its operands differ too little for the factors of an int8 softmax"


def is_quantized(program: ExportedProgram | GraphModule) -> bool:
    """Whether the program already has quantize and dequantize operators, because its author converted the model."""
    return any(getattr(node.target, "namespace", "") == _NAMESPACE for node in program.graph.nodes)


@dataclass(frozen=True)
class Quantized:
    """A quantized module and information about its quantization.

    Attributes:
      module: with quantize and dequantize operators around every layer.
      observed: floating-point results of the layers, by the names of nodes of `module`, for each of the first
        calibration samples; empty if the model's author quantized it.
      samples: these samples.
      rejections: the reasons why the quantizer skipped nodes, by their names.
      cheaper: locations that stay in floating point because they take fewer instructions there, as origin() returns
        them.
      floating: the module in floating point; None if the model's author quantized it.
      instructions: the estimated instructions of an inference, and those without int8; None if operators were not
        selected by cost.
      equalized: locations between convolutions whose channels were equalized.
      constant: tensors that had a single value in calibration, and the value.
      accurate: locations that stay in floating point because they cost most accuracy.
      measured: inputs on which the outputs are compared; with state, a stream from its start.
      start: the state before the first sample of a stream, which the first inputs read and the first outputs update.
      is_limited: whether passes have limited masked scores to the range of the calibration samples.
    """

    module: GraphModule
    observed: list[dict[str, torch.Tensor]]
    samples: list[Sample]
    rejections: dict[str, str]
    cheaper: frozenset[str] = frozenset()
    floating: GraphModule | None = None
    instructions: tuple[float, float] | None = None
    equalized: tuple[str, ...] = ()
    constant: tuple[str, ...] = ()
    accurate: frozenset[str] = frozenset()
    measured: Sequence[Sample] = ()
    start: Sample = ()
    is_limited: bool = False

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons why locations with an int8 form stay in floating point."""
        return {**dict.fromkeys(self.accurate, "for accuracy"), **dict.fromkeys(self.cheaper, "for fewer instructions")}


# Finds the operators of an annotated graph that stay in floating point because they take fewer instructions there. It
# also takes the groups of operators that are computed as one in int8, and the states that can be int8 with their new
# values.
Choose = Callable[[GraphModule, list[list[Node]], dict[Node, Node]], Choice]


def quantize(
    program: ExportedProgram,
    samples: Iterable[Sample],
    in_float: InFloat,
    state: State = _NO_STATE,
    choose: Choose | None = None,
    has_own_layers: bool = True,
    has_float_border: bool = True,
    weights: WeightDtypes = _INT8_WEIGHTS,
    ranges: Methods = _RANGES,
    transformed: list[GraphModule] | None = None,
) -> Quantized:
    """Calibrates and quantizes a captured program after the passes of CORTEX_M.

    Args:
      samples: calibration inputs.
      in_float: what stays in floating point.
      state: the state, which the program's first inputs read and its first outputs update, from one sample to the next.
      choose: None: no operator stays in floating point for fewer instructions.
      has_own_layers: whether normalization and recurrent layers become int8, which only operators of our own compute.
      has_float_border: whether the program takes and returns floating point.
      weights: determines the layers with int4 weights.
      ranges: how the ranges of tensors are chosen.
      transformed: takes the module as transform_for_annotation() returns it, or has it from an earlier call for the
        same program and samples.

    Raises UserError for values that calibration can't handle, by layer, and NoInt8Form for locations whose results
    would hardly survive int8.
    """
    path, samples = in_float.path, list(samples)
    module = program.module(check_guards=False)
    is_left = in_float.stays(module)

    def stays(node: Node) -> bool:
        return is_left(node) or _gains_nothing(node, has_float_border)

    states = [bool(torch.isfinite(value).all()) for value in state.buffers.values()]
    trial = None
    if choose is not None:
        everything = Quantizers(states, stays, None, has_own_layers, has_float_border)
        trial = _Trial(choose, everything, has_float_border)
    quantizer = RangeQuantizers(states, stays, trial, has_own_layers, has_float_border, transformed)
    start = channels_last(state.start())
    equalized = equalize(module, ((*start, *sample) for sample in samples))
    with known_results_of(program):
        prepared = prepare_pt2e(module, quantizer)
    cheaper = frozenset(origin(node, path) for node in quantizer.cheaper)
    prepare_observers(prepared, ranges)
    observed, kept, constant = calibrate(prepared, samples, path, state)
    share_ranges(prepared)
    floating = without_observers(prepared)
    converted = convert_pt2e(prepared)
    round_weights(converted)
    _drop_second_quantization(converted)
    if weights.has_int4:
        layers = {node: origin(node, path) for node in converted.graph.nodes}
        quantize_weights(converted, floating, weights, layers, observed, kept)
    correct_biases(converted, observed, kept, has_room_for_bias)
    lost = _lost_softmaxes(converted, observed)
    # A reader in floating point gets an unquantized softmax.
    in_int8 = {
        origin(node, path): reason
        for node, reason in lost.items()
        if not stays(node) and any(user.target is QUANTIZE for user in node.users)
    }
    if in_int8:
        raise NoInt8Form(in_int8, next(iter(in_int8.values())))
    return Quantized(
        converted,
        observed,
        kept,
        _rejections(quantizer) | {node.name: reason for node, reason in lost.items()},
        cheaper,
        floating,
        None if trial is None else trial.instructions,
        tuple(dict.fromkeys(origin(node, path) for node in equalized)),
        constant,
        measured=measured_of(samples, state),
        start=start,
    )


@dataclass
class _Trial:
    """Decides what stays in floating point for fewer instructions, from a copy with everything in int8 that can be.

    Attributes:
      quantizer: annotates the copy.
      has_float_border: whether the program takes and returns floating point; nothing stays if it does not.
      instructions: Quantized.instructions, once it has decided.
    """

    choose: Choose
    quantizer: Quantizers
    has_float_border: bool
    instructions: tuple[float, float] | None = None

    def __call__(self, module: GraphModule) -> Decided:
        tried, quantizer = copy.deepcopy(module), self.quantizer
        quantizer.annotate(tried)
        groups = [*(function.nodes for function in quantizer.functions), *quantizer.softmaxes]
        choice = self.choose(tried, groups, quantizer.moved)
        self.instructions = choice.instructions, choice.all_floating
        if not self.has_float_border:
            return Decided()
        tables = {node for each in quantizer.functions if is_int8(each) for node in each.nodes}
        pairs = list(zip(module.graph.nodes, tried.graph.nodes, strict=True))
        return Decided(
            frozenset(node for node, copied in pairs if copied in choice.cheaper),
            frozenset(node for node, copied in pairs if copied in tables - choice.cheaper),
        )


def _gains_nothing(node: Node, has_float_border: bool) -> bool:
    """Whether int8 would not help an operator, or lose its values."""
    # Quantizing a single number saves nothing.
    if has_float_border and is_of_numbers(node):
        return True
    return is_slow(node) or _promotes(node)


def _promotes(node: Node) -> bool:
    """Whether a call computes in floating point from an operand of integers or booleans beside floating-point ones.
    Such an operand has no scale; positions, for example, would lose their offsets in one.
    """
    if not (rewriting.is_elementwise(node.target) or node.target == torch.ops.aten.cat.default):
        return False
    masks = [rewriting.named_arguments(node).get(name) for name in ("condition", "mask")]
    values = [each.meta.get("val") for each in (node, *node.all_input_nodes) if each not in masks]
    dtypes = [value.dtype for value in values if isinstance(value, torch.Tensor)]
    return bool(dtypes) and dtypes[0].is_floating_point and not all(dtype.is_floating_point for dtype in dtypes)


def _rejections(quantizer: CortexMQuantizer) -> dict[str, str]:
    reporter = next(part.reporter for part in quantizer.quantizers if isinstance(part, PatternQuantizer))
    return {
        name: rejected.rejection_reason
        for report in reporter.quantizers.values()
        for rejected in report.rejected_patterns
        if rejected.rejection_reason != report._PREVIOUS_ANNOTATION_REJECT_REASON
        for name in rejected.node_names
    }


def _lost_softmaxes(converted: GraphModule, observed: list[dict[str, torch.Tensor]]) -> dict[Node, str]:
    """Returns the softmax operators that int8 can't compute, with the reasons.

    The results of a softmax over many similar numbers are mostly lost, and the dialect's operator has no multiplier for
    numbers as close together as those of an untrained network.
    """
    found = {}
    for node in converted.graph.nodes:
        if node.target not in SOFTMAX:
            continue
        operand = node.args[0]
        if operand.target is DEQUANTIZE and operand.args[1] < _SOFTMAX_SCALE and not has_table(node):
            found[node] = _FINE
        if observed and node.name in observed[0]:
            results = torch.stack([values[node.name] for values in observed]).double()
            noise = (results / _SOFTMAX_STEP).round() * _SOFTMAX_STEP - results
            if noise.square().sum() > 10 ** (-_SOFTMAX_DECIBELS / 10) * results.square().sum():
                found[node] = _COARSE
    return found


def _drop_second_quantization(module: GraphModule) -> None:
    """Keeps the parameters of tensors that already have some, such as a softmax, whose operator fixes them.

    Operators whose operands share their parameters are excluded.
    """
    for node in list(module.graph.nodes):
        if node.target != DEQUANTIZE or not isinstance(node.args[0], Node) or node.args[0].target != QUANTIZE:
            continue
        first = node.args[0].args[0]
        if not isinstance(first, Node) or first.target != DEQUANTIZE or first.args[0].target != QUANTIZE:
            continue
        for user in list(node.users):
            if user.target not in SharedQspecQuantizer.SHARED_QSPEC_OPS_DEFAULT:
                user.replace_input_with(node, first)
    module.graph.eliminate_dead_code()
    module.recompile()


def unquantized(program: ExportedProgram, path: Path) -> list[tuple[str, str]]:
    """Lists the operators of a lowered program that stayed in floating point, as (operator, location in the model).

    Args:
      program: an edge program after Cortex-M lowering.
    """
    found = []
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        name = node.target._schema.name
        if name.startswith(_QUANTIZED):
            continue
        values = itertools.chain([node], node.all_input_nodes)
        if any(_is_float(value.meta.get("val")) for value in values):
            found.append((name, origin(node, path)))
    return found


# Operators whose result on quantized integers differs from that on the numbers that these represent.
_ARITHMETIC = frozenset((
    "add", "sub", "mul", "div", "neg", "relu", "hardtanh", "hardsigmoid", "hardswish", "sigmoid", "tanh",
    "silu", "gelu", "_softmax", "linear", "addmm", "mm", "bmm", "convolution", "mean", "sum", "avg_pool2d",
))  # fmt: skip


def check_integers(program: ExportedProgram, path: Path) -> None:
    """Raises NoInt8Form for operators of a lowered program that compute with int8 integers as if they were numbers.

    Also checks for values that a device refuses: zero points beyond the integers, and multipliers too far from 1.
    """
    places = {}
    # Tensors that the model itself has in int8 are numbers, and none of them.
    quantized: set[Node] = set()
    for node in program.graph.nodes:
        if _is_int8(node.meta.get("val")) and (_has_scales(node) or not quantized.isdisjoint(node.all_input_nodes)):
            quantized.add(node)
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        namespace, name = node.target._schema.name.split("::")
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        if namespace == "aten" and name in _ARITHMETIC and not quantized.isdisjoint(node.all_input_nodes):
            places[origin(node, path)] = f"is quantized, but aten::{name} has no int8 form there"
        elif namespace == "cortex_m" and name != "quantize_per_tensor" and any(map(_is_float, values)):
            # The operators that wrote integers into a floating-point tensor stay in floating point with it.
            for place in (node, *node.all_input_nodes):
                if place.op == "call_function":
                    places[origin(place, path)] = f"is int8, but cortex_m::{name} reads numbers there"
        elif name in ("quantize_per_tensor", "dequantize_per_tensor"):
            zero_point, low, high = node.args[2:5]
            if not low <= zero_point <= high:
                places[origin(node, path)] = f"has the zero point {zero_point}, which is none of its integers"
        elif namespace == "cortex_m" and not all(_LEAST_SHIFT <= shift <= _MOST_SHIFT for shift in _shifts(node)):
            places[origin(node, path)] = "has numbers that are too far from 1 for the factors of int8"
    if places:
        place, reason = next(iter(places.items()))
        raise NoInt8Form(places, f"{place} {reason}")


# The limits of multiplier exponents: kMinShift and kMaxShift of kernels/cortex_m/requantize.h.
_LEAST_SHIFT, _MOST_SHIFT = -62, 31


def _shifts(node: Node) -> list[int]:
    """Returns the shifts of the multipliers of a `cortex_m::` operator that are numbers."""
    given = zip(node.target._schema.arguments, node.args, strict=False)
    shifts = [value for argument, value in given if "shift" in argument.name]
    return [
        shift
        for value in shifts
        for shift in (value if isinstance(value, (list, tuple)) else [value])
        if isinstance(shift, int)
    ]


def _has_scales(node: Node) -> bool:
    """Whether a quantizer gave an operator scales, or a pass made one with scales of it."""
    is_quantized = hasattr(node.target, "_schema") and node.target._schema.name.startswith(_QUANTIZED)
    return is_quantized or bool(node.meta.get("input_qparams") or node.meta.get("output_qparams"))


def _is_int8(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.int8


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
