"""Exports a model for an Ethos-U and the core beside it."""

import copy
import functools
from dataclasses import replace

from torch.export import ExportedProgram

from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.npu_report.npu_report import npu_report_json
from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.forms import MOST_STEPS, layers_of_many_steps, recurrent_steps
from tools.pipeline.export.backends.cortex_m import lower as cortex_m
from tools.pipeline.export.backends.ethos_u import lower
from tools.pipeline.export.backends.ethos_u import report as npu_report
from tools.pipeline.export.backends.ethos_u.results import Comparison
from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.diagnosis import check_out_variants
from tools.pipeline.export.capture.state import inputs_to_state
from tools.pipeline.export.ir.dim_orders import channels_last, order_for_kernels, takes_any_order_as_emitted
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.pipelines import ETHOS_U
from tools.pipeline.export.plan.manifest import Quantization
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.quantize.in_float import InFloat, NoInt8Form
from tools.pipeline.export.quantize.quantization_report import quantization_report
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.search import worst_in_float
from tools.pipeline.export.quantize.source import Source, capture_source, prepare
from tools.pipeline.export.rewrite.spectra.spectra import front_end
from tools.pipeline.export.upstream.retracing import known_results
from tools.quiet.console import UserError


@known_results()
def lower_model(asked: LoweringRequest) -> LoweredModel:
    """Returns the program with delegates for the NPU, compared with the NPU's model on the golden inputs."""
    path, npu = asked.file.path, _npu_of(asked)
    if asked.file.has("dynamic_shapes"):
        raise UserError(f'{path}: backend "ethos_u" takes no dynamic_shapes(), an NPU has commands for one shape.')
    source = capture_source(asked)
    in_float = InFloat(path, front_end(source.captured, path))
    prepared = prepare(source, functools.partial(_quantize, source, in_float))

    def requantized(places: frozenset[str]) -> Quantized:
        left = replace(in_float, places=places)
        return _quantize(source, left, copy.deepcopy(source.captured), source.calibration or [])

    places = worst_in_float(source, prepared.quantized, requantized, frozenset())
    if places:
        prepared = prepare(source, functools.partial(_quantize, source, replace(in_float, places=places)))
    samples = [channels_last(sample) for sample in asked.eager.samples]
    start = channels_last(source.state.start())
    finish = functools.partial(_finish, source, replace(prepared.quantized, accurate=places), samples)
    made, notes = lower.delegate(prepared.captured, npu, path, [(*start, *sample) for sample in samples], finish)
    for note in notes:
        asked.note(note)
    return made


def _npu_of(asked: LoweringRequest) -> Npu:
    assert asked.options.npu is not None
    return asked.options.npu


def _bits_of(asked: LoweringRequest) -> int:
    """Returns the width of activations."""
    return 16 if asked.options.io == "int16" else 8


def _quantize(source: Source, in_float: InFloat, captured: ExportedProgram, samples: list[golden.Sample]) -> Quantized:
    """Quantizes the program, and prints notes about its recurrent layers unless locations stay in floating point: they
    are printed once.
    """
    asked = source.asked
    folded = ETHOS_U.run(captured)
    whole = layers_of_many_steps(folded) if _bits_of(asked) == 8 else []
    for node, steps in () if in_float.places else recurrent_steps(folded):
        of_steps = f"{steps} step{'s'[: steps != 1]}"
        text = f"is unrolled into {of_steps} for the NPU; ExecuTorch takes seconds of processor time for each"
        if node in whole:
            text = (
                f"has {of_steps}, and {MOST_STEPS} of a model are unrolled for the NPU: the core computes it "
                "whole; written as a loop over nn.LSTMCell or nn.GRUCell it would be unrolled"
            )
        asked.note(f"{origin(node, source.path)} {text}.")
    has_float_border = asked.options.io == "float32"
    return lower.quantize(folded, samples, _npu_of(asked), _bits_of(asked), source.state, has_float_border, in_float)


def _finish(
    source: Source, quantized: Quantized, samples: list[golden.Sample], lowered: lower.Lowered
) -> tuple[LoweredModel, list[str]]:
    """Returns the model and the notes about it.

    Args:
      samples: the golden inputs in floating point, with images channels-last.
    """
    asked, path, npu = source.asked, source.path, _npu_of(source.asked)
    notes: list[str] = []
    operators = delegates.border_operators(_bits_of(asked))
    if _bits_of(asked) == 8:
        start = channels_last(source.state.start())
        try:
            in_int8 = lower.use_core(lowered, asked.options.core, (*start, *samples[0]), path)
        except NoInt8Form as error:
            notes.append(f"what the NPU can't take computes in floating point: {error}")
        else:
            lowered, operators = in_int8, cortex_m.BORDER
    edge = lowered.manager.exported_program()
    inputs_to_state(edge, source.state, source.inputs)
    order_for_kernels(edge, takes_any_order_as_emitted)
    check_out_variants(edge, path)
    unquantized = quantize.unquantized(edge, path)
    rejected = [
        (operator, place, "it stays in floating point for accuracy" if place in quantized.accurate else reason)
        for operator, place, reason in lowered.rejected
    ]
    on_core = npu_report.on_core(rejected, unquantized)
    estimate = npu_report.make_report(asked.name, lowered.compiled, on_core, npu)
    npu_report.check_memory(estimate, npu)
    notes += [f"stays on the core: {entry}" for entry in on_core]
    border = operators.border(edge)
    if asked.options.io != "float32":
        notes += operators.remove(edge, path)
        samples = [operators.quantize_sample(sample, border.inputs) for sample in samples]
    comparison = Comparison(lowered.compiled, npu, path)
    outputs = delegates.run(edge, lowered.compiled, samples, comparison)
    notes += comparison.unchecked()
    made = LoweredModel(
        delegates.emit(lowered.manager),
        samples,
        outputs,
        Quantization(asked.options.io, border.inputs, border.outputs),
        quantization_report(asked, source, quantized, unquantized, outputs, border.outputs),
        (npu_report.format_report(estimate), npu_report_json(estimate)),
    )
    return made, notes
