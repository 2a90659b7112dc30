"""Exports a model for an Ethos-U and the core beside it."""

import copy
import functools
from dataclasses import replace

from torch.export import ExportedProgram

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
from tools.pipeline.export.ir.dim_orders import order_for_kernels, takes_any_order_as_emitted
from tools.pipeline.export.pipelines import ETHOS_U
from tools.pipeline.export.plan.manifest import Quantization, origin
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.quantize.quantization_report import quantization_report
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.search import worst_in_float
from tools.pipeline.export.quantize.source import capture_source, prepare
from tools.pipeline.export.rewrite.spectra.spectra import front_end
from tools.pipeline.export.upstream.retracing import known_results
from tools.quiet.console import UserError


@known_results()
def lower_model(asked: LoweringRequest) -> LoweredModel:
    """Returns the program with delegates for the NPU, compared with the NPU's model on the golden inputs."""
    file, options, console = asked.file, asked.options, asked.console
    path, npu = file.path, options.npu
    assert npu is not None
    if file.has("dynamic_shapes"):
        raise UserError(f'{path}: backend "ethos_u" takes no dynamic_shapes(), an NPU has commands for one shape.')
    bits = 16 if options.io == "int16" else 8
    source = capture_source(asked)

    front = front_end(source.captured, path)

    def quantized(
        captured: ExportedProgram, given: list[golden.Sample], places: frozenset[str] = frozenset()
    ) -> Quantized:
        """Quantizes the program except for given locations."""
        folded = ETHOS_U.run(captured)
        whole = layers_of_many_steps(folded) if bits == 8 else []
        # They are said once.
        for node, steps in () if places else recurrent_steps(folded):
            of_steps = f"{steps} step{'s'[: steps != 1]}"
            text = f"is unrolled into {of_steps} for the NPU; ExecuTorch takes seconds of processor time for each"
            if node in whole:
                text = (
                    f"has {of_steps}, and {MOST_STEPS} of a model are unrolled for the NPU: the core computes it "
                    "whole; written as a loop over nn.LSTMCell or nn.GRUCell it would be unrolled"
                )
            console.say(f"export: note: {path}: {origin(node, path)} {text}.")
        in_float = delegates.InFloat(path, front, places)
        return lower.quantize(folded, given, npu, bits, path, source.state, options.io == "float32", in_float)

    def requantized(places: frozenset[str]) -> Quantized:
        return quantized(copy.deepcopy(source.captured), source.calibration or [], places)

    prepared = prepare(source, quantized)
    places, texts = worst_in_float(
        source, asked.eager, prepared.quantized, requantized, frozenset(), path, options
    )
    for text in texts:
        console.say(f"export: note: {path}: {text}")
    if places:
        prepared = prepare(source, functools.partial(quantized, places=places))
    given = [quantize.channels_last(sample) for sample in asked.eager.samples]
    start = quantize.channels_last(source.state.start())
    started = [(*start, *sample) for sample in given]

    def finished(lowered: lower.Lowered) -> tuple[LoweredModel, list[str]]:
        """Returns the model and the notes about it."""
        notes: list[str] = []
        operators = delegates.border_operators(bits)
        if bits == 8:
            try:
                in_int8 = lower.use_core(lowered, options.core, started[0], path)
            except quantize.NoInt8Form as error:
                notes.append(f"what the NPU can't take computes in floating point: {error}")
            else:
                lowered, operators = in_int8, cortex_m.BORDER
        edge = lowered.manager.exported_program()
        inputs_to_state(edge, source.state, source.inputs)
        order_for_kernels(edge, takes_any_order_as_emitted)
        check_out_variants(edge, path)
        in_float = quantize.unquantized(edge, path)
        rejected = [
            (operator, place, "it stays in floating point for accuracy" if place in places else reason)
            for operator, place, reason in lowered.rejected
        ]
        on_core = npu_report.on_core(rejected, in_float)
        estimate = npu_report.make_report(asked.name, lowered.compiled, on_core, npu)
        npu_report.check_memory(estimate, npu)
        notes += [f"stays on the core: {entry}" for entry in on_core]
        border = operators.border(edge)
        samples = given
        if options.io != "float32":
            notes += operators.remove(edge, path)
            samples = [operators.quantize_sample(sample, border.inputs) for sample in samples]
        comparison = Comparison(lowered.compiled, npu, path)
        outputs = delegates.run(edge, lowered.compiled, samples, comparison)
        notes += comparison.unchecked()
        made = LoweredModel(
            delegates.emit(lowered.manager),
            samples,
            outputs,
            Quantization(options.io, border.inputs, border.outputs),
            quantization_report(
                asked, source, replace(prepared.quantized, accurate=places), in_float, outputs, border.outputs
            ),
            (npu_report.format_report(estimate), npu_report_json(estimate)),
        )
        return made, notes

    made, notes = lower.delegate(prepared.captured, npu, path, started, finished)
    for note in notes:
        console.say(f"export: note: {path}: {note}")
    return made
