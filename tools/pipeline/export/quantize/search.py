"""Searches the operators of a quantized model that stay in floating point."""

import copy
import dataclasses
import functools
from collections.abc import Callable
from typing import TypeVar

from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.diagnosis import random_operators, some_of
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.quantize.accuracy import (
    Demand,
    OutOfReach,
    accuracy_demand,
    blamed,
    is_stream,
    leave_worst_in_float,
    leave_worst_in_int8,
    share_right,
    snr_demand,
)
from tools.pipeline.export.quantize.accuracy import costs as costs_of_places
from tools.pipeline.export.quantize.costs import Costs, has_costs
from tools.pipeline.export.quantize.float_choice import choose
from tools.pipeline.export.quantize.in_float import ALL_BUT_LAYERS, InFloat, NoInt8Form, NotFinite, PassError
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.ranges import Methods
from tools.pipeline.export.quantize.source import Source
from tools.pipeline.export.rewrite.spectra.spectra import front_end
from tools.quiet.console import UserError

# The ratio in dB, on calibration samples, below which an int8 program is of little use; errors of one that keeps state
# stay in it from call to call, and a stream that it was not calibrated on may have 5 dB less.
_USEFUL_SNR, _USEFUL_SNR_OF_STREAM = 15, 30


# Places of a model that ExecuTorch's passes fail at, which stay in floating point one by one.
_MOST_FAILED_PLACES = 4


_Made = TypeVar("_Made")


def quantizer_of(source: Source) -> Callable[[list[golden.Sample], frozenset[str]], Quantized]:
    """Returns a function that quantizes a model, calibrated on samples, except for given locations."""

    options, chosen = source.asked.options, None
    in_float = InFloat(source.path, front_end(source.captured, source.path), layers=options.keep_float)
    if options.packed and options.float_where_faster and has_costs(options.core):
        # Whoever has integers at the border wants no code for floating point between them, but may want to know.
        is_all_int8 = options.io != "float32"
        chosen = functools.partial(choose, costs=Costs(options.core), is_all_int8=is_all_int8)
    return lambda samples, places: quantize.quantize(
        copy.deepcopy(source.folded),
        samples,
        dataclasses.replace(in_float, places=places),
        source.state,
        chosen,
        has_own_layers=options.packed,
        has_float_border=options.io == "float32",
        weights=source.weights,
        ranges=Methods(options.activation_range, dict(options.activation_ranges)),
        transformed=source.transformed,
    )


def where_possible(
    make: Callable[[frozenset[str]], _Made],
    in_float: frozenset[str],
    source: Source,
    note: Callable[[str], None] | None = None,
) -> tuple[_Made, frozenset[str]]:
    """Lowers a model with some locations in floating point, and with those that turn out to have no int8 form.

    Args:
      make: makes it, given these places; raises NoInt8Form for others.
      note: is told what stays in floating point as passes fail, and why.

    Returns:
      what was made, and all places in floating point.
    """

    failed = 0
    while True:
        try:
            return make(in_float), in_float
        except NoInt8Form as error:
            places = error.places
            if isinstance(error, PassError):
                failed += 1
                # Each costs an export.
                if failed > _MOST_FAILED_PLACES:
                    places = frozenset({ALL_BUT_LAYERS})
            if source.calibration is None or places <= in_float:
                raise UserError(f"{source.path}: {error}; use the portable backend.") from error
            if note is not None and isinstance(error, PassError):
                (place,), it = places, "it"
                if place == ALL_BUT_LAYERS:
                    place, it = "all but layers with weights", "something else"
                note(
                    f"{place} stays in floating point, as int8 of {it} can't be lowered ({error}). Please report this "
                    "with the model file."
                )
            if note is not None and isinstance(error, NotFinite):
                note(
                    f"{some_of(sorted(places - in_float))} stays in floating point, as it makes or takes NaN or "
                    "infinity, for which integers have no values."
                )
            in_float |= places


def _demands(source: Source) -> list[Demand]:
    """Returns the user's demands on a quantized model.

    Raises UserError for what the model file can't be measured by, or doesn't have in floating point.
    """

    path, options, eager = source.path, source.asked.options, source.asked.eager
    demands = [snr_demand(options.min_snr)] if options.min_snr else []
    if options.min_accuracy:
        labels, samples = eager.labels, [channels_last(sample) for sample in eager.samples]
        demand = f'{path}: min_accuracy = "{options.min_accuracy:g}"'
        if labels is None:
            raise UserError(f"{demand} needs evaluation_set(), inputs and their labels, in the model file.")
        floating = share_right(eager.outputs, labels)
        if floating < options.min_accuracy:
            raise UserError(f"{demand}, but in floating point it is {floating:.4g}: demand less, or train on.")
        demands.append(accuracy_demand(options.min_accuracy, samples, labels))
    if source.calibration is None and demands:
        raise UserError(f"{path}: {demands[0].text}, but model() is quantized already.")
    return demands


def without_places(source: Source) -> Callable[[frozenset[str]], Quantized]:
    """Returns a function that quantizes a model for the core except for given locations."""
    quantize_captured, samples = quantizer_of(source), source.calibration or []

    def requantized(places: frozenset[str]) -> Quantized:
        return where_possible(lambda more: quantize_captured(samples, more), places, source)[0]

    return requantized


# Advice for an int8 program whose outputs have too much noise, besides better calibration: by backend, where its inputs
# and outputs are integers, and where no layers that stay in floating point help.
_LAYERS_STAY = 'io = "float32", with which the build leaves such layers in floating point, '
_HELPS = {
    "cortex_m": (_LAYERS_STAY, ", or the portable backend"),
    "ethos_u": (_LAYERS_STAY, ', or io = "int16"'),
    "vgf": ('io = "float32", with which nothing is quantized, ', ""),
}


def worst_in_float(
    source: Source, quantized: Quantized, requantized: Callable[[frozenset[str]], Quantized], in_float: frozenset[str]
) -> frozenset[str]:
    """Returns the locations that stay in floating point for the model to be accurate, and prints notes about them.

    Args:
      requantized: quantizes the model except for given locations.
      in_float: those that stay there anyway.
    """

    demands = _demands(source)
    if source.calibration is None:
        return in_float
    asked, path, options = source.asked, source.path, source.asked.options
    useful = snr_demand(_USEFUL_SNR_OF_STREAM if is_stream(quantized) else _USEFUL_SNR)
    for_integers, for_floats = _HELPS[options.backend]
    most = "Most of the noise is made at"
    calibration = "calibration_inputs() as the device will see them"
    training = "training on with int8 (docs/quantize.md)"
    if options.io != "float32":
        reached = useful.measure(quantized)
        if reached < useful.least:
            asked.note(
                f"the outputs have {useful.shown(reached)} against floating point, less than {useful.least} dB. {most} "
                f"{blamed(costs_of_places(quantized, path))}. What helps: {for_integers}{calibration}, or {training}."
            )
        return in_float
    # Random numbers of a model differ in each run.
    is_measured = not options.min_snr and not random_operators(source.captured, path)
    for demand in [*([useful] if is_measured else []), *demands]:
        try:
            found = leave_worst_in_float(quantized, requantized, in_float, demand, path)
        except OutOfReach as error:
            if demand in demands:
                raise
            asked.note(
                f"the outputs have {error.measured} against floating point, less than {useful.least} dB, and no layers "
                f"that stay in floating point bring that. {most} {error.blamed}. What helps: {calibration}, {training}"
                f"{for_floats}."
            )
            continue
        if found is not None:
            in_float, quantized, text = found
            asked.note(text)
    return in_float


def worst_in_int8(source: Source, quantized: Quantized, in_float: frozenset[str]) -> tuple[frozenset[str], str]:
    """The result of leave_worst_in_int8()."""

    samples = source.calibration
    assert samples is not None

    def without_lowering(places: frozenset[str]) -> Quantized:
        given = dataclasses.replace(source, weights=dataclasses.replace(source.weights, in_int8=places))
        return quantizer_of(given)(samples, in_float)

    return leave_worst_in_int8(quantized, without_lowering, source.asked.options.min_snr, source.path)
