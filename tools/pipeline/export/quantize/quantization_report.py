"""Reports the results of quantization, and prints notes for the user."""

from typing import Any

import torch
from torch.fx import Node

from tools.artifacts.quantization_report.quantization_report import QuantizationReport
from tools.pipeline.export.backends.request import LoweringRequest
from tools.pipeline.export.capture.diagnosis import random_operators, some_of
from tools.pipeline.export.capture.reference import SAMPLES, WrongReference, rounded, run_module
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.ir.rewriting import has_steps
from tools.pipeline.export.plan.manifest import Parameters
from tools.pipeline.export.quantize import report
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.source import Source

# The largest noise of kernels beside the quantized module: as a share of an output's energy, of which int8 kernels of
# softmax have 0.001 and a wrong scale far more, and of the square of its largest number, of which a step has 0.0001.
_MOST_NOISE = 0.1
_MOST_OF_PEAK = 0.001
# A change of the inputs by a step, as a share of their largest number.
_STEP = 1 / 256


def quantization_report(
    asked: LoweringRequest,
    source: Source,
    quantized: Quantized,
    in_float: list[tuple[str, str]],
    outputs: list[list[torch.Tensor]],
    parameters: list[Parameters | None],
) -> QuantizationReport:
    """Returns the report of a quantized program that returns `outputs` for the golden inputs, and prints its notes.

    Args:
      source: the program that was quantized.
      in_float: operators that were not quantized, with their locations in the model.
      parameters: the quantization parameters of outputs.

    Raises WrongReference if the program doesn't compute what the quantized model does, an error of the export.
    """
    accuracy = report.accuracy(asked.eager.outputs, outputs, asked.eager.labels, asked.file.labels())
    jumps = report.jumps_before(quantized.module, len(parameters), asked.file.path)
    if not random_operators(source.captured, asked.file.path):
        _check_outputs(asked, source, quantized, outputs, parameters)
    else:
        jumps = ["the model draws random numbers, which are others in each run"] * len(parameters)
    names, stream = asked.eager.names[1], list[bool]()
    expected, actual, of_outputs = asked.eager.outputs, outputs, parameters
    if quantized.start and quantized.floating is not None:
        stream = report.are_probabilities(quantized.floating, len(parameters))
        if asked.eager.labels is None:
            expected, actual = (
                run_module(module, quantized.measured, quantized.start)
                for module in (quantized.floating, quantized.module)
            )
            of_outputs = [None for _ in parameters]
    notes = report.far_outputs(expected, actual, of_outputs, names, asked.options, jumps, stream)
    if source.calibration is not None and asked.eager.labels is not None and not stream:
        samples = asked.eager.samples
        notes += report.held_out(asked.eager.outputs, outputs, parameters, samples, source.calibration)
    if quantized.constant:
        count = len(quantized.constant)
        notes += (
            f"calibration saw one value alone in {count} tensor{'s' if count > 1 else ''}, which the device then has "
            f"too: {some_of(quantized.constant)}; calibration_inputs() should cover what the device will see",
        )
    for note in notes:
        asked.note(note)
    if quantized.equalized:
        notes = (*notes, f"channels were equalized before quantization: {', '.join(quantized.equalized)}")
    return report.make_report(asked.name, asked.options.core, quantized, in_float, accuracy, notes, asked.file.path)


def _check_outputs(
    asked: LoweringRequest,
    source: Source,
    quantized: Quantized,
    outputs: list[list[torch.Tensor]],
    parameters: list[Parameters | None],
) -> None:
    """Checks that the lowered program returns what the quantized model does, which accuracy is measured on.

    Outputs behind functions with jumps are left out, all outputs if state is, and those that a change of the inputs by
    a step changes as much: kernels round in their own ways.
    """
    samples = [channels_last(sample) for sample in asked.eager.samples[:SAMPLES]]
    start = channels_last(source.state.start())
    expected = run_module(quantized.module, samples, start)
    graph, jumping = quantized.module.graph, set[Node]()
    for node in graph.nodes:
        if _jumps(node) or jumping.intersection(node.all_input_nodes):
            jumping.add(node)
    returned = graph.output_node().args[0]
    state, results = returned[: -len(parameters)], returned[-len(parameters) :]
    if jumping.intersection(state):
        return
    for index, (name, result) in enumerate(zip(asked.eager.names[1], results, strict=True)):
        if not expected[0][index].is_floating_point() or result in jumping:
            continue
        wanted, found = (_joined(each, index, parameters[index]) for each in (expected, outputs[: len(samples)]))
        are_numbers = torch.isfinite(wanted) & torch.isfinite(found)
        wanted, noise = wanted[are_numbers], (wanted - found)[are_numbers].square()
        if noise.sum() <= _MOST_NOISE * wanted.square().sum():
            continue
        others = run_module(quantized.module, quantized.measured, start)
        peak = _joined([*expected, *others], index).nan_to_num(posinf=0, neginf=0).abs().max()
        if noise.mean() <= _MOST_OF_PEAK * peak.square():
            continue
        again = _joined(run_module(quantized.module, rounded(samples, _STEP), start), index)[are_numbers]
        if (again - wanted).square().sum() < _MOST_NOISE * noise.sum():
            raise WrongReference(f"output {index} ({name}) of the lowered program is not that of the quantized model")


def _jumps(node: Node) -> bool:
    """Whether a small change of a node's operand may change its result by a whole step."""
    if node.op != "call_function":
        return False
    # A quantizer's own operators have no value, and are of floating point.
    result, *operands = (each.meta.get("val") for each in (node, *node.all_input_nodes))
    return has_steps(node) or (_is_integer(result) and not all(map(_is_integer, operands)))


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.is_floating_point()


def _joined(outputs: list[list[torch.Tensor]], index: int, parameters: Parameters | None = None) -> torch.Tensor:
    """Returns the numbers of one output over all samples."""
    numbers = report.numbers([each[index] for each in outputs], parameters)
    return torch.cat([tensor.double().flatten() for tensor in numbers])
