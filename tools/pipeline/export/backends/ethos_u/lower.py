"""Quantizes a captured model for an Ethos-U, and delegates the supported subgraphs to it."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import torch
from executorch.backends.arm.ethosu import EthosUBackend, EthosUPartitioner
from executorch.backends.arm.operator_support import ethos_u55_support
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from executorch.backends.arm.quantizer.arm_quantizer_utils import _mark_node_as_quantized
from executorch.backends.cortex_m.quantizer.pattern_matcher import PatternMatcher
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Graph, GraphModule, Node

from tools.artifacts.ethos_u.npu import Npu
from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.concat_scales import isolate_concat_scales
from tools.pipeline.export.backends.arm.forms import convolutions_to_16_bits, layers_of_many_steps
from tools.pipeline.export.backends.arm.masks import write_masks
from tools.pipeline.export.backends.arm.refused import (
    IsNotRefused,
    LoweringError,
    in_a_line,
    lower_all_but_refused,
    naming_places,
    with_reasons,
)
from tools.pipeline.export.backends.cortex_m.own_layers import mark
from tools.pipeline.export.backends.cortex_m.recurrent import lower_recurrent, round_weights
from tools.pipeline.export.backends.ethos_u import vela
from tools.pipeline.export.backends.ethos_u.addresses import WrongCommandsError
from tools.pipeline.export.backends.ethos_u.constants import moved_constants
from tools.pipeline.export.backends.ethos_u.core import agree, delegate_calls, to_int8
from tools.pipeline.export.backends.ethos_u.forms import repeats_pixels
from tools.pipeline.export.backends.ethos_u.results import Comparison
from tools.pipeline.export.backends.ethos_u.tables import NAME as TABLE
from tools.pipeline.export.backends.ethos_u.tables import fold_numbers, tables_of_functions, write_tables
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.rewriting import rename_output, unshare_notes
from tools.pipeline.export.pipelines import ETHOS_U_FORMS
from tools.pipeline.export.quantize.activation_tables import (
    annotate_functions,
    find_functions,
    is_annotated,
    steps_of_inputs,
)
from tools.pipeline.export.quantize.annotations import (
    comparisons_of_inputs,
    leave_nodes,
    leave_outputs,
    leave_state,
    leave_steps,
)
from tools.pipeline.export.quantize.in_float import ALL_BUT_LAYERS, InFloat, NoInt8Form
from tools.pipeline.export.quantize.nodes import attribute
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.ranges import with_ranges
from tools.pipeline.export.rewrite.own_operators import RECURRENT, keep_recurrent_layers
from tools.pipeline.export.upstream.replaced import replaced

_Finished = TypeVar("_Finished")


@dataclass
class Lowered:
    """A program with delegates.

    Attributes:
      manager: the edge program.
      compiled: the compiled form of each delegate, in order.
      rejected: operators that the NPU doesn't support, as (operator, location in the model, reason).
    """

    manager: EdgeProgramManager
    compiled: list[vela.Compiled]
    rejected: list[tuple[str, str, str]]


class _Quantizer(EthosUQuantizer):
    """ExecuTorch's quantizer, which leaves the computation of states in floating point.

    With 8-bit activations, unsupported functions and functions of several operators become tables.
    """

    def __init__(self, npu: Npu, bits: int, states: int, has_float_border: bool, in_float: InFloat) -> None:
        super().__init__(vela.compile_spec(npu))
        config = get_symmetric_quantization_config() if bits == 8 else get_symmetric_a16w8_quantization_config()
        self.set_global(config)
        # The same objects as in neighbouring annotations: different specifications would quantize twice.
        self._operand, self._result = config.get_input_act_qspec(), config.get_output_act_qspec()
        self._bits = bits
        self._states = states
        self._in_float = in_float
        self._has_float_border = has_float_border
        self._is_u55 = npu.accelerator.startswith("ethos-u55")

    def transform_for_annotation(self, model: GraphModule) -> GraphModule:
        transformed = super().transform_for_annotation(model)
        if self._bits == 8:
            fold_numbers(transformed)
        _merge_equal(transformed)
        unshare_notes(transformed.graph)
        return transformed

    def annotate(self, model: GraphModule) -> GraphModule:
        left = [*leave_state(model.graph, self._states), *delegates.leave(model, self._in_float)]
        annotated = self._annotate_8_bits(model, left) if self._bits == 8 else super().annotate(model)
        leave_outputs(annotated.graph, self._states, self._has_float_border)
        return with_ranges(annotated)

    def _annotate_8_bits(self, model: GraphModule, left: list[Node]) -> GraphModule:
        """Annotates a model; operators of `left` stay in floating point."""
        self._annotate_recurrent(model.graph)
        # Functions of several operators must be annotated before ExecuTorch annotates their operators one by one.
        found = find_functions(model.graph)
        steps = steps_of_inputs(found) if self._has_float_border else []
        # An Ethos-U55 leaves comparisons to the core anyway.
        steps += comparisons_of_inputs(model.graph) if self._has_float_border and self._is_u55 else []
        leave_nodes(steps)
        functions = [each for each in found if len(each.nodes) > 1 and not is_annotated(each)]
        nodes = {node for each in functions for node in each.nodes}
        annotate_functions(functions, (), self._operand, self._result, chosen=nodes)
        for node in nodes:
            node.meta[PatternMatcher.Q_PATTERN_MATCHED_KEY] = True
        annotated = super().annotate(model)
        functions = [each for each in find_functions(annotated.graph) if not is_annotated(each)]
        inputs = {node for node in annotated.graph.nodes if node.op == "placeholder"}
        annotate_functions(functions, inputs, self._operand, self._result)
        if self._has_float_border:
            leave_steps(annotated.graph, [*steps, *left])
        return annotated

    def _annotate_recurrent(self, graph: Graph) -> None:
        """Annotates the core's recurrent layers with int8 inputs and outputs; their states stay in floating point."""
        for node in graph.nodes:
            if node.target not in RECURRENT:
                continue
            _mark_node_as_quantized(node, {node.args[0]: self._operand}, None, False)
            mark(node)
            for result in node.users:
                _mark_node_as_quantized(result, {}, self._result if result.args[1] == 0 else None, False)


def _merge_equal(module: GraphModule, program: ExportedProgram | None = None) -> None:
    """Merges operators that compute the same from the same operands, in place: ExecuTorch computes a norm's mean twice.

    Args:
      program: the program that the module belongs to, if its outputs have names.
    """
    found: dict[tuple[object, ...], Node] = {}
    for node in list(module.graph.nodes):
        key: tuple[object, ...]
        if node.op == "get_attr":
            value = attribute(module, str(node.target))
            if value.numel() != 1:
                continue
            key = (value.dtype, value.shape, value.item())
        elif isinstance(node.target, OpOverload) and _is_determined(node.target):
            key = (node.target, repr(node.args), repr(node.kwargs))
        else:
            continue
        first = found.setdefault(key, node)
        if first is not node:
            node.replace_all_uses_with(first)
            if program is not None:
                rename_output(program, node, first)
            module.graph.erase_node(node)
    module.recompile()


def _is_determined(target: OpOverload) -> bool:
    return torch.Tag.nondeterministic_seeded not in target.tags and not target._schema.is_mutable


def quantize(
    program: ExportedProgram,
    samples: Iterable[Sample],
    npu: Npu,
    bits: int,
    state: State,
    has_float_border: bool,
    in_float: InFloat,
) -> Quantized:
    """Returns the program after ExecuTorch's Ethos-U quantizer, calibrated on the samples.

    Args:
      bits: the width of activations, 8 or 16; weights have 8.
      state: the state, which the program's first inputs read and its first outputs update, from one sample to the next.
      has_float_border: whether the program takes and returns floating point.
      in_float: what stays in floating point.

    Raises UserError as `delegates.quantize` does.
    """
    path = in_float.path
    quantizer = _Quantizer(npu, bits, len(state.buffers), has_float_border, in_float)
    if bits == 8:
        keep_recurrent_layers(program, layers_of_many_steps(program))
    samples = list(samples)
    is_limited = write_masks(program, samples, state, bits, path)
    if bits == 8:
        # The quantizer will do the same: a node with several readers has one scale.
        _merge_equal(program.graph_module, program)
        isolate_concat_scales(program, samples, state, path)
    quantized = delegates.quantize(ETHOS_U_FORMS.run(program, npu=npu), samples, quantizer, path, state, is_limited)
    round_weights(quantized.module)
    return quantized


def delegate(
    program: ExportedProgram, npu: Npu, path: Path, samples: list[Sample], finish: Callable[[Lowered], _Finished]
) -> _Finished:
    """Lowers a quantized program, with the subgraphs that the NPU can compute as delegates.

    Operators that ExecuTorch's passes, Vela or the TOSA reference model refuse, or that Vela compiles wrongly, are left
    to the core, one location after another.

    Args:
      samples: inputs in floating point, with which wrong commands are located.
      finish: converts a lowered program to the result. It raises WrongCommandsError for commands that are wrong, and is
        called again afterwards.
    """
    lower_recurrent(program)
    with_tables = write_tables(program)
    if with_tables is not None:
        # No runtime has the table operator, but it has the functions' own operators.
        with contextlib.suppress(_TableOnCore):
            return _delegate(with_tables, npu, path, samples, finish)
    return _delegate(program, npu, path, samples, finish)


class _TableOnCore(Exception):
    """A table of the NPU was left to the core."""


def _delegate(
    program: ExportedProgram, npu: Npu, path: Path, samples: list[Sample], finish: Callable[[Lowered], _Finished]
) -> _Finished:
    """Lowers a quantized program, and leaves operators to the core that ExecuTorch's partitioner accepts but that fail.

    Raises _TableOnCore if the core would have to compute a table.
    """

    def compared(found: Lowered) -> None:
        edge, comparison = found.manager.exported_program(), Comparison(found.compiled, npu, path)
        with _naming_wrong(found.compiled):
            delegates.run(edge, found.compiled, samples, comparison)

    def finished(found: Lowered) -> _Finished:
        if any(operator == TABLE for operator, _, _ in found.rejected):
            raise _TableOnCore
        with _naming_wrong(found.compiled):
            return finish(found)

    return lower_all_but_refused(program, lambda refused: _lower(program, npu, path, refused), finished, compared)


@contextlib.contextmanager
def _naming_wrong(compiled: Sequence[vela.Compiled]) -> Iterator[None]:
    """Raises LoweringError for a subgraph whose commands are wrong."""
    try:
        yield
    except WrongCommandsError as error:
        places = list(compiled[error.index].places)
        if not places:
            raise
        raise LoweringError(places, error.reason) from error


def _lower(program: ExportedProgram, npu: Npu, path: Path, refused: Mapping[str, str]) -> Lowered:
    """Lowers a quantized program, with the subgraphs that the NPU can compute as delegates.

    Args:
      refused: maps locations in the model that are left to the core, as `origin` returns them, to the reasons.

    Raises LoweringError for a subgraph that can't be lowered.
    """
    with (
        delegates.lowering(program, path, "the NPU") as rejected,
        vela.compiling(npu) as compiled,
        convolutions_to_16_bits(),
        moved_constants(),
        tables_of_functions(),
        _repeating(),
        naming_places(EthosUBackend, path, lambda error: _why(error, npu)) as places,
    ):
        manager = to_edge_transform_and_lower(
            program,
            partitioner=[EthosUPartitioner(vela.compile_spec(npu), [IsNotRefused(refused, path)])],
            compile_config=_edge_config(),
        )
    placed = [replace(item, places=each) for item, each in zip(compiled, places, strict=True)]
    _check_inputs(manager.exported_program(), placed)
    return Lowered(manager, placed, with_reasons(rejected, refused))


def _check_inputs(program: ExportedProgram, compiled: Sequence[vela.Compiled]) -> None:
    """Raises LoweringError for a subgraph that gets a tensor twice, of which ExecuTorch makes one input."""
    by_payload = {item.payload: item for item in compiled}
    for call in delegate_calls(program):
        module, *given = call.args
        item = by_payload[getattr(program.graph_module, str(module.target)).processed_bytes]
        if len(given) != len(delegates.inputs_of(item.tosa)):
            raise LoweringError(list(item.places), "it reads a tensor twice, which ExecuTorch makes one input of")


def _why(error: Exception, npu: Npu) -> str:
    """Explains why a subgraph can't be lowered, in one line."""
    if isinstance(error, vela.VelaError):
        who = f"Vela can't compile it for {npu.accelerator}"
    elif isinstance(error, delegates.UncheckedError):
        who = "the TOSA reference model, which the NPU's results are held to, can't compute it"
    else:
        who = f"ExecuTorch takes it for {npu.accelerator} and can't lower it then"
    return f"{who}: {in_a_line(error)}"


@contextlib.contextmanager
def _repeating() -> Iterator[None]:
    """Lets Ethos-U55 and U65 repeat pixels, as far as Vela 5.2 can; ExecuTorch leaves more to the core."""
    check = getattr(ethos_u55_support, "EthosU55ResizeCheck", ethos_u55_support.EthosU55NotSupported)
    original = check.is_node_supported

    def is_node_supported(self: Any, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return repeats_pixels(node) or bool(original(self, submodules, node))

    with replaced(check, "is_node_supported", is_node_supported):
        yield


def use_core(lowered: Lowered, core: str, sample: Sample, path: Path) -> Lowered:
    """Replaces quantized operators outside of the delegates by the core's int8 operators.

    Args:
      lowered: a program of int8 activations; it is not modified.
      core: the core, such as `cortex-m55`.
      sample: inputs in floating point, for comparing both programs.

    Raises NoInt8Form if these operators can't express it.
    """
    edge = lowered.manager.exported_program()
    in_int8 = to_int8(edge, core, path)
    if lowered.rejected:
        try:
            after = delegates.run(in_int8, lowered.compiled, [sample])
        except Exception as error:
            raise NoInt8Form([ALL_BUT_LAYERS], f"{type(error).__name__}: {error}".split("\n")[0]) from error
        if not agree(delegates.run(edge, lowered.compiled, [sample])[0], after[0]):
            raise NoInt8Form([ALL_BUT_LAYERS], "with int8 operators it returns something else")
    return replace(lowered, manager=EdgeProgramManager(in_int8, compile_config=_edge_config()))


def _edge_config() -> EdgeCompileConfig:
    return EdgeCompileConfig(
        _check_ir_validity=False, _core_aten_ops_exception_list=[torch.ops.aten.max_pool2d.default]
    )
