"""Reports the results of quantization, and prints notes for the user."""

import torch

from tools.artifacts.quantization_report.quantization_report import QuantizationReport
from tools.pipeline.export.backends.request import LoweringRequest
from tools.pipeline.export.capture.diagnosis import random_operators, some_of
from tools.pipeline.export.capture.reference import run_module
from tools.pipeline.export.plan.manifest import Parameters
from tools.pipeline.export.quantize import report
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.source import Source


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
    """

    accuracy = report.accuracy(asked.eager.outputs, outputs, asked.eager.labels, asked.file.labels())
    jumps = report.jumps_before(quantized.module, len(parameters), asked.file.path)
    if random_operators(source.captured, asked.file.path):
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
