"""Measures the quantization noise at the outputs of a model, and finds the layers that cause most of it."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from tools.pipeline.export.backends.cortex_m.int4 import is_int4
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.reference import run_module
from tools.pipeline.export.ir.operators import DEQUANTIZATIONS, QUANTIZE
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.quantize.float64 import Float64Interpreter
from tools.pipeline.export.quantize.nodes import is_product
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.rewrite.own_operators import RECURRENT
from tools.pipeline.model_file.deterministic import computing
from tools.quiet.console import UserError, note_progress


def output_snr(quantized: Quantized) -> float:
    """Returns the signal-to-noise ratio in dB of the worst floating-point output, over the measured samples.

    The ratio is 10 log10(sum f^2 / sum (f - q)^2), where f is computed in floating point and q is quantized. It is
    infinite if they are equal, or if no output is in floating point. On a stream, each module carries its own state
    between samples.
    """
    assert quantized.floating is not None
    by_output = _powers_by_output(
        *(
            [_numbers(results) for results in run_module(module, quantized.measured, quantized.start)]
            for module in (quantized.floating, quantized.module)
        )
    )
    return min((decibels(*each) for each in by_output), default=math.inf)


def is_stream(quantized: Quantized) -> bool:
    """Whether a model keeps state, or takes and returns the state of its recurrent layers."""

    def source(node: Any) -> Any:
        while isinstance(node, Node) and node.op != "placeholder" and len(node.all_input_nodes) == 1:
            (node,) = node.all_input_nodes
        return node

    nodes = [] if quantized.floating is None else quantized.floating.graph.nodes
    given = (source(node.args[1]) for node in nodes if node.target in RECURRENT)
    return bool(quantized.start) or any(isinstance(node, Node) and node.op == "placeholder" for node in given)


def _numbers(results: Iterable[Any]) -> list[torch.Tensor]:
    """Returns the floating-point tensors among a module's results."""
    return [each for each in results if isinstance(each, torch.Tensor) and each.is_floating_point()]


# The number of layers that a message names as the worst ones.
_BLAMED = 3
_UNWRITTEN = "operators that no line of the model has written"
# The number of samples of a stream on which costs are measured.
_STEPS = 64
_STATELESS: Sample = ()


@dataclass(frozen=True)
class Demand:
    """A demand on the accuracy of a quantized model.

    Attributes:
      text: the demand as the user writes it.
      least: the smallest acceptable result of measure().
      measure: measures a quantized model.
      shown: formats a measured value with its unit.
      allowed: the ratio of noise to signal that satisfies the demand; infinite if no ratio guarantees that.
    """

    text: str
    least: float
    measure: Callable[[Quantized], float]
    shown: Callable[[float], str]
    allowed: float = math.inf


def snr_demand(decibels: int) -> Demand:
    """Demands a signal-to-noise ratio of the worst output."""
    return Demand(f"min_snr = {decibels}", decibels, output_snr, ratio_text, 10 ** (-decibels / 10))


def share_right(outputs: Sequence[Sequence[torch.Tensor]], labels: torch.Tensor) -> float:
    """Returns the share of samples whose first output has its largest element at the label's index.

    Args:
      outputs: the outputs of each sample.
    """
    found = found_classes(outputs)
    return sum(index == int(label) for index, label in zip(found, labels, strict=True)) / len(labels)


def found_classes(outputs: Sequence[Sequence[torch.Tensor]]) -> list[int]:
    """Returns the index of the largest element of each sample's first output; PyTorch finds none among bools."""
    return [int(each[0].reshape(-1).float().argmax()) for each in outputs]


def accuracy_demand(share: float, samples: Sequence[Sample], labels: torch.Tensor) -> Demand:
    """Demands that a share of samples is classified correctly."""

    def measure(quantized: Quantized) -> float:
        return share_right(run_module(quantized.module, samples, quantized.start), labels)

    def shown(measured: float) -> str:
        return f"{measured:.4g} of {len(samples)} evaluation samples right"

    return Demand(f'min_accuracy = "{share:g}"', share, measure, shown)


@dataclass(frozen=True)
class Cost:
    """The loss of accuracy from quantizing some layers of a model.

    Attributes:
      places: source locations, as origin() returns them, that are quantized together.
      share: the largest ratio of noise to signal of an output if only these are quantized.
      readers: locations that would quantize the result of `places` again if these were in floating point: sums and
        normalizations, such as along the residual branches of a transformer. Products are excluded, as they make their
        own noise. Empty where this quantization is not the main cost.
    """

    places: frozenset[str]
    share: float
    readers: frozenset[str]


def costs(quantized: Quantized, path: Path) -> list[Cost]:
    """Measures the cost of each quantized tensor of a model at its outputs, worst first.

    The error that a layer makes on its floating-point input is added to its floating-point result. A layer and its
    fused activation count as one. A model with state carries the effect of an error to later samples.

    Args:
      path: the model file.
    """
    assert quantized.floating is not None
    found: list[Cost] = []
    with computing():
        samples, kept = _middle(quantized) if quantized.start else (quantized.samples, _STATELESS)
        runs = list(_runs(quantized.floating, samples, kept))
        expected = [run.outputs for run in runs]
        groups = _groups(quantized.module)
        group_of = {node: group for group in groups for node in group}
        for number, group in enumerate(groups, 1):
            note_progress(f"layer {number} of {len(groups)} (its cost in accuracy): {group[-1].name}")
            errors = [_errors(quantized.module, group, run.values) for run in runs]
            if not any(bool(error.count_nonzero()) for each in errors for error in each.values()):
                continue
            disturbed = [run.outputs for run in _runs(quantized.floating, samples, kept, errors, runs)]
            by_output = _powers_by_output(expected, disturbed)
            share = max((noise / signal if signal else math.inf for signal, noise in by_output if noise), default=0.0)
            readers = _readers(group[-1], errors, runs)
            quantized_again = {node for reader in readers for node in group_of[reader]}
            found.append(Cost(_places(group, path), share, _places(quantized_again, path)))
    return sorted(found, key=lambda cost: -cost.share)


def _places(nodes: Iterable[Node], path: Path) -> frozenset[str]:
    return frozenset(origin(node, path) for node in nodes)


class Run(Float64Interpreter):
    """Runs a module on a sample.

    Args:
      errors: values to add to the results of nodes, by node name.
      kept: the number of outputs, from the first one on, that are state.
      before: a run without the errors, whose values are those of nodes that don't depend on any.

    Attributes:
      values: the results of nodes, by node name.
      state: the state for the module's next call.
      outputs: the other outputs that are floating-point tensors.
    """

    def __init__(
        self,
        module: GraphModule,
        sample: Sample,
        errors: Mapping[str, torch.Tensor] | None = None,
        kept: int = 0,
        before: "Run | None" = None,
    ) -> None:
        super().__init__(module)
        self.values: dict[str, Any] = {}
        self._errors = errors or {}
        self._before = {} if before is None else before.values
        results = torch.utils._pytree.tree_leaves(self.run(*sample))
        self.state = tuple(value.clone() for value in results[:kept])
        self.outputs = _numbers(results[kept:])

    def run_node(self, n: Node) -> Any:
        known = self._before.get(n.name)
        operands = n.all_input_nodes if n.op == "call_function" and known is not None else []
        same = bool(operands) and all(self.env[each] is self._before[each.name] for each in operands)
        result = known if same else super().run_node(n)
        if n.name in self._errors:
            result = result + self._errors[n.name]
        self.values[n.name] = result
        return result


def _runs(
    module: GraphModule,
    samples: Sequence[Sample],
    start: Sample,
    errors: Sequence[Mapping[str, torch.Tensor]] | None = None,
    before: Sequence[Run] | None = None,
) -> Iterator[Run]:
    """Runs a module on samples in turn, passing the state from one to the next.

    Args:
      start: the state before the first sample.
      errors: for each sample, values to add to the results of nodes.
      before: for each sample, the run without them.
    """
    none = [None] * len(samples)
    for sample, each, known in zip(samples, errors or none, before or none, strict=True):
        run = Run(module, (*start, *sample), each, len(start), known)
        start = run.state
        yield run


def _middle(quantized: Quantized) -> tuple[Sequence[Sample], Sample]:
    """Returns the middle of a stream, as its start is often silence, and the state before it."""
    assert quantized.floating is not None
    begin = max(0, (len(quantized.measured) - _STEPS) // 2)
    start = quantized.start
    for run in _runs(quantized.floating, quantized.measured[:begin], start):
        start = run.state
    return quantized.measured[begin : begin + _STEPS], start


def powers(expected: Sequence[torch.Tensor], actual: Sequence[torch.Tensor]) -> tuple[float, float]:
    """Returns signal and noise over all samples: the sums of squares of the expected values, and of the differences."""
    signal = sum(float(tensor.double().square().sum()) for tensor in expected)
    noise = sum(float((e.double() - a.double()).square().sum()) for e, a in zip(expected, actual, strict=True))
    return signal, noise


def ratio_text(ratio: float) -> str:
    """Returns the text of a ratio in dB: `39.2 dB`, or `no error` where it is infinite."""
    return "no error" if ratio == math.inf else f"{ratio:.1f} dB"


def decibels(signal: float, noise: float) -> float:
    """Returns the ratio in dB, which is infinite without noise. The noise isn't finite where a value isn't, such as a
    logarithm of zero.
    """
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal and math.isfinite(noise) else -math.inf


def _powers_by_output(
    expected: Sequence[Sequence[torch.Tensor]], actual: Sequence[Sequence[torch.Tensor]]
) -> list[tuple[float, float]]:
    """Returns powers() for each output, from lists of outputs per sample."""
    return [powers(e, a) for e, a in zip(zip(*expected, strict=True), zip(*actual, strict=True), strict=True)]


def dequantized(node: Node) -> Node | None:
    """Returns the dequantized value that the next layers read in place of a node, or None if it is not quantized."""
    for user in node.users:
        if user.target == QUANTIZE:
            return next((after for after in user.users if after.target in DEQUANTIZATIONS), None)
    return None


def _groups(module: GraphModule) -> list[list[Node]]:
    """Groups the operators behind each quantized tensor: an operator, and those before it that this alone reads."""
    groups: dict[Node, list[Node]] = {}
    for node in reversed(list(module.graph.nodes)):
        if node.op != "call_function" or node.target is QUANTIZE or node.target in DEQUANTIZATIONS:
            continue
        user = next(iter(node.users), None)
        groups[node] = groups[user] if len(node.users) == 1 and user in groups else []
        groups[node].append(node)
    return list({id(group): group[::-1] for group in groups.values()}.values())[::-1]


def _errors(module: GraphModule, group: list[Node], computed: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Returns the error that quantization adds to the last result of a group of operators, by the name of that node.

    Args:
      computed: the results of nodes in floating point.
    """
    results: dict[Node, Any] = {}

    def value(node: Node) -> Any:
        if node not in results:
            results[node] = evaluate(node)
        return results[node]

    def evaluate(node: Node) -> Any:
        if node.op == "get_attr":
            return Interpreter(module).fetch_attr(str(node.target))
        if node.target in DEQUANTIZATIONS:
            source = node.args[0]
            if isinstance(source, Node) and source.target is QUANTIZE:
                (quantized,) = source.all_input_nodes
                return value(quantized)
        elif node not in group:
            return computed[node.name]
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), value)
        return node.target(*args, **kwargs)

    last = group[-1]
    result, expected = value(last), computed.get(last.name)
    if not isinstance(expected, torch.Tensor) or not expected.is_floating_point():
        return {}
    return {last.name: _rounded(last, result) - expected}


def _rounded(node: Node, value: torch.Tensor) -> torch.Tensor:
    """Returns a value of a node after quantization and dequantization."""
    after = dequantized(node)
    if after is None:
        return value
    target: Any = after.target
    (between,) = after.all_input_nodes
    return target(between.target(value, *between.args[1:]), *after.args[1:])


def _readers(node: Node, errors: Sequence[Mapping[str, torch.Tensor]], runs: Sequence[Run]) -> list[Node]:
    """Returns the nodes for Cost.readers of the last node of a group.

    Args:
      errors: the errors that the group adds to its result, by sample.
      runs: the runs in floating point, by sample.
    """
    after = dequantized(node)
    if after is None or not all(node.name in each for each in errors):
        return []
    values = [run.values[node.name] for run in runs]
    _, rounding = powers(values, [_rounded(node, value) for value in values])
    whole = sum(float(each[node.name].double().square().sum()) for each in errors)
    return [] if 2 * rounding < whole else [user for user in _reading(after) if not is_product(user)]


def _reading(dequantize: Node) -> Iterator[Node]:
    """Yields the operators that read a dequantized tensor, also those that read it at another scale."""
    for user in dequantize.users:
        if user.target is QUANTIZE:
            for again in user.users:
                yield from _reading(again)
        elif user.op == "call_function":
            yield user


class OutOfReach(UserError):
    """A quantized model can't satisfy a demand unless all of it is in floating point.

    Attributes:
      measured: the value that it reaches.
      blamed: the layers that most of the noise comes from.
    """

    def __init__(self, path: Path, demand: Demand, measured: str, blamed: str) -> None:
        super().__init__(
            f"{path}: {demand.text}, but the outputs reach {measured}; only floating point alone has more: demand "
            f"less, or use the portable backend. Most of the noise is made at {blamed}."
        )
        self.measured = measured
        self.blamed = blamed


def leave_worst_in_float(
    quantized: Quantized,
    quantize: Callable[[frozenset[str]], Quantized],
    in_float: frozenset[str],
    demand: Demand,
    path: Path,
) -> tuple[frozenset[str], Quantized, str] | None:
    """Finds the layers that must stay in floating point to satisfy a demand.

    Args:
      quantized: the model, with only `in_float` in floating point.
      quantize: quantizes the model except some locations.
      in_float: the locations that stay in floating point anyway.
      path: the model file.

    Returns:
      in_float and the further locations, the resulting model, and a note about it; None if the model satisfies the
      demand already.

    Raises OutOfReach if only a model that is all in floating point satisfies it.
    """
    before = reached = demand.measure(quantized)
    if before >= demand.least:
        return None
    levels: dict[float, frozenset[str]] = {}
    ranked = costs(quantized, path)
    for cost in ranked:
        # Equal ratios are the same error, which views pass on.
        levels[cost.share] = levels.get(cost.share, frozenset()) | cost.places | cost.readers
    # The largest number known to be too small, and the smallest known to suffice.
    few, enough = 0, None
    # Noise adds up about linearly, but the floating-point result of a layer may be quantized for the next one.
    count = min(_count_of_worst(list(levels), demand.allowed), len(levels) - 1)
    while enough is None or enough - few > 1:
        note_progress(f"layers that stay in floating point: {count}, between {few} and {enough or len(levels)}")
        if count <= few:
            measured = f"{demand.shown(reached)} ({demand.shown(before)} all in int8)"
            raise OutOfReach(path, demand, measured, blamed(ranked))
        places = in_float.union(*itertools.islice(levels.values(), count))
        made = quantize(places)
        measured_now = demand.measure(made)
        if measured_now >= demand.least:
            enough, found = count, (places, made, measured_now)
        else:
            few, reached = count, max(reached, measured_now)
        count = (few + (len(levels) if enough is None else enough)) // 2
    kept, made, reached = found
    told = f"the outputs have {demand.shown(reached)}, with all in int8 that can be {demand.shown(before)}"
    return kept, made, f"layers stay in floating point that cost most accuracy: {told}"


def _count_of_worst(shares: Sequence[float], allowed: float) -> int:
    """Returns how many of the worst to move to floating point, so that the noise of the others is allowed.

    Args:
      shares: ratios of noise to signal, worst first; at least a sixteenth of them is moved.
    """
    mended = max(1, len(shares) // 16)
    while mended < len(shares) and sum(shares[mended:]) > allowed:
        mended += 1
    return mended


def blamed(ranked: Sequence[Cost]) -> str:
    """Names the layers that most of the noise comes from; the rounding of inputs belongs to no layer."""
    if not ranked:
        return "the inputs, which int8 is too coarse for"
    # Several tensors may have the same place.
    shares = dict[str, float]()
    for share, places in {cost.share: cost.places for cost in reversed(ranked)}.items():
        # A node without a source location has only its own name.
        place = " and ".join(sorted({place if re.search("[ :]", place) else _UNWRITTEN for place in places}))
        shares[place] = shares.get(place, 0.0) + share
    whole = sum(shares.values())
    worst = sorted(shares.items(), key=lambda item: item[1], reverse=True)[:_BLAMED]
    return ", ".join(f"{place} ({share / whole:.0%})" if whole < math.inf else place for place, share in worst)


def leave_worst_in_int8(
    quantized: Quantized, quantize: Callable[[frozenset[str]], Quantized], demanded: int, path: Path
) -> tuple[frozenset[str], str]:
    """Finds the layers whose weights must be int8 instead of int4 for a signal-to-noise ratio of the outputs.

    Args:
      quantized: the model with int4 weights wherever possible.
      quantize: quantizes the model with int8 weights in some locations.
      demanded: the ratio in dB; if int8 doesn't reach it, all weights are int8.
      path: the model file.

    Returns:
      the locations, and a note about them.
    """
    before = reached = output_snr(quantized)
    layers = _in_int4(quantized, path)
    ranked = [cost for cost in costs(quantized, path) if cost.places & layers]
    # Layers that add no noise come last.
    silent = layers.difference(*(cost.places for cost in ranked))
    ranked += [Cost(frozenset((place,)), 0.0, frozenset()) for place in sorted(silent)]
    allowed = 10 ** (-demanded / 10)
    kept: frozenset[str] = frozenset()
    while reached < demanded and kept < layers:
        left = [cost for cost in ranked if not cost.places & layers <= kept]
        count = _count_of_worst([cost.share for cost in left], allowed)
        kept = kept.union(*(cost.places & layers for cost in left[:count]))
        reached = output_snr(quantize(kept))
    told = f"int4 weights in {len(layers - kept)} of {len(layers)} places that can have them"
    return kept, (
        f"{told}: the outputs have {ratio_text(reached)} against floating point, with int4 in all {ratio_text(before)}"
    )


def _in_int4(quantized: Quantized, path: Path) -> frozenset[str]:
    """Returns the locations of layers with int4 weights."""
    nodes = quantized.module.graph.nodes
    return frozenset(origin(node, path) for node in nodes if len(node.args) > 1 and is_int4(node.args[1]))
