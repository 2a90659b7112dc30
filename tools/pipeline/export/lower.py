"""From an nn.Module to an emitted ExecuTorch program: the steps that work on torch's graph."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    memory,
    to_edge_transform_and_lower,
)
from executorch.exir.schema import KernelCall, Program
from torch.export import ExportedProgram, _trace
from torch.export.graph_signature import OutputKind
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.value_ranges import bound_sympy

from tools.pipeline.export.capture.own_memory import copy_changed_inputs, copy_operands_returned
from tools.pipeline.export.capture.tensor_indices import keep_tensor_indices
from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.ir.control_flow import has_control_flow
from tools.pipeline.export.ir.dim_orders import copy_to_order, default_order, order_for_kernels
from tools.pipeline.export.ir.scalar_types import itemsize
from tools.pipeline.export.plan.branches import BranchPlanning, check_plan
from tools.pipeline.export.plan.serialize import CONSTANT_ALIGNMENT, serialize
from tools.pipeline.export.rewrite.assignments import assemble
from tools.pipeline.export.rewrite.attention import decompose_attention
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.dead_channels import remove_dead_channels
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose
from tools.pipeline.export.rewrite.kernel_reach import leave_out_what_is_over_padding
from tools.pipeline.export.rewrite.narrow_images import lay_down
from tools.pipeline.export.rewrite.own_operators import drop_pool_indices, keep_recurrent_layers
from tools.pipeline.export.upstream.repeated_work import do_once
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.export.upstream.retracing import known_results_of

# Operators that are kept whole. The kernel of linear reads the weight as the module stores it, [out, in]; decomposed, a
# transposition of the weight and a matrix product would be left. The others are one pass over their elements instead
# of two to six. The exceptions have portable kernels, but are not among the operators that all backends know.
EDGE = EdgeCompileConfig(
    _core_aten_ops_exception_list=[
        torch.ops.aten._upsample_bilinear2d_aa.default,
        torch.ops.aten.bitwise_left_shift.Tensor,
        torch.ops.aten.bitwise_left_shift.Tensor_Scalar,
        torch.ops.aten.bitwise_right_shift.Tensor,
        torch.ops.aten.bitwise_right_shift.Tensor_Scalar,
        torch.ops.aten.masked_select.default,
        torch.ops.aten.repeat_interleave.Tensor,
        torch.ops.aten.var_mean.correction,
    ],
    preserve_ops=[
        torch.ops.aten.hardsigmoid.default,
        torch.ops.aten.hardswish.default,
        torch.ops.aten.linear.default,
        torch.ops.aten.mish.default,
        torch.ops.aten.silu.default,
        torch.ops.aten.softplus.default,
        torch.ops.aten.threshold.default,
        torch.ops.aten.triu.default,
    ],
)

_EMPTY = (
    torch.ops.aten.empty.memory_format,
    torch.ops.aten.empty_like.default,
    torch.ops.aten.new_empty.default,
)

_propagation: Any = importlib.import_module("executorch.exir.passes.constant_prop_pass")
# It takes operators whose arguments it does not know for ones that depend on an input: a mask begins as zeros_like().
_propagation._PRIMITIVE_TYPES = (*_propagation._PRIMITIVE_TYPES, torch.memory_format)


@dataclass
class EmittedProgram:
    """What lowering gives.

    Attributes:
      program: ExecuTorch's own in-memory program.
      nodes: for every instruction of the program's only chain, in order, the graph node that it came from, if that is
        known; it is of all of them if there is no file.
      states: bytes of what buffers start with that the model changes, if those are not zeros, at the index that
        Tensor.data_buffer_idx names. Index 0 is reserved.
      keeps_state: whether the model has buffers that it changes.
      file: the .pte file, if ExecuTorch has planned its memory: with control flow or dynamic shapes. Without, it is
        left to the passes over the plan and our own serializer.
      constants: what the captured program calls its parameters, buffers and other constants, by their nodes.
      bounds: of each input of dynamic shape the smallest and largest size of each dimension, by the input's place.
    """

    program: Program
    nodes: list[Node | None]
    file: bytes | None
    keeps_state: bool
    states: list[bytes] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    bounds: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def capture(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...], dynamic_shapes: Any = None) -> ExportedProgram:
    """torch.export, which runs the model's code once with tensors that have shapes but no values.

    Args:
      dynamic_shapes: which sizes of the inputs vary, as torch.export takes it.
    """
    do_once()
    with torch.no_grad(), _functions_compiled(), _distributions_unchecked(), _masks_unread():
        captured = torch.export.export(model, inputs, dynamic_shapes=dynamic_shapes, strict=False)
    own = copy_operands_returned(copy_changed_inputs(_rename_inputs(captured)))
    return keep_tensor_indices(_fill_memory(own))


@contextlib.contextmanager
def _functions_compiled() -> Iterator[None]:
    """Lets PyTorch compile the functions of control flow, by which their weights become operands, with the sizes that
    their operands have: of sizes that might vary it can't tell that two branches return the same strides.
    """
    static = dataclasses.replace(_trace.DEFAULT_EXPORT_DYNAMO_CONFIG, assume_static_by_default=True)
    with (
        torch.compiler.set_stance("default"),
        replaced(_trace, "DEFAULT_EXPORT_DYNAMO_CONFIG", static),
    ):
        yield


@contextlib.contextmanager
def _distributions_unchecked() -> Iterator[None]:
    """torch.distributions without the checks of their arguments, which depend on values."""
    before = torch.distributions.Distribution._validate_args
    torch.distributions.Distribution.set_default_validate_args(False)
    try:
        yield
    finally:
        torch.distributions.Distribution.set_default_validate_args(before)


def _masks_unread() -> contextlib.AbstractContextManager[None]:
    """Lets PyTorch's transformer layers take masks as they are, without a look at whether their values are causal ones.

    torch.export has no values; the hint that this gives is for kernels that need no mask then.
    """

    def is_causal_by_name(mask: torch.Tensor | None, is_causal: bool | None = None, size: int | None = None) -> bool:
        return is_causal is True

    return replaced(torch.nn.modules.transformer, "_detect_is_causal_mask", is_causal_by_name)


def _rename_inputs(program: ExportedProgram) -> ExportedProgram:
    """Gives inputs that the model calls as Python or torch call something else, such as `input`, names that they keep
    in copies of the graph, in place: the program's signature knows them by name, and a copy would call them otherwise.
    """
    signature = program.graph_signature
    for node in program.graph.find_nodes(op="placeholder"):
        before, kept = node.name, Graph().placeholder(node.name).name
        if before == kept:
            continue
        node._rename(kept)
        node.target = node.name
        signature.replace_all_uses(before, node.name)
    program.graph_module.recompile()
    return program


def _fill_memory(program: ExportedProgram) -> ExportedProgram:
    """Lets memory that the model takes to write into begin with zeros, in place: of other numbers, which may be NaN or
    infinity, calibration would take ranges.
    """
    for node in list(program.graph.nodes):
        value = node.meta.get("val")
        if node.target in _EMPTY and all(isinstance(size, int) for size in value.shape):
            with program.graph.inserting_before(node):
                zeros = program.graph.call_function(
                    torch.ops.aten.full.default, (list(value.shape), 0), {"dtype": value.dtype}
                )
            zeros.meta = {**rewriting.place_of(node), "val": value.new_zeros(value.shape)}
            rewriting.replace_node(program, node, zeros)
            program.graph.erase_node(node)
    program.graph_module.recompile()
    return program


def _has_dynamic_shapes(program: ExportedProgram) -> bool:
    """Whether a tensor of the program has a size that is known at run time only."""
    values = itertools.chain.from_iterable(tree_leaves(node.meta.get("val")) for node in program.graph.nodes)
    return any(not isinstance(size, int) for value in values for size in getattr(value, "shape", ()))


def fold_layers(program: ExportedProgram) -> ExportedProgram:
    """A captured program whose layers compute what reaches its results, and no more.

    Attention becomes matrix products, and batch normalization part of the layers before it; weights that lie over
    padding only and dead channels are left out.
    """
    return remove_dead_channels(leave_out_what_is_over_padding(fold_batch_norm(decompose_attention(program))))


def to_edge(program: ExportedProgram) -> ExportedProgram:
    """ExecuTorch's edge dialect, with attention decomposed, batch normalization folded, recurrent layers whole and
    constants propagated.
    """
    alive = fold_layers(program)
    lay_down(alive.graph, is_channels_last=False)
    alive.graph_module.recompile()
    whole = _fold_without_kernel(assemble(decompose(keep_recurrent_layers(alive))))
    with known_results_of(whole):
        edge = to_edge_transform_and_lower(whole, compile_config=EDGE).exported_program()
    # Not earlier: before it is an edge program the graph may hold operators that work in place.
    edge = order_for_kernels(drop_pool_indices(propagate_constants(edge)))
    return _order_outputs(edge)


def _fold_without_kernel(program: ExportedProgram) -> ExportedProgram:
    """The program with its constants computed, if that takes operators outside the core ATen ones, for which a device
    may have no kernels: positions that a model resizes to its image, for one. Else the same program.
    """
    constants = Constants(program)
    for node in program.graph.nodes:
        is_outside = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.core not in node.target.tags
        if is_outside and constants.value(node) is not None:
            return propagate_constants(rewriting.run_decompositions(program, {}))
    return program


def propagate_constants(program: ExportedProgram) -> ExportedProgram:
    """Computes what depends on constants only, in place.

    Left are random numbers, which are new ones in every inference, and memory to work in.
    """
    kept = {memory.alloc} | {
        node.target
        for node in program.graph.nodes
        if node.op == "call_function" and torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    }
    return _propagation.constant_prop_pass(program, custom_skip_targets=kept, _skip_dim_order=False)


def _order_outputs(program: ExportedProgram) -> ExportedProgram:
    """Gives every output the default order of dimensions, as callers expect it."""
    output = program.graph.output_node()
    results = list(output.args[0])
    for index, (node, spec) in enumerate(zip(results, program.graph_signature.output_specs, strict=True)):
        value = node.meta["val"]
        order = default_order(value)
        if spec.kind != OutputKind.USER_OUTPUT or list(value.dim_order()) == order:
            continue
        with program.graph.inserting_before(output):
            results[index] = copy_to_order(program, node, order, node.meta)
        spec.arg.name = results[index].name
    output.args = (tuple(results),)
    program.graph_module.recompile()
    return program


def emit(edge: ExportedProgram, config: EdgeCompileConfig = EDGE) -> EmittedProgram:
    """Out variants and emission.

    Args:
      config: what the edge program was made with.
    """
    has_jumps = has_control_flow(edge)
    keeps_state = bool(edge.graph_signature.buffers_to_mutate)
    keeps_plan = has_jumps or _has_dynamic_shapes(edge)
    bounds = _bounds(edge)
    mark_states(edge)
    manager = EdgeProgramManager(edge, compile_config=config).to_executorch(
        ExecutorchBackendConfig(
            # In other plans our own passes remove the views, where it can be seen which memory they alias. A view of
            # what a branch gets would be one of memory that nobody writes.
            remove_view_copy=keeps_plan and not has_jumps,
            memory_planning_pass=BranchPlanning(),
            segment_alignment=CONSTANT_ALIGNMENT,
        )
    )
    program = manager.executorch_program
    # The emitter's own output is the only place that has them besides the file.
    states = [buffer.storage for buffer in manager._emitter_output.mutable_data or []]
    final = manager.exported_program()
    signature = final.graph_signature
    constants = {
        **signature.inputs_to_parameters,
        **signature.inputs_to_buffers,
        **signature.inputs_to_lifted_tensor_constants,
    }
    if keeps_plan:
        nodes = _known_nodes_of_instructions(program, final.graph_module)
        if has_jumps:
            check_plan(program.execution_plan[0])
            file = manager.buffer
        else:
            _fit_arenas(program)
            file = serialize(program, [buffer.storage for buffer in program.constant_buffer], states)
        return EmittedProgram(program, nodes, file, keeps_state, constants=constants, bounds=bounds)
    nodes = _nodes_of_instructions(program, final.graph_module)
    return EmittedProgram(program, nodes, None, keeps_state, states, constants)


def _bounds(edge: ExportedProgram) -> dict[int, list[tuple[int, int]]]:
    """The smallest and largest size of each dimension of inputs whose shape is dynamic."""
    inputs = set(edge.graph_signature.user_inputs)
    nodes = [node for node in edge.graph.nodes if node.op == "placeholder" and node.name in inputs]
    result = {}
    for place, node in enumerate(nodes):
        shape = getattr(node.meta.get("val"), "shape", ())
        if any(not isinstance(size, int) for size in shape):
            result[place] = [_bound(edge, size) for size in shape]
    return result


def _bound(edge: ExportedProgram, size: int | torch.SymInt) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    bound = bound_sympy(size.node.expr, edge.range_constraints)
    return int(bound.lower), int(bound.upper)


def mark_states(edge: ExportedProgram) -> None:
    """Asks the emitter for the initial values of buffers that the program changes; planned memory starts with zeros."""
    signature = edge.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    for node in edge.graph.nodes:
        name = signature.inputs_to_buffers.get(node.name) if node.op == "placeholder" else None
        if name in changed and edge.state_dict.get(name, edge.constants.get(name)).count_nonzero():
            # What ExecuTorch's InitializedMutableBufferPass sets for buffers by patterns of their names.
            node.meta["et_init_buffer"] = True


def _fit_arenas(program: Program) -> None:
    """Ends each planned buffer where its last tensor does; ExecuTorch rounds sizes up."""
    plan = program.execution_plan[0]
    ends = [0] * len(plan.non_const_buffer_sizes)
    for value in plan.values:
        place = getattr(value.val, "allocation_info", None)
        if place is not None:
            size = math.prod(value.val.sizes) * itemsize(value.val.scalar_type)
            ends[place.memory_id] = max(ends[place.memory_id], place.memory_offset + size)
    plan.non_const_buffer_sizes = ends


def _known_nodes_of_instructions(program: Program, graph_module: GraphModule) -> list[Node | None]:
    """The node of each instruction, as far as emission notes it in the graph: not in branches and loops."""
    plan = program.execution_plan[0]
    instructions = plan.chains[0].instructions
    nodes: list[Node | None] = [None] * len(instructions)
    for node in graph_module.graph.nodes:
        place = node.meta.get("debug_handle")
        if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(place, int) or place >= len(nodes):
            continue
        call = instructions[place].instr_args
        if isinstance(call, KernelCall) and plan.operators[call.op_index].name == node.target._schema.name:
            nodes[place] = node
    return nodes


def _nodes_of_instructions(program: Program, graph_module: GraphModule) -> list[Node | None]:
    """One node per instruction: emission keeps the graph's order and gives one instruction per out variant."""
    plan = program.execution_plan[0]
    calls = [node for node in graph_module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    names = [plan.operators[call.instr_args.op_index] for call in plan.chains[0].instructions]
    expected = [(node.target._schema.name, node.target._schema.overload_name) for node in calls]
    assert [(operator.name, operator.overload) for operator in names] == expected
    return calls
