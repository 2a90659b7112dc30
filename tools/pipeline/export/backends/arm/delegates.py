"""Lowers programs with delegates for ExecuTorch's TOSA backends of Arm: Ethos-U and VGF."""

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy
import numpy.typing as npt
import torch
import tosa_reference_model
from executorch.backends.arm._passes import DecomposeDivTensorModePass
from executorch.backends.arm._passes.accumulate_index_put_pass import AccumulateIndexPutPass
from executorch.backends.arm.quantizer import TOSAQuantizer
from executorch.backends.arm.tosa import partitioner as tosa_partitioner
from executorch.exir import EdgeProgramManager, ExecutorchBackendConfig
from executorch.exir.backend.utils import WhyNoPartitionReporter
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import TensorSpec
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind, OutputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e
from tosa.DType import DType
from tosa.TosaGraph import TosaGraph

from tools.pipeline.export.backends.arm.child_process import in_a_child
from tools.pipeline.export.backends.arm.forms import (
    layouts_of_all_readers,
    part_activations,
    tables_before_pools,
    upsampling_of_sizes,
    write_activations,
)
from tools.pipeline.export.backends.arm.layout import fewer_transpositions
from tools.pipeline.export.backends.arm.refused import checking
from tools.pipeline.export.capture.diagnosis import is_slow
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.capture.words import in_words
from tools.pipeline.export.ir.dim_orders import channels_last
from tools.pipeline.export.ir.operators import DEQUANTIZE, QUANTIZE
from tools.pipeline.export.ir.origins import origin
from tools.pipeline.export.ir.rewriting import adds_to_elements
from tools.pipeline.export.plan.emission import EmittedProgram, mark_states
from tools.pipeline.export.plan.serialize import CONSTANT_ALIGNMENT
from tools.pipeline.export.quantize.annotations import leave_nodes
from tools.pipeline.export.quantize.boundary import BorderOperators
from tools.pipeline.export.quantize.calibration import calibrate, measured_of, without_observers
from tools.pipeline.export.quantize.in_float import InFloat, NotFinite
from tools.pipeline.export.quantize.observers import prepare_pt2e
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.ranges import Methods, prepare_observers
from tools.pipeline.export.rewrite.no_ops import has_no_elements
from tools.pipeline.export.rewrite.numbers import write_numbers
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.export.upstream.retracing import decomposed_once, sizes_of_constants
from tools.pipeline.model_file.deterministic import computing
from tools.quiet.console import UserError

_QUANTIZE = exir_ops.edge.quantized_decomposed.quantize_per_tensor.default
_COPY = exir_ops.edge.dim_order_ops._to_dim_order_copy.default
_DEQUANTIZE = exir_ops.edge.quantized_decomposed.dequantize_per_tensor.default

# The smallest scale of ExecuTorch's quantizers for Arm, whose quotients of scales must fit into integers.
_LEAST_SCALE = 2.0**-16

# Patterns of reasons that ExecuTorch's partitioners give in their own terms, and the meaning for a model and its
# target. Reasons about U55 apply to U65, too.
_REASONS = {
    r"Op is not supported on U55\.?|Not included in BaseTOSASupportList .*": "{target} has no such operation",
    r"Partition contained only ops which are removed .*": "it only moves elements, and nothing beside it is delegated",
    r"Non-constant int64 input \S+|Indices dtype torch\.int64 is not supported .*": (
        "one of its inputs is of 64-bit integers"
    ),
    r"Non-constant node with int64 output\.?": "its result is of 64-bit integers",
    r"Node was not marked as quantized in the Arm backend\.?": "it is not quantized",
    r"One or more (in|out)puts were not quantized\.?": r"one of its \1puts is not quantized",
    # For example, an activation after a layer that is left to the core.
    r"Was first node in partition and input \S+ had fp dtype\.?": "what it reads is in floating point",
    r"Input \S+ has unsupported dtype torch\.(\w+) \(Supports (\w+)\)\.?": r"{target} takes no \1 there, but \2",
    r".*: index (dtype torch\.int64 not supported|must be .*, got dtype=torch\.int64).*": (
        "its indices are of 64 bits, {target}'s of 32"
    ),
    r".*Had torch\.bool (in|out)put\b.*": r"{target} has no \1puts of true and false there",
    r"(?:Input|Tensor x) dtype torch\.(\w+) .*is not supported in .*": r"{target} takes no \1 there",
    r"(?:Had|Output dtype) torch\.(\w+) (?:output that )?is not supported (?:by|in) .*": r"{target} gives no \1 there",
    r"Had torch\.(\w+) input \S+ that is not supported by .*": r"{target} takes no \1 there",
    r"(?:Unsupported|\S+:)(?: \w+)* dtype torch\.(\w+)(?:\W.*)?": r"{target} takes no \1 there",
    r"Casting (from|to) torch\.(\w+) is not supported .*": r"{target} casts nothing \1 \2",
    r".* which is unsupported\. ?Max supported rank is (\d+)\.": r"a tensor has more than \1 dimensions",
    r"Mixed floating-point input dtypes .*": "its operands differ in their floating-point dtypes",
    r"TOSA spec .* does not support control flow .*": "{target} has no branches and loops",
    r"Partition contained internal uint8 tensors\. .*": "{target} takes no uint8 there",
    # ExecuTorch doesn't quantize argmax, so that the second reason applies to all of them.
    r"TOSA ARGMAX (requires PRO-FP|produces int32|.* keepdim).*": "its indices are of 64 bits, {target}'s of 32",
}

# The dtypes of subgraphs' inputs.
_DTYPES = {
    DType.BOOL: numpy.bool_,
    DType.INT8: numpy.int8,
    DType.INT16: numpy.int16,
    DType.INT32: numpy.int32,
    DType.FP32: numpy.float32,
}

# The boundary of captured int8 programs before lowering.
CAPTURED_BORDER = BorderOperators(QUANTIZE, DEQUANTIZE, torch.int8)


class Compiled(Protocol):
    """A subgraph that became a delegate: its TOSA form and its payload in the program."""

    @property
    def tosa(self) -> bytes: ...

    @property
    def payload(self) -> bytes: ...


def quantize(
    program: ExportedProgram,
    samples: Iterable[Sample],
    quantizer: TOSAQuantizer,
    path: Path,
    state: State,
    is_limited: bool,
) -> Quantized:
    """Returns the program with the quantize and dequantize operators of a quantizer for Arm, calibrated on the samples.

    Args:
      program: is modified.
      path: the model file, for messages.
      state: the state, which the program's first inputs read and its first outputs update, from one sample to the next.
      is_limited: see Quantized.

    Raises UserError for values that calibration can't handle, by layer.
    """
    samples = list(samples)
    write_activations(program)
    write_numbers(program)
    module = program.module(check_guards=False)
    with (
        # Quotients of integers would be off on Ethos-U55.
        _skipping(DecomposeDivTensorModePass, lambda _, result: not result.is_floating_point()),
        # Elements that several indices name would be added to once.
        _skipping(AccumulateIndexPutPass, lambda args, _: any(args[3:])),
        sizes_of_constants(module),
    ):
        prepared = prepare_pt2e(module, quantizer)
    prepare_observers(prepared, Methods(), _LEAST_SCALE)
    try:
        observed, kept, constant = calibrate(prepared, samples, path, state)
    except NotFinite as error:
        raise UserError(f"{path}: {error}; use the portable backend.") from error
    floating = without_observers(prepared)
    quantized = convert_pt2e(prepared)
    part_activations(quantized)
    measured, start = measured_of(samples, state), channels_last(state.start())
    return Quantized(
        quantized,
        observed,
        kept,
        {},
        floating=floating,
        constant=constant,
        measured=measured,
        start=start,
        is_limited=is_limited,
    )


def _skipping(
    kind: Any, skips: Callable[[Sequence[Any], torch.Tensor], bool]
) -> contextlib.AbstractContextManager[None]:
    """Keeps a pass of ExecuTorch's from calls, by their arguments and results."""
    rewrite = kind.call_operator

    def call_operator(self: Any, operator: Any, args: Any, kwargs: Any, meta: Any) -> Any:
        if operator in kind.target_ops and skips(args, meta["val"]):
            return super(kind, self).call_operator(operator, args, kwargs, meta)
        return rewrite(self, operator, args, kwargs, meta)

    return replaced(kind, "call_operator", call_operator)


@contextlib.contextmanager
def lowering(program: ExportedProgram, path: Path, target: str) -> Iterator[list[tuple[str, str, str]]]:
    """Changes of ExecuTorch what lowering a program for either backend needs, and yields the list of _rejections()."""
    with (
        _rejections(path, target) as rejected,
        decomposed_once(),
        tables_before_pools(),
        fewer_transpositions(),
        upsampling_of_sizes(),
        layouts_of_all_readers(),
        checking(program),
    ):
        yield rejected


@contextlib.contextmanager
def _rejections(path: Path, target: str) -> Iterator[list[tuple[str, str, str]]]:
    """Yields a list that afterwards has the operators that partitioners left to other kernels: operator, location and
    reason.

    Args:
      path: the model file.
      target: the name of the target in reasons.
    """
    reporters: list[WhyNoPartitionReporter] = []
    rejected: list[tuple[str, str, str]] = []
    # The partitioner only logs its reasons.
    original = tosa_partitioner.WhyNoPartitionReporter

    def make() -> WhyNoPartitionReporter:
        reporters.append(original())
        return reporters[-1]

    with replaced(tosa_partitioner, "WhyNoPartitionReporter", make):
        yield rejected
    found = {
        (str(node.target._schema.name), _place(node, path), in_words_of_models(reason, target))
        for reporter in reporters
        for node, reason in reporter._rejected_nodes.items()
        if node.op == "call_function" and hasattr(node.target, "_schema") and not is_copy(node)
    }
    rejected += sorted(found)


def is_copy(node: Node) -> bool:
    """Whether a node is an average of single elements, which a form for an NPU adds as a copy."""
    return node.target == exir_ops.edge.aten.avg_pool2d.default and node.args[1:4] == ([1, 1], [1, 1], [0, 0])


def _place(node: Node, path: Path) -> str:
    """Returns the location of an operator; a copy that was inserted for another operator has that one's."""
    others = (*node.users, *node.all_input_nodes) if node.target == _COPY else ()
    for each in (node, *others):
        place = origin(each, path)
        if place != each.name:
            return place
    return node.name


def in_words_of_models(reason: str, target: str) -> str:
    """Rewords a partitioner's reason in terms of the model, if it has another wording."""
    # An operator's schema would be in the way of the patterns; in words, an operator's name would.
    for text in (reason, in_words(reason)):
        for pattern, meaning in _REASONS.items():
            found = re.fullmatch(pattern, text, re.DOTALL)
            if found:
                return found.expand(meaning).format(target=target)
    return reason


class _ExactPlan(MemoryPlanningAlgorithmSuite):
    """ExecuTorch's memory plan, with sizes that end with the last tensor; ExecuTorch rounds sizes up."""

    def __call__(
        self,
        alignment: int,
        specs: set[TensorSpec],
        graph_module: GraphModule,
        graph_signature: ExportGraphSignature,
        extra_padding: int,
    ) -> list[int]:
        ends = [0] * len(super().__call__(alignment, specs, graph_module, graph_signature, extra_padding))
        for spec in specs:
            ends[spec.mem_id] = max(ends[spec.mem_id], spec.mem_offset + spec.nbytes())
        return ends


def emit(manager: EdgeProgramManager) -> EmittedProgram:
    """Emits the program with delegates, whose memory ExecuTorch plans."""
    planning = MemoryPlanningPass(_ExactPlan())
    config = ExecutorchBackendConfig(memory_planning_pass=planning, segment_alignment=CONSTANT_ALIGNMENT)
    edge = manager.exported_program()
    mark_states(edge)
    keeps_state = bool(edge.graph_signature.buffers_to_mutate)
    emitted = manager.to_executorch(config)
    return EmittedProgram(emitted.executorch_program, [], bytes(emitted.buffer), keeps_state)


def leave(model: GraphModule, in_float: InFloat) -> list[Node]:
    """Marks and returns the nodes of a captured model that stay in floating point, so that quantizers leave them."""
    stays = in_float.stays(model)
    operators = (node for node in model.graph.nodes if node.op == "call_function")
    checks = (stays, is_slow, has_no_elements, adds_to_elements)
    return leave_nodes([node for node in operators if any(check(node) for check in checks)])


def border_operators(bits: int) -> BorderOperators:
    """Returns the quantize and dequantize operators of programs with activations of so many bits."""
    return BorderOperators(_QUANTIZE, _DEQUANTIZE, torch.int8 if bits == 8 else torch.int16)


# Called with a delegate's node, its payload, and its inputs and outputs in memory order.
Observer = Callable[[Node, bytes, list[npt.NDArray], list[npt.NDArray]], None]


def run(
    program: ExportedProgram, compiled: Iterable[Compiled], samples: list[Sample], observe: Observer | None = None
) -> list[list[torch.Tensor]]:
    """Runs the program: delegates by the TOSA reference model, everything else by PyTorch.

    Args:
      observe: called for every call of a delegate.

    The state carries over from one sample to the next.
    """
    by_payload = {item.payload: item.tosa for item in compiled}
    constants = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    changed = [spec.target for spec in program.graph_signature.output_specs if spec.kind == OutputKind.BUFFER_MUTATION]
    outputs = []
    for sample in samples:
        given = iter(sample)
        arguments = [next(given) if spec.kind == InputKind.USER_INPUT else constants[spec.target] for spec in specs]
        with computing():
            results = list(_Run(program.graph_module, by_payload, observe).run(*arguments))
        # The first outputs of a program are its state.
        constants |= dict(zip(changed, results, strict=False))
        outputs.append(results[len(changed) :])
    return outputs


def inputs_of(tosa: bytes) -> list[tuple[tuple[int, ...], type[numpy.generic]]]:
    """Returns shapes and dtypes of a subgraph's inputs."""
    block = TosaGraph.GetRootAs(tosa, 0).Regions(0).Blocks(0)
    tensors = {block.Tensors(i).Name(): block.Tensors(i) for i in range(block.TensorsLength())}
    inputs = [tensors[block.Inputs(i)] for i in range(block.InputsLength())]
    return [(tuple(each.Shape(axis) for axis in range(each.ShapeLength())), _DTYPES[each.Type()]) for each in inputs]


def returns_input(tosa: bytes) -> bool:
    """Whether a subgraph returns one of its inputs."""
    block = TosaGraph.GetRootAs(tosa, 0).Regions(0).Blocks(0)
    inputs = {block.Inputs(i) for i in range(block.InputsLength())}
    return any(block.Outputs(i) in inputs for i in range(block.OutputsLength()))


class UncheckedError(Exception):
    """The TOSA reference model, which provides the expected results, can't compute a subgraph."""


def outputs_of(tosa: bytes) -> int:
    """Returns how many outputs a subgraph has."""
    outputs: int = TosaGraph.GetRootAs(tosa, 0).Regions(0).Blocks(0).OutputsLength()
    return outputs


def check_reference(tosa: bytes) -> None:
    """Raises UncheckedError if the TOSA reference model can't compute a subgraph, including when it aborts."""

    def computed() -> bytes:
        _reference(tosa, [numpy.zeros(shape, dtype) for shape, dtype in inputs_of(tosa)])
        return b""

    in_a_child(computed, UncheckedError)


def _reference(tosa: bytes, inputs: Sequence[numpy.ndarray]) -> list[numpy.ndarray]:
    results, status = tosa_reference_model.run(tosa, list(inputs), verbosity="LOW")
    if status != tosa_reference_model.GraphStatus.TOSA_VALID:
        raise RuntimeError(f"the TOSA reference model returned {status}")
    return list(results)


class _Run(Interpreter):
    def __init__(self, module: GraphModule, tosa: Mapping[bytes, bytes], observe: Observer | None) -> None:
        super().__init__(module)
        # torch would append lines about its graph to an observer's message.
        self.extra_traceback = False
        self._tosa = tosa
        self._observe = observe

    def run_node(self, n: Node) -> Any:
        if n.target != executorch_call_delegate:
            try:
                return super().run_node(n)
            except NotImplementedError:
                return self._in_floating_point(n)
        module, *inputs = self.map_nodes_to_values(n.args, n)
        arrays = [tensor.permute(tensor.dim_order()).contiguous().numpy() for tensor in inputs]
        results = _reference(self._tosa[module.processed_bytes], arrays)
        if self._observe is not None:
            self._observe(n, module.processed_bytes, arrays, results)
        expected = n.meta["val"]
        values = expected if isinstance(expected, (list, tuple)) else [expected]
        tensors = []
        for array, value in zip(results, values, strict=True):
            order = list(value.dim_order())
            inverse = [order.index(axis) for axis in range(len(order))]
            # The reference model has no tensors without dimensions.
            array = array.reshape([value.shape[axis] for axis in order])
            tensors.append(torch.from_numpy(array).to(value.dtype).permute(inverse))
        return tensors if isinstance(expected, (list, tuple)) else tensors[0]

    def _in_floating_point(self, n: Node) -> Any:
        """Runs an operator that PyTorch lacks for integers in float32, which gives the same elements if it only moves
        them.
        """
        args, kwargs = tree_map_only(
            torch.Tensor,
            lambda tensor: tensor if tensor.is_floating_point() else tensor.float(),
            self.fetch_args_kwargs_from_env(n),
        )
        return getattr(self, n.op)(n.target, args, kwargs).to(n.meta["val"].dtype)
