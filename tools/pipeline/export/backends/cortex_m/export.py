"""Exports a model to int8 for a Cortex-M core."""

import copy
import dataclasses
import functools
from collections.abc import Callable

from executorch.backends.cortex_m.target_config import CortexMTargetConfig
from torch.export import ExportedProgram

from tools.pipeline.export.backends.cortex_m import lower
from tools.pipeline.export.backends.portable import lower_method
from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.capture.diagnosis import check_out_variants, in_floating_point, places_behind
from tools.pipeline.export.capture.reference import WrongReference
from tools.pipeline.export.capture.state import State, inputs_to_state
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.plan.emission import EmittedProgram, emit, optimized
from tools.pipeline.export.plan.manifest import Quantization
from tools.pipeline.export.quantize import costs, quantize, report
from tools.pipeline.export.quantize.in_float import ALL_BUT_LAYERS, NoInt8Form, PassError
from tools.pipeline.export.quantize.quantization_report import quantization_report
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.search import (
    quantizer_of,
    where_possible,
    without_places,
    worst_in_float,
    worst_in_int8,
)
from tools.pipeline.export.quantize.source import AUTO, Source, capture_source, check_layers, prepare
from tools.quiet.console import UserError

# Floating point is chosen for a whole model only if it takes at most this share of the instructions of int8.
WORTH = 0.9
# Less memory is not what int8 is chosen for: the smallest core with costs has sixty times as much.
FEW_BYTES = 512


def lower_model(asked: LoweringRequest) -> LoweredModel:
    """Returns the int8 program, or the floating-point one if that is the better choice."""
    file, options = asked.file, asked.options
    path = file.path
    if file.has("dynamic_shapes"):
        raise UserError(
            f'{path}: backend "cortex_m" packs layers for one shape and takes no dynamic_shapes(); '
            "remove it, or use the portable backend."
        )
    source = capture_source(asked)
    check_layers(asked, source.calibration is None)
    samples = [channels_last(sample) for sample in asked.eager.samples]
    target = lower.target_of(options.core)

    def lowered(places: frozenset[str]) -> tuple[Quantized, ExportedProgram]:
        return _to_int8(source, places, target)

    (quantized, edge), in_float = where_possible(lowered, frozenset(), source, asked.note)
    if options.weight_dtype == AUTO:
        in_int8, text = worst_in_int8(source, quantized, in_float)
        asked.note(text)
        if in_int8:
            source = dataclasses.replace(source, weights=dataclasses.replace(source.weights, in_int8=in_int8))
            (quantized, edge), in_float = where_possible(lowered, in_float, source, asked.note)
    floating = functools.cache(lambda: lower_method(asked.file, asked.eager, asked.silent().note))
    without_int8, note = _without_int8(asked, floating, quantized, edge, target)
    if without_int8 is not None:
        return without_int8
    before = in_float
    in_float = worst_in_float(source, quantized, without_places(source), in_float)
    if in_float != before:
        (quantized, edge), in_float = where_possible(lowered, in_float, source, asked.note)
        # More locations may be in floating point now than int8 is worth.
        without_int8, note = _without_int8(asked, floating, quantized, edge, target)
        if without_int8 is not None:
            return without_int8
        quantized = dataclasses.replace(quantized, accurate=in_float - before)
    if note:
        asked.note(note)
    unquantized = quantize.unquantized(edge, path)
    # The report lists all of them.
    places = [place for _, place in unquantized]
    for line in in_floating_point(places, quantized.reasons, type(asked.eager.written).__name__):
        asked.note(line)
    border = lower.BORDER.border(edge)
    if options.io == "int8":
        for text in lower.BORDER.remove(edge, path):
            asked.note(text)
        samples = [lower.BORDER.quantize_sample(sample, border.inputs) for sample in samples]
    lower.read_unquantized(edge)
    lower.quantize_later(edge)
    outputs = lower.run(edge, samples)
    if options.packed:
        edge = lower.pack(edge, target)
        for place in lower.without_window(edge, path):
            asked.note(
                f"{place} has too long a kernel or stride for a packed layer: in int8 it takes several times the "
                "instructions that it takes in floating point; keep_float leaves it there."
            )
        lower.check_packed(edge, samples[0], outputs[0])
    check_out_variants(edge, path)
    quantization = Quantization(options.io, border.inputs, border.outputs)
    made = quantization_report(asked, source, quantized, unquantized, outputs, border.outputs)
    return LoweredModel(emit(edge, lower.config()), samples, outputs, quantization, made)


def _to_int8(
    source: Source, in_float: frozenset[str], target: CortexMTargetConfig
) -> tuple[Quantized, ExportedProgram]:
    """Returns the quantized model and its program of int8 operators.

    Args:
      in_float: locations in the model that stay in floating point, `ALL_BUT_LAYERS`, or none.

    Raises NoInt8Form for locations that cannot be lowered or would be refused on a device.
    """

    path, quantize_captured = source.path, quantizer_of(source)
    try:
        prepared = prepare(source, lambda _, samples: quantize_captured(samples, in_float))
        edge = lower.to_cortex_m(prepared.captured, target)
        inputs_to_state(edge, State(lower.BORDER.keep_states(edge, source.state.buffers)), source.inputs)
        quantize.check_integers(edge, path)
        lower.run(edge, [source.inputs])
    except (UserError, NoInt8Form, WrongReference):
        raise
    except Exception as error:
        # ExecuTorch's passes raise various errors for operators that they don't support.
        found = (place for place in places_behind(error, path) if place not in in_float)
        place = next(found, ALL_BUT_LAYERS)
        raise PassError(place, _first_line(error.__cause__ or error)) from error
    return prepared.quantized, edge


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0]


def _without_int8(
    asked: LoweringRequest,
    floating: Callable[[], EmittedProgram],
    quantized: Quantized,
    edge: ExportedProgram,
    target: CortexMTargetConfig,
) -> tuple[LoweredModel | None, str]:
    """Returns the model all in floating point if nothing is int8, or if that takes far fewer instructions and no more
    bytes; and None if the program is int8, with a note if that is slower.

    The note has the estimates of the other form and the attribute that selects it. It is printed here for a model in
    floating point.

    Args:
      floating: makes the program in floating point.
      edge: the int8 program.
    """
    if not _may_be_in_float(asked, quantized):
        return None, ""
    try:
        emitted = floating()
    except UserError:
        # The model can only be exported in int8.
        return None, ""
    if quantize.is_quantized(quantized.module):
        is_better, note = _compare(asked, emitted, quantized, edge, target)
        if not is_better:
            return None, note
    else:
        note = "everything stays in floating point: no operator has an int8 form that takes fewer instructions."
    asked.note(note)
    return _in_float(asked, emitted, quantized, note), note


def _may_be_in_float(asked: LoweringRequest, quantized: Quantized) -> bool:
    """Whether the estimates ask for a model without int8, and the options don't rule it out."""
    if quantized.floating is None or quantized.instructions is None:
        return False
    in_int8, in_float = quantized.instructions
    # A user who asks for small weights doesn't want large ones.
    has_small_weights = asked.options.weight_dtype != "int8" or any(
        dtype == "int4" for _, dtype in asked.options.weight_dtypes
    )
    return not has_small_weights and (in_int8 > in_float or not quantize.is_quantized(quantized.module))


def _compare(
    asked: LoweringRequest,
    emitted: EmittedProgram,
    quantized: Quantized,
    edge: ExportedProgram,
    target: CortexMTargetConfig,
) -> tuple[bool, str]:
    """Returns whether a model without int8 is the better choice, and a note about both, which is empty if int8 takes
    fewer instructions.
    """
    path, options = asked.file.path, asked.options
    in_int8, in_float = quantized.instructions or (0, 0)
    nodes, *floating_bytes = optimized(emitted, options)
    # The instructions of loops and branches are known only in the int8 program's form, which has neither.
    if emitted.file is None:
        in_float = costs.instructions(nodes, costs.Costs(options.core))
    if in_int8 <= in_float:
        return False, ""
    int8 = copy.deepcopy(edge)
    if options.io == "int8":
        lower.BORDER.remove(int8, path)
    sizes = [optimized(emit(lower.pack(int8, target), lower.config()), options)[1:], floating_bytes]
    grown, more = (max(0, larger - smaller) for smaller, larger in zip(*sizes, strict=True))
    growth = 0 if grown == 0 and more < FEW_BYTES else grown + more
    takes = [
        f"{instructions:,.0f} instructions, {size:,} bytes of program and {memory:,} of memory"
        for instructions, (size, memory) in zip((in_int8, in_float), sizes, strict=True)
    ]
    is_worth_it = options.io == "float32" and in_float <= WORTH * in_int8
    if is_worth_it and growth <= options.float_growth:
        return True, (
            f"everything stays in floating point, for about {takes[1]}; int8 would take about {takes[0]}, and "
            "float_where_faster = False chooses it."
        )
    chooses = f"float_growth = {growth}" if is_worth_it else 'backend = "portable"'
    return False, (
        f"the program is int8, for about {takes[0]}; floating point would take about {takes[1]}, and {chooses} chooses "
        "it."
    )


def _in_float(asked: LoweringRequest, emitted: EmittedProgram, quantized: Quantized, note: str) -> LoweredModel:
    """Returns the model all in floating point, with a report that has the note."""
    assert quantized.floating is not None
    outputs = asked.eager.outputs
    accuracy = report.accuracy(outputs, outputs, asked.eager.labels, asked.file.labels())
    made = report.make_float_report(asked.name, asked.options.core, quantized.floating, accuracy, note, asked.file.path)
    inputs, results = asked.eager.names
    quantization = Quantization(asked.options.io, [None for _ in inputs], [None for _ in results])
    return LoweredModel(emitted, asked.eager.samples, outputs, quantization, made)
