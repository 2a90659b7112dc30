"""Quantizes a captured model for an Ethos-U and delegates to it what it can compute."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import tosa_reference_model
from executorch.backends.arm.ethosu import EthosUPartitioner
from executorch.backends.arm.quantizer import (
    EthosUQuantizer,
    get_symmetric_a16w8_quantization_config,
    get_symmetric_quantization_config,
)
from executorch.backends.arm.tosa import partitioner as tosa_partitioner
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    to_edge_transform_and_lower,
)
from executorch.exir.backend.utils import WhyNoPartitionReporter
from executorch.exir.delegate import executorch_call_delegate
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.memory_planning import MemoryPlanningAlgorithmSuite
from executorch.exir.passes import MemoryPlanningPass
from executorch.exir.tensor import TensorSpec
from torch.export import ExportedProgram
from torch.export.graph_signature import ExportGraphSignature, InputKind
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_leaves
from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e

from tools.artifacts.ethos_u.npu import Npu
from tools.pipeline.export.border import BorderOperators, user_inputs
from tools.pipeline.export.cortex_m.quantize import Quantized, Sample, calibrate
from tools.pipeline.export.ethos_u import vela
from tools.pipeline.export.lower import EmittedProgram
from tools.pipeline.export.manifest import origin
from tools.pipeline.export.serialize import CONSTANT_ALIGNMENT
from tools.pipeline.model_file.deterministic import computing
from tools.quiet.console import UserError

_QUANTIZE = exir_ops.edge.quantized_decomposed.quantize_per_tensor.default
_DEQUANTIZE = exir_ops.edge.quantized_decomposed.dequantize_per_tensor.default
_POOLS = (torch.ops.aten.avg_pool2d.default, torch.ops.aten.max_pool2d.default)


@dataclass
class Lowered:
    """A program with delegates.

    Attributes:
      manager: the edge program.
      compiled: what Vela made of each delegate, in their order.
      rejected: what the NPU can't take, as (operator, place in the model, reason).
    """

    manager: EdgeProgramManager
    compiled: list[vela.Compiled]
    rejected: list[tuple[str, str, str]] = field(default_factory=list)


def quantize(program: ExportedProgram, samples: Iterable[Sample], npu: Npu, bits: int, path: Path) -> Quantized:
    """The program with quantize and dequantize operators of ExecuTorch's Ethos-U quantizer, calibrated on the samples.

    Args:
      bits: of the activations, 8 or 16; weights have 8.
      path: the model file, for messages.

    Raises UserError for values that calibrating cannot work with, by layer, and for double precision.
    """
    # What depends on constants alone is a constant itself, once it is folded.
    varying = set(user_inputs(program))
    for node in program.graph.nodes:
        varying |= {node} if varying.intersection(node.all_input_nodes) else set()
        value = node.meta.get("val")
        if node in varying and isinstance(value, torch.Tensor) and value.dtype == torch.float64:
            raise UserError(
                f"{path}: {origin(node, path)} is in double precision, which ExecuTorch's Ethos-U quantizer does not "
                "take; convert it with .float()."
            )
    quantizer = EthosUQuantizer(vela.compile_spec(npu))
    quantizer.set_global(
        get_symmetric_quantization_config() if bits == 8 else get_symmetric_a16w8_quantization_config()
    )
    _reduce_strides(program)
    prepared = prepare_pt2e(program.module(check_guards=False), quantizer)
    observed, kept = calibrate(prepared, samples, path)
    return Quantized(convert_pt2e(prepared), observed, kept, {})


def _reduce_strides(program: ExportedProgram) -> None:
    """Gives poolings of one window the stride 1, in place: the NPU's stride is at most 3."""
    graph = program.graph
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in _POOLS or tuple(node.meta["val"].shape[-2:]) != (1, 1):
            continue
        source, kernel, *rest = node.args
        kernel = [kernel] * 2 if isinstance(kernel, int) else list(kernel)
        if any(padding for padding in tree_leaves(rest[1:2])):
            continue
        # Rows and columns behind the window, which the stride would have skipped.
        with graph.inserting_before(node):
            for axis, size in ((-2, kernel[0]), (-1, kernel[-1])):
                if source.meta["val"].shape[axis] > size:
                    value = source.meta["val"].narrow(axis, 0, size)
                    source = graph.call_function(torch.ops.aten.slice.Tensor, (source, axis % value.dim(), 0, size))
                    source.meta = dict(node.meta) | {"val": value}
        node.args = (source, kernel, [1, 1], *rest[1:])
    program.graph_module.recompile()


def delegate(program: ExportedProgram, npu: Npu, path: Path) -> Lowered:
    """Lowers a quantized program, with the subgraphs that the NPU can compute as delegates.

    Raises UserError if Vela refuses a subgraph.
    """
    reporters: list[WhyNoPartitionReporter] = []
    with _reported(reporters), vela.compiling(npu) as compiled:
        partitioner = EthosUPartitioner(vela.compile_spec(npu))
        try:
            manager = to_edge_transform_and_lower(
                program,
                partitioner=[partitioner],
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
        except vela.VelaError as error:
            raise UserError(
                f"{path}: Vela can't compile the model for {npu.accelerator}: {error}. Write the layer another way, or "
                'leave the model to the core: backend = "cortex_m".'
            ) from error
    rejected = {
        (str(getattr(node.target, "_schema", node.target).name), origin(node, path), reason)
        for reporter in reporters
        for node, reason in reporter._rejected_nodes.items()
        if node.op == "call_function" and hasattr(node.target, "_schema")
    }
    return Lowered(manager, compiled, sorted(rejected))


@contextlib.contextmanager
def _reported(reporters: list[WhyNoPartitionReporter]) -> Iterator[None]:
    """Keeps the partitioner's reasons, which it only logs."""
    original = tosa_partitioner.WhyNoPartitionReporter

    def make() -> WhyNoPartitionReporter:
        reporters.append(original())
        return reporters[-1]

    tosa_partitioner.WhyNoPartitionReporter = make
    try:
        yield
    finally:
        tosa_partitioner.WhyNoPartitionReporter = original


class _ExactPlan(MemoryPlanningAlgorithmSuite):
    """ExecuTorch's plan of memory, with blocks that end where their last tensor does; ExecuTorch rounds sizes up."""

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
    """The program with delegates, whose memory ExecuTorch plans."""
    planning = MemoryPlanningPass(_ExactPlan())
    config = ExecutorchBackendConfig(memory_planning_pass=planning, segment_alignment=CONSTANT_ALIGNMENT)
    emitted = manager.to_executorch(config)
    return EmittedProgram(emitted.executorch_program, [], bytes(emitted.buffer), keeps_state=False)


def border_operators(bits: int) -> BorderOperators:
    """What programs with activations of so many bits are quantized with."""
    return BorderOperators(_QUANTIZE, _DEQUANTIZE, torch.int8 if bits == 8 else torch.int16)


def run(program: ExportedProgram, compiled: list[vela.Compiled], samples: list[Sample]) -> list[list[torch.Tensor]]:
    """What the program returns: delegates by the TOSA reference model, everything else by PyTorch."""
    by_payload = {item.payload: item.tosa for item in compiled}
    constants = {**program.state_dict, **program.constants}
    specs = program.graph_signature.input_specs
    outputs = []
    for sample in samples:
        given = iter(sample)
        arguments = [next(given) if spec.kind == InputKind.USER_INPUT else constants[spec.target] for spec in specs]
        with computing():
            outputs.append(list(_Run(program.graph_module, by_payload).run(*arguments)))
    return outputs


class _Run(Interpreter):
    def __init__(self, module: GraphModule, tosa: dict[bytes, bytes]) -> None:
        super().__init__(module)
        self._tosa = tosa

    def run_node(self, n: Node) -> Any:
        if n.target != executorch_call_delegate:
            return super().run_node(n)
        module, *inputs = self.map_nodes_to_values(n.args, n)
        arrays = [tensor.permute(tensor.dim_order()).contiguous().numpy() for tensor in inputs]
        results, status = tosa_reference_model.run(self._tosa[module.processed_bytes], arrays, verbosity="LOW")
        if status != tosa_reference_model.GraphStatus.TOSA_VALID:
            raise RuntimeError(f"the TOSA reference model returned {status} for {n.name}")
        expected = n.meta["val"]
        values = expected if isinstance(expected, (list, tuple)) else [expected]
        tensors = []
        for array, value in zip(results, values, strict=True):
            order = list(value.dim_order())
            inverse = [order.index(axis) for axis in range(len(order))]
            tensors.append(torch.from_numpy(array).to(value.dtype).permute(inverse))
        return tensors if isinstance(expected, (list, tuple)) else tensors[0]
