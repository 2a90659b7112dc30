"""Captures a model that is to be quantized."""

import copy
import dataclasses
import difflib
import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch.export import ExportedProgram
from torch.fx import GraphModule

from tools.pipeline.export.backends.cortex_m.int4 import WeightDtypes
from tools.pipeline.export.backends.request import LoweringRequest
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.capture import capture, capture_model, without_branches
from tools.pipeline.export.capture.diagnosis import random_operators
from tools.pipeline.export.capture.reference import SAMPLES, check_reference, first_other, run_module, run_program
from tools.pipeline.export.capture.state import State, state_to_inputs
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.quantize import quantize
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.views import reshape_views
from tools.quiet.console import UserError

# A weight_dtype: int4 where min_snr allows it, and int8 elsewhere.
AUTO = "auto"

# How often the example inputs of a model with state are its calibration.
_CALLS = 8


@dataclass(frozen=True)
class Source:
    """A model that is to be quantized.

    Attributes:
      asked: the request that it is for.
      captured: with its state as its first inputs and outputs, and images channels-last.
      state: what the model keeps.
      inputs: example inputs, with images channels-last.
      calibration: samples; None if the model's author quantized it.
      weights: which layers get int4 weights.
    """

    asked: LoweringRequest
    captured: ExportedProgram
    state: State
    inputs: golden.Sample
    calibration: list[golden.Sample] | None
    weights: WeightDtypes

    @property
    def path(self) -> Path:
        """The model file."""
        return self.asked.file.path

    @functools.cached_property
    def folded(self) -> ExportedProgram:
        """The captured program in the forms that are quantized for Cortex-M, once for all that is tried."""
        return CORTEX_M.run(copy.deepcopy(self.captured))

    @functools.cached_property
    def transformed(self) -> list[GraphModule]:
        """Is empty, or has the calibrated module in the forms that ExecuTorch annotates, once for all that is tried."""
        return []


@dataclass(frozen=True)
class Prepared:
    """A quantized model.

    Attributes:
      quantized: as its layers are measured.
      captured: for lowering, with its state as its first inputs and outputs.
    """

    quantized: Quantized
    captured: ExportedProgram


def capture_source(asked: LoweringRequest) -> Source:
    """Captures a model that is to be quantized; one that its author quantized, with images channels-last."""
    file = asked.file
    for index, value in enumerate(asked.eager.inputs):
        if asked.options.io != "float32" and value.is_floating_point() and value.dtype != torch.float32:
            dtype = str(value.dtype).removeprefix("torch.")
            raise UserError(
                f"{file.path}: io = '{asked.options.io}' quantizes inputs of float32, and input {index} is of {dtype}; "
                "call .float() on the model, and give it float32, or use io = 'float32'."
            )
    captured = capture_model(file, asked.eager, asked.note)
    captured = without_branches(captured, file.path, asked.options.backend, asked.note)
    inputs = channels_last(asked.eager.inputs)
    if quantize.is_quantized(captured):
        asked.note("model() is quantized already; it is lowered as it is.")
        module = asked.eager.module.to(memory_format=torch.channels_last)
        return Source(asked, capture(module, inputs), State({}), inputs, None, WeightDtypes())
    captured, state = state_to_inputs(captured)
    calibration = _calibration_samples(asked, inputs, bool(state.buffers))
    options = asked.options
    dtype = "int4" if options.weight_dtype == AUTO else options.weight_dtype
    weights = WeightDtypes(dtype, dict(options.weight_dtypes), options.group_size)
    return Source(asked, _lay_out_channels_last(captured), state, inputs, calibration, weights)


def _lay_out_channels_last(captured: ExportedProgram) -> ExportedProgram:
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


def _calibration_samples(asked: LoweringRequest, inputs: golden.Sample, is_stream: bool) -> list[golden.Sample]:
    """Returns the model file's calibration_inputs(), or its example inputs, with a note, if it has none."""
    if asked.file.has("calibration_inputs"):
        return [channels_last(sample) for sample in asked.file.calibration_inputs()]
    asked.note(
        "the file has no calibration_inputs(): the ranges of int8 tensors come from example_inputs() alone, which "
        "makes a less accurate model unless they cover what the device will see."
    )
    # State that begins with zeros has a range from the second call on.
    return [inputs] * (_CALLS if is_stream else 1)


# Quantizes a captured program, which it may change, calibrated on samples.
Quantizer = Callable[[ExportedProgram, list[golden.Sample]], Quantized]


def prepare(source: Source, quantize_captured: Quantizer) -> Prepared:
    """Quantizes a model that its author has not quantized.

    Raises WrongReference if it is another one in floating point, an error of the export.
    """
    if source.calibration is None:
        quantized = quantize.Quantized(source.captured.module(check_guards=False), [], [], {})
        return Prepared(quantized, copy.deepcopy(source.captured))
    quantized = quantize_captured(copy.deepcopy(source.captured), source.calibration)
    _check_floating(source, quantized, quantize_captured)
    inputs = (*channels_last(source.state.start()), *source.inputs)
    return Prepared(quantized, capture(quantized.module, inputs))


def _check_floating(source: Source, quantized: Quantized, quantize_captured: Quantizer) -> None:
    """Checks that the module in floating point, to which quantization and its accuracy are held, is the user's."""
    asked, calibration = source.asked, source.calibration
    if quantized.floating is None or calibration is None or random_operators(source.captured, asked.file.path):
        return

    def make_again() -> None:
        # The results of earlier passes are made again, too.
        vars(source).pop("folded", None)
        source.transformed.clear()
        quantize_captured(capture_source(asked.silent()).captured, calibration)

    eager = dataclasses.replace(
        asked.eager, samples=[channels_last(sample) for sample in asked.eager.samples[:SAMPLES]]
    )
    start = channels_last(source.state.start())
    floating = quantized.floating

    def is_clipped() -> bool:
        """An equalized channel meets a clamp's limit, or a masked score that of the others, where golden inputs are
        larger than those of calibration.
        """
        if not (quantized.equalized or quantized.is_limited):
            return False
        captured = run_program(source.captured, eager.samples, start)
        if first_other(captured, eager.outputs[:SAMPLES]) is not None:
            return False
        expected = run_program(source.captured, quantized.measured, start)
        return first_other(run_module(floating, quantized.measured, start), expected) is None

    check_reference(floating, eager, start, "the model that is quantized", make_again, is_clipped)


def check_layers(asked: LoweringRequest, is_quantized: bool) -> None:
    """Raises UserError for layers that are named in the options, but are none, or are quantized already."""
    path, options = asked.file.path, asked.options
    layers = {name: module for name, module in asked.eager.written.named_modules() if name}
    if is_quantized and options.weight_dtype != "int8":
        raise UserError(f"{path}: weight_dtype = {options.weight_dtype}, but model() is quantized already.")
    if is_quantized and options.activation_range != "auto":
        raise UserError(f"{path}: activation_range = {options.activation_range}, but model() is quantized already.")
    named = [("keep_float", name) for name in options.keep_float]
    named += [("weight_dtypes", name) for name, _ in options.weight_dtypes]
    named += [("activation_ranges", name) for name, _ in options.activation_ranges]
    for attribute, name in named:
        if is_quantized:
            raise UserError(f"{path}: {attribute} names {name!r}, but model() is quantized already.")
        if name not in layers:
            near = difflib.get_close_matches(name, layers, 5, 0) if layers else []
            raise UserError(
                f"{path}: {attribute} names {name!r}, which is no layer of the model; it has "
                f"{', '.join(near) or 'none'}{' and more' if len(layers) > len(near) else ''}."
            )
