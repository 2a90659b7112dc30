"""Exports the model of a model file: program, golden data and manifest."""

from __future__ import annotations

import copy
import dataclasses
import difflib
import functools
import io
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from executorch.exir.schema import ExecutionPlan, Program, Tensor
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.fx import Node
from torch.nn.utils import parametrize

from tools.artifacts.core.core import has_dsp
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.manifest.manifest import manifest_json
from tools.artifacts.npu_report.npu_report import npu_report_json
from tools.artifacts.quantization_report.quantization_report import QuantizationReport, quantization_report_json
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.diagnosis import (
    check_captured,
    check_examples,
    check_out_variants,
    explain_capture,
    explain_forward,
    explain_lowering,
    in_floating_point,
    places_behind,
    random_operators,
    some_of,
)
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.lower import EmittedProgram, capture, emit, propagate_constants, to_edge
from tools.pipeline.export.plan.manifest import Parameters, Quantization, make_manifest, origin
from tools.pipeline.export.plan.memory_plan import MemoryPlan
from tools.pipeline.export.plan.one_run import check_run
from tools.pipeline.export.plan.plan_passes import LEAD, constant_only_instructions, optimize_plan
from tools.pipeline.export.plan.serialize import serialize
from tools.pipeline.export.rewrite.assignments import assemble
from tools.pipeline.export.rewrite.attention import attention_for_arm, decompose_attention
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose
from tools.pipeline.export.rewrite.own_operators import define_out_variant
from tools.pipeline.export.rewrite.spectra.spectra import front_end, remove_complex_numbers
from tools.pipeline.export.upstream.retracing import known_results
from tools.pipeline.model_file.call import CALLED, called, check_names
from tools.pipeline.model_file.deterministic import make_deterministic, tracing
from tools.pipeline.model_file.model_file import ModelFile
from tools.pipeline.model_file.sample_calls import find_operator
from tools.quiet.console import Console, UserError

if TYPE_CHECKING:
    from executorch.backends.cortex_m.target_config import CortexMTargetConfig

    from tools.pipeline.export.backends.cortex_m.int4 import WeightDtypes
    from tools.pipeline.export.capture.state import State
    from tools.pipeline.export.quantize.accuracy import Demand
    from tools.pipeline.export.quantize.quantize import Quantized

# Of weight_dtype: int4 where min_snr allows it.
_AUTO = "auto"

# What floating point may take of the instructions of int8, which is what was asked for, to be chosen for a whole model.
_WORTH = 0.9

# The ratio in dB, on calibration samples, below which an int8 program is of little use.
_USEFUL_SNR = 15
# Places of a model that ExecuTorch's passes fail at, which stay in floating point one by one.
_MOST_FAILED_PLACES = 4


@dataclass(frozen=True)
class ExportedMethod:
    """The files of a further method of a program."""

    golden: bytes
    manifest: bytes


@dataclass(frozen=True)
class Exported:
    """The files of an export; a quantized program has a report, one of several methods the further ones' files.

    Attributes:
      npu: what an NPU's compiler estimates, for people and for programs.
      vgf: the .vgf of each delegate, with backend `vgf`.
    """

    program: bytes
    golden: bytes
    manifest: bytes
    report: bytes | None
    methods: dict[str, ExportedMethod]
    npu: tuple[bytes, bytes] | None
    vgf: list[bytes]


@dataclass(frozen=True)
class Options:
    """What a program is exported to.

    Attributes:
      core: the core that the program is for, `portable` if any.
      backend: what computes: `portable`, kernels of ExecuTorch's operator set in the model's own dtypes; `cortex_m`,
        which quantizes the model to int8; `ethos_u`, which quantizes it for the NPU; `vgf`, Vulkan on the host.
      io: dtype of a quantized program's inputs and outputs, `float32`, `int8`, or with `ethos_u` `int16`, with which
        all activations have 16 bits.
      packed: whether a quantized program's layers become this project's own operators, with constants in the layout of
        their kernels; without, it consists of ExecuTorch's `cortex_m::` operators.
      float_where_faster: whether operators of a packed program with inputs and outputs in floating point stay there
        where they take fewer instructions and are no larger.
      float_growth: bytes of program and memory that such a program may take more for being all in floating point,
        where that takes fewer instructions; 0: it may take no more of either.
      winograd_growth: bytes of memory that a packed program for a core with the DSP extension may take more for
        convolutions with fewer multiplications.
      keep_float: names of modules of a model that is quantized which stay in floating point.
      min_snr: what the outputs of an int8 program must have of signal-to-noise ratio, in dB; 0: nothing is demanded.
      min_accuracy: the share of evaluation samples that an int8 program must classify right; 0: nothing is demanded.
      weight_dtype: of the weights of linear layers and convolutions of one by one, with backend `cortex_m`: `int8`,
        `int4`, or `auto`: int4 where the outputs still have min_snr.
      weight_dtypes: names of modules and the dtypes of the weights inside them, `int8` or `int4`.
      group_size: how many inputs share a scale of int4 weights, 32; 0: all of an output channel do.
      activation_range: how the ranges of int8 tensors are chosen, with backend `cortex_m`: one of ranges.METHODS.
      activation_ranges: names of modules and how the ranges of what is computed inside them are chosen.
      operators: operators of the user's own that have a kernel, `namespace::name`.
      folders: what the model file imports from, besides its own folder and the workspace.
      methods: methods of the module besides forward(), which the program has too.
      npu: the board's NPU, with backend `ethos_u`.
      entry: which of the models that the file describes; empty: it describes one.
    """

    core: str = "portable"
    backend: str = "portable"
    io: str = "float32"
    packed: bool = True
    float_where_faster: bool = False
    float_growth: int = 0
    winograd_growth: int = 0
    keep_float: tuple[str, ...] = ()
    min_snr: int = 0
    min_accuracy: float = 0.0
    weight_dtype: str = "int8"
    weight_dtypes: tuple[tuple[str, str], ...] = ()
    group_size: int = 32
    activation_range: str = "auto"
    activation_ranges: tuple[tuple[str, str], ...] = ()
    operators: tuple[str, ...] = ()
    folders: tuple[Path, ...] = ()
    methods: tuple[str, ...] = ()
    npu: Npu | None = None
    entry: str = ""


@dataclass(frozen=True)
class _Eager:
    """A method of the user's module, and what it returns in eager mode.

    Attributes:
      module: takes tensors, one after another.
      names: of its inputs and of its outputs.
      inputs: the example inputs.
      samples: the golden inputs.
      outputs: what it returns for them.
      labels: the evaluation set's, if there is one.
    """

    module: torch.nn.Module
    names: tuple[list[str], list[str]]
    inputs: golden.Sample
    samples: list[golden.Sample]
    outputs: list[list[torch.Tensor]]
    labels: torch.Tensor | None

    @property
    def written(self) -> torch.nn.Module:
        """The module as the user wrote it."""
        return getattr(self.module, CALLED, self.module)


@dataclass(frozen=True)
class _Asked:
    """What a backend is asked to lower.

    Attributes:
      file: the model file.
      name: the program's.
      eager: the method and its golden data.
    """

    file: ModelFile
    name: str
    eager: _Eager
    options: Options
    console: Console


@dataclass
class _Lowered:
    """What a backend makes of a model.

    Attributes:
      emitted: the program.
      samples: the golden inputs as the program takes them.
      outputs: what the program must return for them.
      quantization: of a quantized program.
      report: of a quantized program.
      npu: what the NPU's compiler estimates, for people and for programs.
      vgf: the .vgf of each delegate.
    """

    emitted: EmittedProgram
    samples: list[golden.Sample]
    outputs: list[list[torch.Tensor]]
    quantization: Quantization | None = None
    report: QuantizationReport | None = None
    npu: tuple[str, str] | None = None
    vgf: list[bytes] = field(default_factory=list)


def export(path: Path, name: str, options: Options, weights: Path | None, console: Console) -> Exported:
    """Exports the model in the file `path`.

    Args:
      name: the program's name in the manifest.
      weights: a state_dict that tools/pipeline/train wrote, if the model is trained.

    Raises UserError for what the user can mend.
    """
    make_deterministic()
    file = ModelFile(path, options.folders, options.entry)
    for operator in options.operators:
        define_out_variant(find_operator(operator, str(path)))
    model = file.model()
    if weights is not None:
        _load_weights(model, weights, path)
    _keep_weights(model)
    eager = _run_eager(file, model)
    for index in golden.non_finite_outputs(eager.outputs):
        console.say(f"export: warning: {path}: output {index} of the model holds NaN or infinity in eager mode.")

    with tracing():
        lowered = _BACKENDS[options.backend](_Asked(file, name, eager, options, console))
    emitted = lowered.emitted
    nodes, memory = emitted.nodes, None
    if emitted.file is None:
        nodes, memory = _optimize(emitted, options)
    else:
        check_examples(eager.inputs, emitted.program, path)
    if options.methods and (emitted.file is not None or emitted.keeps_state or options.backend != "portable"):
        raise UserError(f"{path}: {_ONE_METHOD}")
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    # Before constants of other methods come.
    manifest = make_manifest(
        name,
        options.core,
        options.backend,
        emitted.program,
        constants,
        nodes,
        memory,
        path,
        eager.names,
        lowered.quantization,
        emitted.keeps_state,
        _parameters(emitted, eager),
        emitted.bounds,
    )
    methods = {
        method: _add_method(method, file, model, emitted.program, constants, name, options, console)
        for method in options.methods
    }
    exported = emitted.file or serialize(emitted.program, constants, emitted.states)
    if options.backend == "portable":
        macs = sum(instruction["macs"] for instruction in manifest["instructions"])
        check_run(exported, emitted.program.execution_plan[0], macs, lowered.samples[0], lowered.outputs[0])
    return Exported(
        program=exported,
        golden=golden.serialize(
            lowered.samples,
            lowered.outputs,
            eager.labels,
            eager=eager.outputs if options.backend != "portable" else None,
            dim_orders=_dim_orders(manifest),
        ),
        manifest=manifest_json(manifest).encode(),
        report=None if lowered.report is None else quantization_report_json(lowered.report).encode(),
        methods=methods,
        npu=None if lowered.npu is None else (lowered.npu[0].encode(), lowered.npu[1].encode()),
        vgf=lowered.vgf,
    )


def _keep_weights(model: torch.nn.Module) -> None:
    """Makes weights that parametrizations compute (spectral or weight normalization, orthogonal ones) plain ones."""
    for module in list(model.modules()):
        if parametrize.is_parametrized(module):
            for name in list(module.parametrizations):
                parametrize.remove_parametrizations(module, name, leave_parametrized=True)


def _run_eager(file: ModelFile, model: torch.nn.Module, method: str = "") -> _Eager:
    """Runs forward() of the user's module, or another method of it, on the user's inputs.

    Raises UserError for a method that a program can't have, or that fails.
    """
    path = file.path
    place = f"{path}: {method}()" if method else str(path)
    call = file.example_call(method) if method else file.example_call()
    input_names = call.names(getattr(model, method) if method else model.forward)
    check_names(input_names, f"{path}: method_inputs(): {method!r}" if method else f"{path}: example_inputs()")
    if method:
        module = called(model, call, input_names, method)
    elif not call.is_flat:
        if file.has("dynamic_shapes"):
            raise UserError(f"{path}: dynamic_shapes() are of a model that takes a tuple of tensors alone.")
        module = called(model, call, input_names)
    else:
        module = model
    # A program takes its inputs in the default order of dimensions, whatever views the example inputs are.
    inputs = tuple(tensor.contiguous() for tensor in call.tensors)
    golden.check_dtypes(inputs, f"{place}: example input")
    samples, labels = file.evaluation_set() if not method and file.has("evaluation_set") else ([inputs], None)
    try:
        outputs, output_names, is_plain = golden.run_eager(module, samples)
    except UserError as error:
        raise UserError(f"{place}: {error}") from error
    except Exception as error:
        raise explain_forward(file, module, inputs, error) from error
    golden.check_dtypes(outputs[0], f"{place}: the model's output")
    if module is model and not is_plain:
        module = called(model, call, input_names)
    return _Eager(module, (input_names, output_names), inputs, samples, outputs, labels)


def _parameters(emitted: EmittedProgram, eager: _Eager) -> dict[str, str]:
    """What the user calls the parameters and buffers of a program, by their nodes."""
    own = dict(itertools.chain(eager.module.named_parameters(), eager.module.named_buffers()))
    return {node: name.removeprefix(f"{CALLED}.") for node, name in emitted.constants.items() if name in own}


def _optimize(emitted: EmittedProgram, options: Options) -> tuple[list[Node | None], MemoryPlan]:
    """Optimizes the plan of a program; returns the nodes of the instructions that it keeps, and its memory."""
    plan = emitted.program.execution_plan[0]
    leads = {index: node.meta[LEAD] for index, node in enumerate(emitted.nodes) if node and LEAD in node.meta}
    report = optimize_plan(plan, leads)
    wasted = constant_only_instructions(plan)
    assert not wasted, f"instructions {wasted} of the plan work on constants only"
    if options.winograd_growth and has_dsp(options.core):
        from tools.pipeline.export.backends.cortex_m.winograd import use_winograd

        use_winograd(emitted.program, report, options.winograd_growth)
    return [emitted.nodes[index] for index in report.kept], report.memory


def _dim_orders(manifest: dict[str, Any]) -> tuple[list[list[int]], list[list[int]]]:
    """The orders of dimensions of a program's inputs and outputs."""
    inputs, outputs = ([entry["dim_order"] for entry in manifest[kind]] for kind in ("inputs", "outputs"))
    return inputs, outputs


# What a program of several methods cannot be.
_ONE_METHOD = (
    "a program of several methods can be neither quantized, nor keep state, nor have control flow or dynamic shapes; "
    "make a program of each method"
)


def _add_method(
    method: str,
    file: ModelFile,
    model: torch.nn.Module,
    program: Program,
    constants: list[bytes],
    name: str,
    options: Options,
    console: Console,
) -> ExportedMethod:
    """Adds a method to a program, whose constants it shares.

    Args:
      program: gets the method's plan.
      constants: get those of its constants that are not among them.
      name: the program's.
    """
    path = file.path
    if not callable(getattr(model, method, None)):
        raise UserError(f"{path}: the module that model() returns has no method {method}().")
    eager = _run_eager(file, model, method)
    with tracing():
        emitted = _lower(file, eager, console)
    if emitted.file is not None or emitted.keeps_state:
        raise UserError(f"{path}: {_ONE_METHOD}")
    nodes, memory = _optimize(emitted, options)
    own = [buffer.storage for buffer in emitted.program.constant_buffer]
    manifest = make_manifest(
        f"{name}_{method}",
        options.core,
        options.backend,
        emitted.program,
        own,
        nodes,
        memory,
        path,
        eager.names,
        parameters=_parameters(emitted, eager),
    )
    plan = emitted.program.execution_plan[0]
    plan.name = method
    _share_constants(plan, own, constants)
    program.execution_plan.append(plan)
    return ExportedMethod(
        golden=golden.serialize(eager.samples, eager.outputs, None, dim_orders=_dim_orders(manifest)),
        manifest=manifest_json(manifest).encode(),
    )


def _share_constants(plan: ExecutionPlan, own: list[bytes], constants: list[bytes]) -> None:
    """Makes a plan refer to `constants` in place of `own`; those that are missing are appended."""
    places = {constant: index for index, constant in reversed(list(enumerate(constants))) if index}
    for value in plan.values:
        if isinstance(value.val, Tensor) and value.val.data_buffer_idx:
            constant = own[value.val.data_buffer_idx]
            if constant not in places:
                places[constant] = len(constants)
                constants.append(constant)
            value.val.data_buffer_idx = places[constant]


def _lower(file: ModelFile, eager: _Eager, console: Console | None) -> EmittedProgram:
    captured = _capture(file, eager, console)
    try:
        edge = to_edge(captured)
    except SpecViolationError as error:
        raise explain_lowering(captured, file.path, error) from error
    check_out_variants(edge, file.path)
    return emit(edge)


@dataclass(frozen=True)
class _Source:
    """A model that is to be quantized.

    Attributes:
      captured: with its state as its first inputs and outputs, and images channels-last.
      state: what the model keeps.
      inputs: example inputs, with images channels-last.
      calibration: samples; None if the model's author quantized it.
      weights: which layers get int4 weights.
    """

    captured: ExportedProgram
    state: State
    inputs: golden.Sample
    calibration: list[golden.Sample] | None
    weights: WeightDtypes


@dataclass(frozen=True)
class _Prepared:
    """A quantized model.

    Attributes:
      quantized: as its layers are measured.
      captured: for lowering, with its state as its first inputs and outputs.
    """

    quantized: Quantized
    captured: ExportedProgram


def _source(asked: _Asked) -> _Source:
    """Captures a model that is to be quantized; one that its author quantized, with images channels-last."""
    file, console = asked.file, asked.console
    # Imported here: it costs seconds, and only programs that are quantized need it.
    from tools.pipeline.export.backends.cortex_m.int4 import WeightDtypes
    from tools.pipeline.export.capture.state import State, state_to_inputs
    from tools.pipeline.export.quantize import quantize

    captured = _capture(file, asked.eager, console)
    _check_no_branches(captured, file.path, asked.options.backend)
    inputs = quantize.channels_last(asked.eager.inputs)
    if quantize.is_quantized(captured):
        console.say(f"export: note: {file.path}: model() is quantized already; it is lowered as it is.")
        module = asked.eager.module.to(memory_format=torch.channels_last)
        return _Source(capture(module, inputs), State({}), inputs, None, WeightDtypes())
    calibration = quantize.calibration_samples(file, inputs, console)
    captured, state = state_to_inputs(captured)
    options = asked.options
    dtype = "int4" if options.weight_dtype == _AUTO else options.weight_dtype
    weights = WeightDtypes(dtype, dict(options.weight_dtypes), options.group_size)
    return _Source(quantize.lay_out_channels_last(captured), state, inputs, calibration, weights)


def _prepare(
    source: _Source, quantize_captured: Callable[[ExportedProgram, list[golden.Sample]], Quantized]
) -> _Prepared:
    """Quantizes a model that its author has not quantized.

    Args:
      quantize_captured: quantizes a captured program, which it may change, calibrated on samples.
    """
    from tools.pipeline.export.quantize import quantize

    if source.calibration is None:
        quantized = quantize.Quantized(source.captured.module(check_guards=False), [], [], {})
        return _Prepared(quantized, copy.deepcopy(source.captured))
    quantized = quantize_captured(copy.deepcopy(source.captured), source.calibration)
    inputs = (*quantize.channels_last(source.state.start()), *source.inputs)
    return _Prepared(quantized, capture(quantized.module, inputs))


def _quantizer(
    source: _Source, path: Path, options: Options
) -> Callable[[ExportedProgram, list[golden.Sample], frozenset[str]], Quantized]:
    """What quantizes a captured program, calibrated on samples, but for places that are left in floating point."""
    from tools.pipeline.export.quantize import costs, quantize
    from tools.pipeline.export.quantize.ranges import Methods

    choose = None
    if options.packed and options.float_where_faster and costs.has_costs(options.core):
        # Whoever has integers at the border wants no code for floating point between them, but may want to know.
        is_all_int8 = options.io != "float32"
        choose = functools.partial(costs.choose, costs=costs.Costs(options.core), is_all_int8=is_all_int8)
    return lambda captured, samples, in_float: quantize.quantize(
        quantize.fold(captured),
        samples,
        path,
        source.state,
        in_float,
        choose,
        options.keep_float,
        has_own_layers=options.packed,
        has_float_border=options.io == "float32",
        weights=source.weights,
        ranges=Methods(options.activation_range, dict(options.activation_ranges)),
    )


def _to_int8(
    source: _Source, in_float: frozenset[str], target: CortexMTargetConfig, path: Path, options: Options
) -> tuple[Quantized, ExportedProgram]:
    """The quantized model and its program of int8 operators.

    Args:
      in_float: places in the model that are left in floating point, `quantize.ALL_BUT_LAYERS`, or none.

    Raises NoInt8Form for places that cannot be lowered or would be refused on a device.
    """
    from tools.pipeline.export.backends.cortex_m import lower
    from tools.pipeline.export.capture.state import inputs_to_state
    from tools.pipeline.export.quantize import quantize

    quantize_captured = _quantizer(source, path, options)
    try:
        prepared = _prepare(source, lambda captured, samples: quantize_captured(captured, samples, in_float))
        # Passes may come to another order of dimensions than capturing did, in which a view would not be one.
        quantize.reshape_views(prepared.captured)
        edge = lower.to_cortex_m(prepared.captured, target)
        inputs_to_state(edge, source.state, source.inputs)
        quantize.check_integers(edge, path)
        lower.run(edge, [source.inputs])
    except (UserError, quantize.NoInt8Form):
        raise
    except Exception as error:
        # What ExecuTorch's passes make of operators that they do not know.
        found = (place for place in places_behind(error, path) if place not in in_float)
        place = next(found, quantize.ALL_BUT_LAYERS)
        raise quantize.PassError(place, _first_line(error.__cause__ or error)) from error
    return prepared.quantized, edge


_Made = TypeVar("_Made")


def _where_possible(
    make: Callable[[frozenset[str]], _Made],
    in_float: frozenset[str],
    source: _Source,
    path: Path,
    console: Console | None = None,
) -> tuple[_Made, frozenset[str]]:
    """What is made of a model with some places in floating point, and with those that turn out to have no int8 form.

    Args:
      make: makes it, given these places; raises NoInt8Form for others.
      console: is told what stays in floating point as passes fail, and why.

    Returns:
      what was made, and all places in floating point.
    """
    from tools.pipeline.export.quantize import quantize

    failed = 0
    while True:
        try:
            return make(in_float), in_float
        except quantize.NoInt8Form as error:
            places = error.places
            if isinstance(error, quantize.PassError):
                failed += 1
                # Each costs an export.
                if failed > _MOST_FAILED_PLACES:
                    places = frozenset({quantize.ALL_BUT_LAYERS})
            if source.calibration is None or places <= in_float:
                raise UserError(f"{path}: {error}; use the portable backend.") from error
            if console is not None and isinstance(error, quantize.PassError):
                (place,), it = places, "it"
                if place == quantize.ALL_BUT_LAYERS:
                    place, it = "all but layers with weights", "something else"
                console.say(
                    f"export: note: {path}: {place} stays in floating point, as int8 of {it} can't be lowered "
                    f"({error}). Please report this with the model file."
                )
            in_float |= places


def _demands(source: _Source, eager: _Eager, path: Path, options: Options) -> list[Demand]:
    """What the user demands of a quantized model.

    Raises UserError for what the model file can't be measured by, or doesn't have in floating point.
    """
    from tools.pipeline.export.quantize import quantize
    from tools.pipeline.export.quantize.accuracy import accuracy_demand, share_right, snr_demand

    demands = [snr_demand(options.min_snr)] if options.min_snr else []
    if options.min_accuracy:
        labels, samples = eager.labels, [quantize.channels_last(sample) for sample in eager.samples]
        demand = f'{path}: min_accuracy = "{options.min_accuracy:g}"'
        if labels is None:
            raise UserError(f"{demand} needs evaluation_set(), inputs and their labels, in the model file.")
        if source.state.buffers:
            raise UserError(f"{demand}, but the model changes its buffers, so that samples are no cases of their own.")
        floating = share_right(eager.outputs, labels)
        if floating < options.min_accuracy:
            raise UserError(f"{demand}, but in floating point it is {floating:.4g}: demand less, or train on.")
        demands.append(accuracy_demand(options.min_accuracy, samples, labels))
    if source.calibration is None and demands:
        raise UserError(f"{path}: {demands[0].text}, but model() is quantized already.")
    return demands


def _worst_in_float(
    source: _Source, eager: _Eager, quantized: Quantized, in_float: frozenset[str], path: Path, options: Options
) -> tuple[frozenset[str], list[str]]:
    """The places that stay in floating point for the model to be accurate, and what there is to say about them.

    Args:
      in_float: those that stay there anyway.
    """
    from tools.pipeline.export.quantize.accuracy import leave_worst_in_float, snr_demand

    demands, samples = _demands(source, eager, path, options), source.calibration
    if samples is None or options.io != "float32":
        return in_float, []
    quantize_captured = _quantizer(source, path, options)

    def without_lowering(places: frozenset[str]) -> Quantized:
        return quantize_captured(copy.deepcopy(source.captured), samples, places)

    def requantized(places: frozenset[str]) -> Quantized:
        return _where_possible(without_lowering, places, source, path)[0]

    texts = []
    for demand in [*([] if options.min_snr else [snr_demand(_USEFUL_SNR)]), *demands]:
        try:
            found = leave_worst_in_float(quantized, requantized, in_float, demand, path)
        except UserError:
            if demand in demands:
                raise
            # What is left to say is in the report.
            continue
        if found is not None:
            in_float, quantized, text = found
            texts.append(text)
    return in_float, texts


def _worst_in_int8(
    source: _Source, quantized: Quantized, in_float: frozenset[str], path: Path, options: Options
) -> tuple[frozenset[str], str]:
    """What leave_worst_in_int8() returns."""
    from tools.pipeline.export.quantize.accuracy import leave_worst_in_int8

    samples = source.calibration
    assert samples is not None

    def without_lowering(places: frozenset[str]) -> Quantized:
        given = dataclasses.replace(source, weights=dataclasses.replace(source.weights, in_int8=places))
        return _quantizer(given, path, options)(copy.deepcopy(source.captured), samples, in_float)

    return leave_worst_in_int8(quantized, without_lowering, options.min_snr, path)


def _first_line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".strip().split("\n")[0]


def _lower_portable(asked: _Asked) -> _Lowered:
    return _Lowered(_lower(asked.file, asked.eager, asked.console), asked.eager.samples, asked.eager.outputs)


def _lower_quantized(asked: _Asked) -> _Lowered:
    # Imported here: it costs seconds, and only int8 programs need it.
    from tools.pipeline.export.backends.cortex_m import lower
    from tools.pipeline.export.quantize import quantize

    file, options, console = asked.file, asked.options, asked.console
    path = file.path
    if file.has("dynamic_shapes"):
        raise UserError(
            f'{path}: backend "cortex_m" packs layers for one shape and takes no dynamic_shapes(); '
            "remove it, or use the portable backend."
        )
    source = _source(asked)
    _check_layers(asked, source.calibration is None)
    samples = [quantize.channels_last(sample) for sample in asked.eager.samples]
    target = lower.target_of(options.core)
    in_float = front_end(source.captured, path)

    def lowered(places: frozenset[str]) -> tuple[Quantized, ExportedProgram]:
        return _to_int8(source, places, target, path, options)

    (quantized, edge), in_float = _where_possible(lowered, in_float, source, path, console)
    if options.weight_dtype == _AUTO:
        in_int8, text = _worst_in_int8(source, quantized, in_float, path, options)
        console.say(f"export: note: {path}: {text}")
        if in_int8:
            source = dataclasses.replace(source, weights=dataclasses.replace(source.weights, in_int8=in_int8))
            (quantized, edge), in_float = _where_possible(lowered, in_float, source, path, console)
    without_int8 = _without_int8(asked, quantized, edge, target)
    if without_int8 is not None:
        return without_int8
    before = in_float
    in_float, texts = _worst_in_float(source, asked.eager, quantized, in_float, path, options)
    for text in texts:
        console.say(f"export: note: {path}: {text}")
    if in_float != before:
        (quantized, edge), in_float = _where_possible(lowered, in_float, source, path, console)
        # Which may be more places than int8 pays for.
        without_int8 = _without_int8(asked, quantized, edge, target)
        if without_int8 is not None:
            return without_int8
        quantized = dataclasses.replace(quantized, accurate=in_float - before)
    unquantized = quantize.unquantized(edge, path)
    # The report has them all.
    places = [place for _, place in unquantized]
    for line in in_floating_point(places, quantized.reasons, type(asked.eager.written).__name__):
        console.say(f"export: note: {path}: {line}")
    border = lower.BORDER.border(edge)
    if options.io == "int8":
        lower.BORDER.remove(edge, path)
        samples = [lower.BORDER.quantize_sample(sample, border.inputs) for sample in samples]
    outputs = lower.run(edge, samples)
    if options.packed:
        edge = lower.pack(edge, target)
        lower.check_packed(edge, samples[0], outputs[0])
    check_out_variants(edge, path)
    quantization = Quantization(options.io, border.inputs, border.outputs)
    made = _quantization_report(asked, source, quantized, unquantized, outputs, border.outputs)
    return _Lowered(emit(edge, lower.config()), samples, outputs, quantization, made)


def _without_int8(
    asked: _Asked, quantized: Quantized, edge: ExportedProgram, target: CortexMTargetConfig
) -> _Lowered | None:
    """The model all in floating point, if that takes far fewer instructions and no more bytes; None if not.

    What was chosen, what the other form would take and which attribute chooses it is said where int8 is slower.

    Args:
      edge: the model in int8, where that can be and pays.
    """
    from tools.pipeline.export.backends.cortex_m import lower
    from tools.pipeline.export.quantize import costs, portable_costs, report

    in_int8, in_float = quantized.instructions or (0, 0)
    if quantized.floating is None or in_int8 <= in_float:
        return None
    if asked.options.weight_dtype != "int8" or any(dtype == "int4" for _, dtype in asked.options.weight_dtypes):
        # Who asks for small weights wants no large ones.
        return None
    path, options = asked.file.path, asked.options
    try:
        emitted = _lower(asked.file, asked.eager, None)
    except UserError:
        # It is in int8 that it exists.
        return None
    nodes, *floating_bytes = _optimized(emitted, options)
    in_float = portable_costs.instructions(nodes, costs.Costs(options.core))
    if in_int8 <= in_float:
        return None
    int8 = copy.deepcopy(edge)
    if options.io == "int8":
        lower.BORDER.remove(int8, path)
    sizes = [_optimized(emit(lower.pack(int8, target), lower.config()), options)[1:], floating_bytes]
    growth = sum(max(0, larger - smaller) for smaller, larger in zip(*sizes, strict=True))
    takes = [
        f"{instructions:,.0f} instructions, {size:,} bytes of program and {memory:,} of memory"
        for instructions, (size, memory) in zip((in_int8, in_float), sizes, strict=True)
    ]
    is_worth_it = options.io == "float32" and in_float <= _WORTH * in_int8
    if not is_worth_it or growth > options.float_growth:
        chooses = f"float_growth = {growth}" if is_worth_it else 'backend = "portable"'
        asked.console.say(
            f"export: note: {path}: the program is int8, for about {takes[0]}; floating point would take about "
            f"{takes[1]}, and {chooses} chooses it."
        )
        return None
    note = f"everything stays in floating point, for about {takes[1]}; int8 would take about {takes[0]}"
    asked.console.say(f"export: note: {path}: {note}, and float_where_faster = False chooses it.")
    outputs = asked.eager.outputs
    accuracy = report.accuracy(outputs, outputs, asked.eager.labels)
    made = report.make_float_report(asked.name, asked.options.core, quantized.floating, accuracy, note, path)
    inputs, results = asked.eager.names
    quantization = Quantization(asked.options.io, [None for _ in inputs], [None for _ in results])
    return _Lowered(emitted, asked.eager.samples, outputs, quantization, made)


def _optimized(emitted: EmittedProgram, options: Options) -> tuple[list[Node | None], int, int]:
    """The nodes of an optimized program's instructions, and bytes of its file and of its memory for tensors."""
    emitted = copy.deepcopy(emitted, {id(emitted.nodes): emitted.nodes})
    nodes = _optimize(emitted, options)[0] if emitted.file is None else emitted.nodes
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    file = emitted.file or serialize(emitted.program, constants, emitted.states)
    return nodes, len(file), sum(emitted.program.execution_plan[0].non_const_buffer_sizes)


def _check_layers(asked: _Asked, is_quantized: bool) -> None:
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


def _compute_constants(program: ExportedProgram) -> ExportedProgram:
    """A program whose masked attention and that to learned queries is decomposed, and what reads constants computed.

    ExecuTorch's Arm passes scale a query, and take none that is a constant, and mask by comparing what they compute of
    constants. Others stay as they are.
    """
    found = attention_for_arm(program)
    return propagate_constants(decompose(decompose_attention(program, found, trusts_masks=True))) if found else program


@known_results()
def _lower_for_npu(asked: _Asked) -> _Lowered:
    # Imported here: it costs seconds, and only programs for an NPU need it.
    from tools.pipeline.export.backends.arm import delegates
    from tools.pipeline.export.backends.arm.forms import MOST_STEPS, layers_of_many_steps, recurrent_steps
    from tools.pipeline.export.backends.cortex_m import lower as cortex_m
    from tools.pipeline.export.backends.ethos_u import lower
    from tools.pipeline.export.backends.ethos_u import report as npu_report
    from tools.pipeline.export.backends.ethos_u.results import Comparison
    from tools.pipeline.export.capture.state import inputs_to_state
    from tools.pipeline.export.ir.dim_orders import order_for_kernels, takes_any_order_as_emitted
    from tools.pipeline.export.quantize import quantize

    file, options, console = asked.file, asked.options, asked.console
    path, npu = file.path, options.npu
    assert npu is not None
    if file.has("dynamic_shapes"):
        raise UserError(f'{path}: backend "ethos_u" takes no dynamic_shapes(), an NPU has commands for one shape.')
    bits = 16 if options.io == "int16" else 8
    source = _source(asked)

    def quantized(captured: ExportedProgram, given: list[golden.Sample]) -> Quantized:
        folded = _compute_constants(assemble(decompose(fold_batch_norm(captured))))
        whole = layers_of_many_steps(folded) if bits == 8 else []
        for node, steps in recurrent_steps(folded):
            of_steps = f"{steps} step{'s'[: steps != 1]}"
            text = f"is unrolled into {of_steps} for the NPU; ExecuTorch takes seconds of processor time for each"
            if node in whole:
                text = (
                    f"has {of_steps}, and {MOST_STEPS} of a model are unrolled for the NPU: the core computes it "
                    "whole; written as a loop over nn.LSTMCell or nn.GRUCell it would be unrolled"
                )
            console.say(f"export: note: {path}: {origin(node, path)} {text}.")
        return lower.quantize(folded, given, npu, bits, path, source.state)

    prepared = _prepare(source, quantized)
    given = [quantize.channels_last(sample) for sample in asked.eager.samples]
    start = quantize.channels_last(source.state.start())
    started = [(*start, *sample) for sample in given]

    def finished(lowered: lower.Lowered) -> tuple[_Lowered, list[str]]:
        """And what there is to say of it."""
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
        in_float = quantize.unquantized(edge, path)
        on_core = npu_report.on_core(lowered.rejected, in_float)
        estimate = npu_report.make_report(asked.name, lowered.compiled, on_core, npu)
        npu_report.check_memory(estimate, npu)
        notes += [f"stays on the core: {entry}" for entry in on_core]
        border = operators.border(edge)
        samples = given
        if options.io != "float32":
            operators.remove(edge, path)
            samples = [operators.quantize_sample(sample, border.inputs) for sample in samples]
        comparison = Comparison(lowered.compiled, npu, path)
        outputs = delegates.run(edge, lowered.compiled, samples, comparison)
        notes += comparison.unchecked()
        made = _Lowered(
            delegates.emit(lowered.manager),
            samples,
            outputs,
            Quantization(options.io, border.inputs, border.outputs),
            _quantization_report(asked, source, prepared.quantized, in_float, outputs, border.outputs),
            (npu_report.format_report(estimate), npu_report_json(estimate)),
        )
        return made, notes

    made, notes = lower.delegate(prepared.captured, npu, path, started, finished)
    for note in notes:
        console.say(f"export: note: {path}: {note}")
    return made


def _check_no_branches(program: ExportedProgram, path: Path, backend: str) -> None:
    for node in program.graph.nodes:
        name = getattr(node.target, "__name__", "")
        if isinstance(node.target, torch._ops.HigherOrderOperator) and name in _BRANCHES:
            raise UserError(
                f'{path}: backend "{backend}" takes no {_BRANCHES[name]} ({origin(node, path)}); compute both and '
                'choose by torch.where(), or write the steps one after another; backend "portable" takes it.'
            )


def _check_no_state(buffers: Iterable[str], path: Path, backend: str) -> None:
    names = ", ".join(buffers)
    if names:
        raise UserError(
            f'{path}: backend "{backend}" takes no model that changes its buffers ({names}); '
            "make them inputs and outputs of the model."
        )


@known_results()
def _lower_to_vgf(asked: _Asked) -> _Lowered:
    # Imported here: it costs seconds, and only programs with VGF need it.
    from tools.pipeline.export.backends.arm import delegates
    from tools.pipeline.export.backends.arm.forms import write_layers
    from tools.pipeline.export.backends.vgf import lower
    from tools.pipeline.export.ir.dim_orders import drop_round_trips, order_for_kernels, takes_any_order_upstream
    from tools.pipeline.export.quantize import quantize

    file, options, console = asked.file, asked.options, asked.console
    path, is_quantized = file.path, options.io == "int8"
    if file.has("dynamic_shapes"):
        raise UserError(f'{path}: backend "vgf" takes no dynamic_shapes(), its graphs are for one shape.')
    source = _source(asked) if is_quantized else None
    if source is None:
        captured = _capture(file, asked.eager, console)
        _check_no_branches(captured, path, options.backend)
        # ExecuTorch's passes for Arm want constants for weights, and batch normalization behind convolutions only.
        # First without operators that work in place: what these change is no constant.
        folded = decompose_attention(decompose(fold_batch_norm(captured)))
        functional = write_layers(assemble(rewriting.run_decompositions(folded, {})))
        _check_no_state(functional.graph_signature.buffers_to_mutate.values(), path, options.backend)
        lowered = lower.delegate(propagate_constants(functional), options.io, path)
    else:
        _check_no_state(source.state.buffers, path, options.backend)
        prepared = _prepare(
            source,
            lambda captured, samples: lower.quantize(
                _compute_constants(assemble(decompose(fold_batch_norm(captured)))), samples, path
            ),
        )
        # Before there are delegates, which would quantize inside.
        border = delegates.CAPTURED_BORDER.border(prepared.captured)
        delegates.CAPTURED_BORDER.remove(prepared.captured, path)
        lowered = lower.delegate(prepared.captured, options.io, path)
    edge = lowered.manager.exported_program()
    order_for_kernels(edge, takes_any_order_upstream)
    drop_round_trips(edge)
    for operators, place, reason in lower.on_portable_kernels(lowered.rejected):
        console.say(f"export: note: {path}: stays on portable kernels: {operators}: {place}: {reason}")
    vgf = [item.payload for item in lowered.compiled]
    samples, outputs = asked.eager.samples, asked.eager.outputs
    if source is not None:
        samples = [quantize.channels_last(sample) for sample in samples]
        samples = [delegates.CAPTURED_BORDER.quantize_sample(sample, border.inputs) for sample in samples]
        outputs = delegates.run(edge, lowered.compiled, samples)
    emitted = delegates.emit(lowered.manager)
    missing = lower.without_kernel(emitted.program)
    if missing:
        console.say(
            f"export: note: {path}: ExecuTorch's runtime has no kernels of {', '.join(missing)}: vgf_test and run_pte "
            "can't run this program, and an application needs kernels of its own; write the layers another way."
        )
    if source is None:
        return _Lowered(emitted, samples, outputs, vgf=vgf)
    on_core = [(operator, place) for operator, place, _ in lowered.rejected]
    return _Lowered(
        emitted,
        samples,
        outputs,
        Quantization(options.io, border.inputs, border.outputs),
        _quantization_report(asked, source, prepared.quantized, on_core, outputs, border.outputs),
        vgf=vgf,
    )


def _quantization_report(
    asked: _Asked,
    source: _Source,
    quantized: Quantized,
    in_float: list[tuple[str, str]],
    outputs: list[list[torch.Tensor]],
    parameters: list[Parameters | None],
) -> QuantizationReport:
    """The report of a quantized program that returns `outputs` for the golden inputs; its notes are said, too.

    Args:
      source: what was quantized.
      in_float: operators that were not quantized, with their places in the model.
      parameters: of outputs that are quantized.
    """
    from tools.pipeline.export.quantize import report

    accuracy = report.accuracy(asked.eager.outputs, outputs, asked.eager.labels)
    notes = report.far_outputs(asked.eager.outputs, outputs, parameters, asked.eager.names[1])
    if source.calibration is not None and asked.eager.labels is not None:
        samples = asked.eager.samples
        notes += report.held_out(asked.eager.outputs, outputs, parameters, samples, source.calibration)
    if quantized.constant:
        count = len(quantized.constant)
        notes += (
            f"calibration saw one value alone in {count} tensor{'s' if count > 1 else ''}, which the device then has "
            f"too: {some_of(quantized.constant)}; calibration_inputs() should cover what the device will see",
        )
    for note in notes:
        asked.console.say(f"export: note: {asked.file.path}: {note}")
    if quantized.equalized:
        notes = (*notes, f"channels were equalized before quantization: {', '.join(quantized.equalized)}")
    return report.make_report(asked.name, asked.options.core, quantized, in_float, accuracy, notes, asked.file.path)


def _capture(file: ModelFile, eager: _Eager, console: Console | None) -> ExportedProgram:
    """Captures a model.

    Args:
      console: None if what there is to say about it has been said.
    """
    try:
        captured = capture(eager.module, eager.inputs, file.dynamic_shapes())
    except Exception as error:
        raise explain_capture(file, error) from error
    captured = remove_complex_numbers(captured, file.path)
    check_captured(captured, file.path)
    if console is not None:
        for place in random_operators(captured, file.path):
            console.say(f"export: note: {file.path}: random numbers on a device are not PyTorch's, in {place}")
    return captured


# Operators with graphs of their own, and what a model calls.
_BRANCHES = {
    "cond": "torch.cond()",
    "map_impl": "map of a function",
    "scan": "scan of a function",
    "while_loop": "while_loop()",
}

# What lowers a model, by the backend's name.
_BACKENDS: dict[str, Callable[[_Asked], _Lowered]] = {
    "portable": _lower_portable,
    "cortex_m": _lower_quantized,
    "ethos_u": _lower_for_npu,
    "vgf": _lower_to_vgf,
}


def _load_weights(model: torch.nn.Module, weights: Path, path: Path) -> None:
    try:
        model.load_state_dict(torch.load(io.BytesIO(weights.read_bytes()), weights_only=True))
    except RuntimeError as error:
        raise UserError(f"{weights} does not fit model() of {path}; train it again: {error}") from error
