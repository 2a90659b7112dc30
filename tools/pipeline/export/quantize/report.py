"""Reports a quantized model: the scheme of each layer, its distance from floating point, and the accuracy."""

import operator
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch.fx import GraphModule, Node

from tools.abi.layouts.layouts import INT4_BLOCK
from tools.artifacts.quantization_report.quantization_report import Accuracy, Layer, QParams, QuantizationReport, Weight
from tools.pipeline.export.backends.cortex_m.int4 import factors_of, is_int4
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.ir.operators import DEQUANTIZATIONS, DEQUANTIZE_CHANNELS, QUANTIZE
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import has_steps, is_elementwise
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.manifest import Parameters
from tools.pipeline.export.quantize.accuracy import (
    Run,
    decibels,
    dequantized,
    found_classes,
    powers,
    ratio_text,
    share_right,
)
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.model_file.deterministic import computing

# Outputs below this ratio in dB, or of which fewer elements are the same if they are integers, are worth a word.
_FAR = 20
_SAME = 0.95
_CHOSEN = "numbers that are about equal are told apart by noise"


_NO_FORM = "the Cortex-M quantizer or its operators have no int8 form of it"


def make_report(
    name: str,
    core: str,
    quantized: Quantized,
    unquantized: list[tuple[str, str]],
    accuracy: Accuracy | None,
    notes: tuple[str, ...],
    path: Path,
) -> QuantizationReport:
    """The report, with signal-to-noise ratios over all elements and reported samples.

    Args:
      name: the program's name.
      core: the core that it is lowered for.
      unquantized: operators and places that stayed in floating point in the lowered program.
      accuracy: what accuracy() returned.
      notes: what far_outputs() returned.
      path: the model file.
    """
    floating = {place for _, place in unquantized}
    reasons = {place: f"it stays so {reason}" for place, reason in quantized.reasons.items()}
    with computing():
        runs = [Run(quantized.module, sample) for sample in quantized.samples]
    layers = []
    for node in quantized.module.graph.nodes:
        if node.op != "call_function" or node.target == QUANTIZE or node.target in DEQUANTIZATIONS:
            continue
        if not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        place = origin(node, path)
        result = dequantized(node)
        # One of several results, such as a recurrent layer's.
        called = node.args[0] if node.target == operator.getitem else node
        scheme = _scheme(called, place in floating, result)
        reason = reasons.get(place, quantized.rejections.get(node.name, _NO_FORM))
        measured = result if result is not None else node if scheme == "float32" else None
        ratio = None
        if measured is not None and quantized.observed:
            expected = [observed[node.name] for observed in quantized.observed]
            if all(bool(torch.isfinite(value).all()) for value in expected):
                ratio = _signal_to_noise(expected, [run.values[measured.name] for run in runs])
        layers.append(
            Layer(
                place=place,
                operator=called.target._schema.name,
                scheme=scheme,
                reason=reason if scheme == "float32" else None,
                weight=_weight(quantized.module, node),
                output=None if result is None else QParams(float(result.args[1]), int(result.args[2])),
                snr_db=ratio,
            )
        )
    return QuantizationReport(name, core, len(runs), tuple(layers), accuracy, notes)


def make_float_report(
    name: str, core: str, floating: GraphModule, accuracy: Accuracy | None, note: str, path: Path
) -> QuantizationReport:
    """The report of a model that stays in floating point altogether.

    Args:
      floating: the model as it would have been quantized.
      note: why it stays there.
    """
    layers = [
        Layer(origin(node, path), node.target._schema.name, "float32", "for fewer instructions")
        for node in floating.graph.nodes
        if node.op == "call_function" and hasattr(node.target, "_schema")
    ]
    return QuantizationReport(name, core, 0, tuple(layers), accuracy, (note,))


# More classes make a table that nobody reads.
_MOST_CLASSES = 40


def accuracy(
    eager: list[list[torch.Tensor]],
    quantized: list[list[torch.Tensor]],
    labels: torch.Tensor | None,
    names: Sequence[str] = (),
) -> Accuracy | None:
    """Shares of evaluation samples whose largest output is at the label's index, in floating point and quantized.

    Args:
      eager, quantized: outputs of each sample.
      labels: None without an evaluation set.
      names: of the classes; their indices by default.
    """
    if labels is None:
        return None
    made = Accuracy(len(labels), share_right(eager, labels), share_right(quantized, labels))
    count = eager[0][0].numel()
    if count > _MOST_CLASSES or not 0 <= int(labels.min()) <= int(labels.max()) < count:
        return made
    classes = tuple(names) if len(set(names)) == count else tuple(map(str, range(count)))
    return replace(
        made,
        classes=classes,
        float32_confusion=_confusion(eager, labels, count),
        int8_confusion=_confusion(quantized, labels, count),
    )


def _confusion(outputs: list[list[torch.Tensor]], labels: torch.Tensor, count: int) -> tuple[tuple[int, ...], ...]:
    found = torch.tensor(found_classes(outputs))
    counts = torch.bincount(labels.reshape(-1).long() * count + found, minlength=count * count)
    return tuple(map(tuple, counts.reshape(count, count).tolist()))


def far_outputs(
    eager: list[list[torch.Tensor]],
    quantized: list[list[torch.Tensor]],
    parameters: list[Parameters | None],
    names: list[str],
    options: Options,
    jumps: Sequence[str] = (),
    stream: Sequence[bool] = (),
) -> tuple[str, ...]:
    """A line for each output that is far from the one in floating point, over all samples; of a stream, for each output
    in floating point.

    Args:
      eager, quantized: outputs of each sample.
      parameters: of outputs that are quantized.
      names: of the outputs.
      options: those of the export, which decide what helps.
      jumps: of the outputs, what jumps_before() returned.
      stream: if the samples are a stream, of the outputs, what are_probabilities() returned.
    """
    lines = []
    many = f"{'a stream of ' if stream else ''}{len(eager)} {'call' if stream else 'sample'}{'s' * (len(eager) > 1)}"
    for index, name in enumerate(names):
        expected = [outputs[index] for outputs in eager]
        actual = [outputs[index] for outputs in quantized]
        jump = jumps[index] if jumps else ""
        where = f"{name}, over {many}:"
        count = sum(tensor.numel() for tensor in expected)
        if not expected[0].is_floating_point():
            same = sum(int((e == a).sum()) for e, a in zip(expected, actual, strict=True))
            if same < _SAME * count:
                lines.append(f"{where} {same} of {count} elements are those of floating point; {jump or _CHOSEN}")
            continue
        actual = numbers(actual, parameters[index])
        ratio = _signal_to_noise(expected, actual)
        text = f"{where} {ratio_text(ratio)} against floating point"
        if stream and count:
            text += _differences(expected, actual, stream[index])
        if ratio < _FAR:
            text += f"; {jump or _closer(options)}"
        if ratio < _FAR or (stream and count):
            lines.append(text)
    return tuple(lines)


def _differences(expected: list[torch.Tensor], actual: list[torch.Tensor], are_probabilities: bool) -> str:
    before, after = (torch.stack([each.double().flatten() for each in outputs]) for outputs in (expected, actual))
    off = (before - after).abs()
    kind = "probabilities" if are_probabilities else "values"
    text = f"; {kind} are off by {float(off.mean()):.2g} in the mean, by {float(off.max()):.2g} at most"
    if are_probabilities:
        changed = int(((before > 0.5) != (after > 0.5)).sum())
        text += f"; {changed} of {off.numel()} decisions (above a half) are others"
    return text


def _closer(options: Options) -> str:
    """Says what brings outputs closer to floating point, with an attribute that the backend has."""
    if options.backend == "ethos_u":
        others = [] if options.io == "int16" else ['io = "int16"']
    elif options.backend == "vgf":
        others = ['io = "float32"']
    else:
        others = ["keep_float", "min_snr" if options.io == "float32" else 'io = "float32"']
    most = ", ".join(["more calibration samples", *others[:-1]])
    return f"{most} or {others[-1]} bring it closer" if others else f"{most} bring it closer"


def jumps_before(module: GraphModule, count: int, path: Path) -> list[str]:
    """Says for each of a module's last outputs which function with steps makes it from int8 values, if one does.

    Args:
      module: a quantized module.
      count: the number of the outputs.
      path: the model file.
    """
    outputs = module.graph.output_node().args[0]
    return [_jump_before(node, path) if isinstance(node, Node) else "" for node in outputs[len(outputs) - count :]]


def are_probabilities(module: GraphModule, count: int) -> list[bool]:
    """Whether a sigmoid or a softmax makes each of a module's last outputs.

    Args:
      module: the module in floating point.
      count: the number of the outputs.
    """
    outputs = module.graph.output_node().args[0]
    return [isinstance(node, Node) and _is_probability(node) for node in outputs[len(outputs) - count :]]


def _is_probability(node: Node) -> bool:
    while node.op == "call_function" and _name(node) in _PASSED:
        node = node.all_input_nodes[0]
    return node.op == "call_function" and _name(node) in ("sigmoid", "softmax", "hardsigmoid")


def _name(node: Node) -> str:
    """Returns the name of a node's operator: `softmax` of aten._softmax."""
    schema = getattr(node.target, "_schema", None)
    return "" if schema is None else schema.name.split("::")[1].removeprefix("_").removesuffix("_copy")


def _jump_before(output: Node, path: Path) -> str:
    pending, seen, jump = [output], set(), None
    while pending:
        node = pending.pop()
        if node in seen or node.op != "call_function" or not hasattr(node.target, "_schema"):
            continue
        seen.add(node)
        passed = _name(node) in _PASSED or node.target == QUANTIZE or node.target in DEQUANTIZATIONS
        if passed or has_steps(node) or is_elementwise(node.target):
            pending += node.all_input_nodes
        if has_steps(node):
            jump = node
    if jump is None:
        return ""
    why = "a small error of int8 before a jump is a whole step after it"
    return f"{_name(jump)} at {origin(jump, path)} jumps, and {why}; keep_float of the layers before it helps"


def held_out(
    eager: list[list[torch.Tensor]],
    quantized: list[list[torch.Tensor]],
    parameters: list[Parameters | None],
    samples: list[Sample],
    calibration: list[Sample],
) -> tuple[str, ...]:
    """A line about the worst output on samples that the program was not calibrated on, if there are any.

    Args:
      eager, quantized: outputs of each sample.
      parameters: of outputs that are quantized.
      samples: the inputs.
      calibration: what it was calibrated on.
    """

    def content(sample: Sample) -> bytes:
        return b"".join(tensor.contiguous().numpy().tobytes() for tensor in sample)

    used = {content(sample) for sample in calibration}
    others = [index for index, sample in enumerate(samples) if content(sample) not in used]
    ratios = [
        _signal_to_noise(
            [eager[index][output] for index in others],
            numbers([quantized[index][output] for index in others], parameters[output]),
        )
        for output in range(len(parameters))
        if others and eager[0][output].is_floating_point()
    ]
    if not ratios:
        return ()
    count = f"{len(others)} sample{'s' if len(others) > 1 else ''}"
    return (f"the outputs have {ratio_text(min(ratios))} against floating point on {count} not used for calibration",)


def numbers(actual: list[torch.Tensor], parameters: Parameters | None) -> list[torch.Tensor]:
    """Returns the numbers that an output's integers stand for; an unquantized output is returned unchanged."""
    if parameters is None or actual[0].is_floating_point():
        return actual
    return [(tensor.float() - parameters.zero_point) * parameters.scale for tensor in actual]


def _scheme(node: Node, is_floating: bool, result: Node | None) -> str:
    if is_floating:
        return "float32"
    if node.target._schema.name.split("::")[1] in _VIEWS:
        return "view"
    return "int8" if result is not None else "fused"


_VIEWS = (
    "view", "_unsafe_view", "permute", "transpose", "squeeze", "unsqueeze", "clone", "slice", "select", "expand",
    "chunk", "split", "split_with_sizes", "unbind",
)  # fmt: skip


# The operators that pass values on.
_PASSED = frozenset(("to", *(name.removeprefix("_") for name in _VIEWS)))


def _weight(module: GraphModule, node: Node) -> Weight | None:
    """Scales of a layer's weight, which is its second operand."""
    operand = node.args[1] if len(node.args) > 1 else None
    if not isinstance(operand, Node) or operand.target not in DEQUANTIZATIONS or operand.args[0].op != "get_attr":
        return None
    if is_int4(operand):
        weights, scales = (getattr(module, operand.args[index].target) for index in (0, 1))
        _, factors = factors_of(weights.flatten(1))
        if bool((factors == 1).all()):
            return Weight("int4 per channel", len(scales), float(scales.min()), float(scales.max()))
        steps = factors * scales.double()[:, None]
        return Weight(f"int4 per group of {INT4_BLOCK}", steps.numel(), float(steps.min()), float(steps.max()))
    per_channel = operand.target == DEQUANTIZE_CHANNELS
    scales = getattr(module, operand.args[1].target).tolist() if per_channel else [float(operand.args[1])]
    return Weight("per channel" if per_channel else "per tensor", len(scales), min(scales), max(scales))


def _signal_to_noise(expected: list[torch.Tensor], actual: list[torch.Tensor]) -> float:
    return round(decibels(*powers(expected, actual)), 2)
