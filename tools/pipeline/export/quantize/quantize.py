"""Quantizes a captured model with ExecuTorch's Cortex-M quantizer: int8 activations, per-channel int8 weights.

It follows PyTorch 2 export quantization: observers go into the captured graph, the calibration inputs run through it,
and the observed ranges become scales and zero points of quantize and dequantize operators.
"""

import contextlib
import copy
import itertools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.backends.arm.quantizer.arm_quantizer_utils import PatternQuantizer, SharedQspecQuantizer
from executorch.backends.cortex_m.quantizer.quantizer import CortexMQuantizer
from torch.export import ExportedProgram
from torch.fx import GraphModule, Interpreter, Node
from torchao.quantization.pt2e import ObserverBase
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e

from tools.pipeline.export.backends.cortex_m.int4 import WeightDtypes, has_room_for_bias, quantize_weights
from tools.pipeline.export.backends.cortex_m.recurrent import round_weights
from tools.pipeline.export.backends.cortex_m.softmax import has_table
from tools.pipeline.export.capture.diagnosis import SLOW
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.operators import DEQUANTIZE, FILLS, FILLS_WITH, QUANTIZE, SOFTMAX
from tools.pipeline.export.plan.manifest import origin
from tools.pipeline.export.quantize import activation_tables
from tools.pipeline.export.quantize.biases import correct_biases
from tools.pipeline.export.quantize.costs import Choice
from tools.pipeline.export.quantize.equalize import equalize
from tools.pipeline.export.quantize.observers import prepare_pt2e
from tools.pipeline.export.quantize.ranges import Methods, RangeObserver, RangeQuantizers, prepare_observers
from tools.pipeline.export.quantize.repeated_layers import share_ranges
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.numbers import is_of_numbers
from tools.pipeline.export.rewrite.spectra.spectra import SPECTRA
from tools.pipeline.export.rewrite.views import reshape_views
from tools.pipeline.export.upstream.retracing import known_results_of
from tools.pipeline.model_file.call import CALLED
from tools.pipeline.model_file.deterministic import computing
from tools.pipeline.model_file.model_file import ModelFile, brief
from tools.quiet.console import Console, UserError

Sample = tuple[torch.Tensor, ...]

_NAMESPACE = "quantized_decomposed"

_NO_STATE = State({})
_INT8_WEIGHTS = WeightDtypes()
_RANGES = Methods()

# Represents all locations except layers with weights and the activations that are fused into them.
ALL_BUT_LAYERS = "*"

# The number of calibration samples on which the report compares layers with floating point.
_REPORTED_SAMPLES = 8
# The number of calibration samples of a stream, from the first one on, on which outputs are measured.
_MOST_STEPS = 512

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


def channels_last(sample: Sample) -> Sample:
    """Returns the sample with images (tensors of 4 dimensions) in channels-last order, as the int8 kernels read them.
    """
    return tuple(_image_last(tensor) if tensor.dim() == 4 else tensor.contiguous() for tensor in sample)


def _image_last(image: torch.Tensor) -> torch.Tensor:
    # Images of one channel or pixel have both orders. PyTorch's operators follow their strides, which contiguous()
    # doesn't change.
    if image.shape[1] > 1 and image.shape[2:].numel() > 1:
        return image.contiguous(memory_format=torch.channels_last)
    return torch.empty_like(image, memory_format=torch.channels_last).copy_(image)


def lay_out_channels_last(captured: ExportedProgram) -> ExportedProgram:
    """Makes a program take its images channels-last, in place.

    Views that a model's author wrote for the default order of dimensions become reshapes, which copy if necessary.
    """
    # A view that the program writes to must stay a view until the write is functionalized. Batch normalization is
    # folded first, because run_decompositions() would decompose it, too.
    if any(getattr(getattr(node.target, "_schema", None), "is_mutable", False) for node in captured.graph.nodes):
        captured = rewriting.run_decompositions(fold_batch_norm(captured), {})
    user_inputs = set(captured.graph_signature.user_inputs)
    for node in captured.graph.nodes:
        if node.op == "placeholder" and node.name in user_inputs:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.dim() == 4:
                node.meta["val"] = torch.empty_like(value, memory_format=torch.channels_last)
    reshape_views(captured)
    return captured


def calibration_samples(file: ModelFile, inputs: Sample, console: Console) -> list[Sample]:
    """Returns the model file's calibration_inputs(), or its example inputs, with a note, if it has none."""
    if file.has("calibration_inputs"):
        return [channels_last(sample) for sample in file.calibration_inputs()]
    console.say(
        f"export: note: {file.path} has no calibration_inputs(): the ranges of int8 tensors come from example_inputs() "
        "alone, which makes a less accurate model unless they cover what the device will see."
    )
    return [inputs]


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

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons why locations with an int8 form stay in floating point."""
        return {**dict.fromkeys(self.accurate, "for accuracy"), **dict.fromkeys(self.cheaper, "for fewer instructions")}


class NoInt8Form(Exception):
    """Some locations of a model cannot be int8.

    Attributes:
      places: source locations, as origin() returns them, or ALL_BUT_LAYERS.
    """

    def __init__(self, places: Iterable[str], reason: str) -> None:
        super().__init__(reason)
        self.places = frozenset(places)


class PassError(NoInt8Form):
    """A pass of ExecuTorch failed at a location of the model, or at an unknown one: ALL_BUT_LAYERS."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__([place], reason)


class NotFinite(NoInt8Form):
    """Operators make or take NaN or infinity, for which integers have no values, on the way to finite outputs."""


def quantize(
    program: ExportedProgram,
    samples: Iterable[Sample],
    path: Path,
    state: State = _NO_STATE,
    in_float: frozenset[str] = frozenset(),
    choose: Callable[[GraphModule, list[list[Node]], dict[Node, Node]], Choice] | None = None,
    kept_layers: Collection[str] = (),
    has_own_layers: bool = True,
    has_float_border: bool = True,
    weights: WeightDtypes = _INT8_WEIGHTS,
    ranges: Methods = _RANGES,
    front: frozenset[str] = frozenset(),
    transformed: list[GraphModule] | None = None,
) -> Quantized:
    """Calibrates and quantizes a captured program after the passes of CORTEX_M.

    Args:
      samples: calibration inputs.
      path: the model file, for messages.
      state: the state, which the program's first inputs read and its first outputs update, from one sample to the next.
      in_float: locations that stay in floating point, as origin() returns them, or ALL_BUT_LAYERS.
      choose: finds the operators of an annotated graph that stay in floating point because they take fewer instructions
        there; it also takes the groups of operators that are computed as one in int8, and the states that can be int8
        with their new values. None: no operator stays.
      kept_layers: names of modules that stay in floating point, including all modules inside.
      has_own_layers: whether normalization and recurrent layers become int8, which only operators of our own compute.
      has_float_border: whether the program takes and returns floating point.
      weights: determines the layers with int4 weights.
      ranges: how the ranges of tensors are chosen.
      front: locations that compute spectra, as front_end() returns them: they stay in floating point, but for operators
        behind the first layers.
      transformed: takes the module as transform_for_annotation() returns it, or has it from an earlier call for the
        same program and samples.

    Raises UserError for values that calibration can't handle, by layer, and NoInt8Form for locations whose results
    would hardly survive int8.
    """

    def stays(node: Node) -> bool:
        if _is_within(node, kept_layers):
            return True
        # Quantizing a single number saves nothing.
        if has_float_border and is_of_numbers(node):
            return True
        values = [each.meta.get("val") for each in (node, *node.all_input_nodes)]
        if any(isinstance(value, torch.Tensor) and value.dtype in SLOW for value in values) or _promotes(node):
            return True
        place = origin(node, path)
        if place in front and node.name not in behind:
            return True
        return place in in_float or (ALL_BUT_LAYERS in in_float and not activation_tables.is_layer(node))

    states = [bool(torch.isfinite(value).all()) for value in state.buffers.values()]
    instructions: tuple[float, float] | None = None

    def decide(module: GraphModule) -> activation_tables.Decided:
        nonlocal instructions
        assert choose is not None
        # The trial annotates everything that can be int8.
        trial = copy.deepcopy(module)
        annotator = activation_tables.Quantizers(states, stays, None, has_own_layers, has_float_border)
        annotator.annotate(trial)
        groups = [*(function.nodes for function in annotator.functions), *annotator.softmaxes]
        choice = choose(trial, groups, annotator.moved)
        instructions = choice.instructions, choice.all_floating
        if not has_float_border:
            return activation_tables.Decided()
        tables = {node for each in annotator.functions if activation_tables.is_int8(each) for node in each.nodes}
        pairs = list(zip(module.graph.nodes, trial.graph.nodes, strict=True))
        return activation_tables.Decided(
            frozenset(node for node, tried in pairs if tried in choice.cheaper),
            frozenset(node for node, tried in pairs if tried in tables - choice.cheaper),
        )

    decider = None if choose is None else decide
    quantizer = RangeQuantizers(states, stays, decider, has_own_layers, has_float_border, transformed)
    module, samples = program.module(check_guards=False), list(samples)
    behind = behind_layers(module)
    start = channels_last(state.start())
    equalized = equalize(module, ((*start, *sample) for sample in samples))
    with known_results_of(program):
        prepared = prepare_pt2e(module, quantizer)
    places = frozenset(origin(node, path) for node in quantizer.cheaper)
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
    rejections = _rejections(quantizer) | {node.name: reason for node, reason in lost.items()}
    equalized_places = tuple(dict.fromkeys(origin(node, path) for node in equalized))
    return Quantized(
        converted,
        observed,
        kept,
        rejections,
        places,
        floating,
        instructions,
        equalized_places,
        constant,
        measured=measured_of(samples, state),
        start=start,
    )


def measured_of(samples: list[Sample], state: State) -> list[Sample]:
    """Returns the calibration samples on which outputs are compared."""
    return samples[:_MOST_STEPS] if state.buffers else [samples[index] for index in _spread(len(samples))]


def _spread(count: int) -> list[int]:
    """Returns a few indices that are evenly spread over `count` samples."""
    few = min(count, _REPORTED_SAMPLES)
    return [index * count // few for index in range(few)]


def behind_layers(module: GraphModule) -> set[str]:
    """Returns the names of the layers with parameters that depend on a spectrum, and of all operators that depend on
    these, but for those that other spectra depend on.
    """

    parameters = dict(module.named_parameters())

    def is_layer(node: Node) -> bool:
        weight = node.args[1] if activation_tables.is_product(node) else None
        return isinstance(weight, Node) and weight.op == "get_attr" and weight.target in parameters

    of_spectra: set[Node] = set()
    behind: set[Node] = set()
    before: set[Node] = set()
    for node in module.graph.nodes:
        operands = node.all_input_nodes
        if not of_spectra.isdisjoint(operands) or node.target in SPECTRA:
            of_spectra.add(node)
            if is_layer(node) or not behind.isdisjoint(operands):
                behind.add(node)
    for node in reversed(module.graph.nodes):
        if node.target in SPECTRA or node in before:
            before.update(node.all_input_nodes)
    return {node.name for node in behind - before}


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


def _is_within(node: Node, layers: Collection[str]) -> bool:
    """Whether an operator belongs to one of these modules."""
    stack = node.meta.get("nn_module_stack", {}).values()
    return any(module.removeprefix(f"{CALLED}.") in layers for module, _ in stack)


@contextlib.contextmanager
def running_sample(path: Path, index: int, is_stream: bool) -> Iterator[None]:
    """Raises UserError if the model, run on a calibration sample, uses an index that a tensor doesn't have.

    Args:
      path: the model file, for messages.
      is_stream: whether the sample starts from the state that the previous one left.
    """
    try:
        yield
    except (IndexError, RuntimeError) as error:
        # Some operators of PyTorch, such as scatter, raise a RuntimeError for such an index.
        if not isinstance(error, IndexError) and "out of bounds" not in str(error):
            raise
        continued = ", which continues the ones before" if is_stream else ""
        raise UserError(
            f"{path}: the model fails on sample {index} of calibration_inputs(){continued}: {brief(error)}; "
            "give it samples that it takes" + (", or fewer of them." if is_stream else ".")
        ) from error


# Assign to elements whose indices are computed.
_ASSIGNMENTS = frozenset((
    torch.ops.aten.index_copy.default, torch.ops.aten.index_put.default, torch.ops.aten.scatter.src,
))  # fmt: skip


def calibrate(
    prepared: GraphModule, samples: Iterable[Sample], path: Path, state: State = _NO_STATE
) -> tuple[list[dict[str, torch.Tensor]], list[Sample], tuple[str, ...]]:
    """Runs the samples through a module with observers; returns `observed`, `samples` and `constant` of Quantized.

    The samples of a model with state are a stream, of which `observed` and `samples` are evenly spread.

    Args:
      path: the model file, for messages.

    Raises UserError for outputs that are NaN or infinity, by layer, and for inputs without a range; and NotFinite for
    such values that would be quantized within the model.
    """
    observed: list[dict[str, torch.Tensor]] = []
    kept = []
    kept_state = channels_last(state.start())
    samples = list(samples)
    reported = _spread(len(samples)) if kept_state else range(_REPORTED_SAMPLES)
    with computing():
        for index, given in enumerate(samples):
            run = _Calibration(prepared, path, index, index in reported)
            sample = (*kept_state, *given)
            with running_sample(path, index, bool(kept_state)):
                outputs = torch.utils._pytree.tree_leaves(run.run(*sample))
            run.check(outputs[len(kept_state) :])
            kept_state = tuple(value.clone() for value in outputs[: len(kept_state)])
            if index in reported:
                observed.append(run.values)
                kept.append(sample)
        # Only the first samples of the stream fill the first slots of a cache, and any others may do so on a device.
        if kept_state and any(node.target in _ASSIGNMENTS for node in prepared.graph.nodes):
            for given in samples[1:]:
                prepared(*channels_last(state.start()), *given)
    return observed, kept, _constant_tensors(prepared, path, list(state.buffers))


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


def without_observers(prepared: GraphModule) -> GraphModule:
    """Returns the original module of a module with observers, with the same names of nodes and the same weights."""
    graph = copy.deepcopy(prepared.graph)
    for node in list(graph.nodes):
        if node.op == "call_module":
            (observed,) = node.all_input_nodes
            node.replace_all_uses_with(observed)
            graph.erase_node(node)
    return GraphModule(prepared, graph)


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


class _Calibration(Interpreter):
    """Runs one sample.

    Attributes:
      values: the result of each operator, by node name, if the sample is reported.
    """

    def __init__(self, module: GraphModule, path: Path, index: int, is_reported: bool) -> None:
        super().__init__(module)
        # The traceback would be appended to the error's message.
        self.extra_traceback = False
        self._path = path
        self._index = index
        self._is_reported = is_reported
        self._not_finite: list[Node] = []
        self.values: dict[str, torch.Tensor] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.op in ("placeholder", "get_attr", "call_function") and not _is_finite(result):
            self._not_finite.append(n)
        if n.op == "call_function" and isinstance(result, torch.Tensor) and self._is_reported:
            self.values[n.name] = result
        return result

    def check(self, outputs: Sequence[Any]) -> None:
        """Raises UserError unless the outputs are finite, and NotFinite unless all values are that need a range."""
        if not all(map(_is_finite, outputs)):
            makers = (node for node in self._not_finite if node.op == "call_function")
            place = next((f" at {origin(node, self._path)}" for node in makers), "")
            raise UserError(
                f"{self._path}: calibration sample {self._index} makes NaN or infinity{place}, and so are the outputs; "
                "integers have no values for them: mend the layer or the sample."
            )
        places: dict[str, None] = {}
        for node in filter(_is_measured, self._not_finite):
            readers = [user for each in node.users for user in (each.users if each.op == "call_module" else [each])]
            for each in (node, *readers):
                if each.op == "call_function":
                    places[origin(each, self._path)] = None
        if places:
            raise NotFinite(places, f"{next(iter(places))} makes NaN or infinity, for which integers have no values")


def _is_measured(node: Node) -> bool:
    """Whether a node's result must have a range: calibration observes it, or it is an int8 product."""
    is_int8 = activation_tables.is_product(node) and node.args[1].op == "call_module"
    return is_int8 or any(user.op == "call_module" for user in node.users)


def _is_finite(value: Any) -> bool:
    is_float = isinstance(value, torch.Tensor) and value.is_floating_point()
    return not is_float or bool(torch.isfinite(value).all())


def _is_zero(prepared: GraphModule, node: Node) -> bool:
    """Whether an observer has only seen zeros."""
    observer = prepared.get_submodule(str(node.target)) if node.op == "call_module" else None
    seen = [getattr(observer, name, None) for name in ("min_val", "max_val")]
    return all(value is not None and value.numel() > 0 and not value.any() for value in seen)


def _constant_tensors(prepared: GraphModule, path: Path, states: list[str]) -> tuple[str, ...]:
    """Lists the tensors that depend on an input but had a single value in all of calibration, with that value.

    Args:
      states: the names of the states, which are the first inputs.

    Raises UserError if an input or a state is one of them.
    """
    dependent: set[Node] = set()
    inputs, places = [], []
    taken = [node for node in prepared.graph.nodes if node.op == "placeholder"]
    # Inputs behind states have lost their names.
    others = (f"input {index if states else node.name}" for index, node in enumerate(taken[len(states) :]))
    names = dict(zip(taken, (*(f"buffer {name}" for name in states), *others), strict=True))
    for node in prepared.graph.nodes:
        if node.op == "placeholder" or not dependent.isdisjoint(node.all_input_nodes):
            # These only use an operand's shape, or multiply it by zero: a recurrent layer's initial state is zero, and
            # so are the last weights of residual branches when training begins.
            times_zero = (node.target == torch.ops.aten.mul.Tensor or activation_tables.is_product(node)) and any(
                operand not in dependent and _is_zero(prepared, operand) for operand in node.all_input_nodes
            )
            dependent |= set() if node.target in FILLS or node.target in FILLS_WITH or times_zero else {node}
        if node.op != "call_module" or node not in dependent:
            continue
        observer = prepared.get_submodule(str(node.target))
        observed = node.args[0]
        if not isinstance(observer, ObserverBase) or not hasattr(observer, "min_val") or not isinstance(observed, Node):
            continue
        # A tensor with a single element may be the same in all samples, but zero is not a range.
        is_single = isinstance(observer, RangeObserver) and observer.count == 1 and bool(observer.min_val)
        if observer.min_val.numel() == 1 and torch.equal(observer.min_val, observer.max_val) and not is_single:
            if observed in names:
                inputs.append(f"  {names[observed]}: always {float(observer.min_val):g}")
            elif observed.op == "call_function":
                places.append(f"{origin(observed, path)}: {float(observer.min_val):g}")
    if inputs:
        raise UserError(
            f"{path}: calibration saw only one value in these tensors, so that they have no range to quantize:\n"
            + "\n".join(dict.fromkeys(inputs))
            + "\n  Give calibration_inputs() that cover what the device will see."
        )
    return tuple(dict.fromkeys(places))


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
        if name.split("::")[0] in ("cortex_m", _NAMESPACE) or name.startswith("torch_fusion::quantized_"):
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
    for node in program.graph.nodes:
        if node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        namespace, name = node.target._schema.name.split("::")
        values = [operand.meta.get("val") for operand in node.all_input_nodes]
        if namespace == "aten" and name in _ARITHMETIC and any(_is_int8(value) for value in values):
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


def _is_int8(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.int8


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()
