"""Emits an edge program as an ExecuTorch program, and optimizes its plan."""

import copy
import itertools
import math
from dataclasses import dataclass, field

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig
from executorch.exir.schema import KernelCall, Program
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_leaves
from torch.utils._sympy.value_ranges import bound_sympy

from tools.pipeline.export.ir.control_flow import has_control_flow
from tools.pipeline.export.ir.edge import EDGE
from tools.pipeline.export.ir.scalar_types import itemsize
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.branches import BranchPlanning, check_plan
from tools.pipeline.export.plan.plan_passes import LEAD, constant_only_instructions, optimize_plan
from tools.pipeline.export.plan.serialize import CONSTANT_ALIGNMENT, serialize
from tools.pipeline.placement.placement import MemoryPlan


@dataclass
class EmittedProgram:
    """The result of lowering.

    Attributes:
      program: ExecuTorch's own in-memory program.
      nodes: the graph node of every instruction of the program's only chain, in order, if it is known. All are known if
        there is no file.
      states: the initial bytes of buffers that the model changes, if they are not zeros, at the index that
        Tensor.data_buffer_idx names. Index 0 is reserved.
      keeps_state: whether the model has buffers that it changes.
      file: the .pte file, if ExecuTorch has planned its memory because of control flow or dynamic shapes. Otherwise the
        passes over the plan and our own serializer follow.
      constants: maps nodes to the names of parameters, buffers and other constants in the captured program.
      bounds: maps the index of each input with a dynamic shape to the smallest and largest size of each dimension.
    """

    program: Program
    nodes: list[Node | None]
    file: bytes | None
    keeps_state: bool
    states: list[bytes] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    bounds: dict[int, list[tuple[int, int]]] = field(default_factory=dict)


def emit(edge: ExportedProgram, config: EdgeCompileConfig = EDGE) -> EmittedProgram:
    """Converts operators to out variants and emits the program.

    Args:
      config: the options that the edge program was made with.
    """
    has_jumps = has_control_flow(edge)
    keeps_state = bool(edge.graph_signature.buffers_to_mutate)
    keeps_plan = has_jumps or _has_dynamic_shapes(edge)
    bounds = _bounds(edge)
    mark_states(edge)
    manager = EdgeProgramManager(edge, compile_config=config).to_executorch(
        ExecutorchBackendConfig(
            # In other plans our own passes remove the views, because they know the memory that these alias. A view of
            # an operand of a branch would refer to memory that is never written.
            remove_view_copy=keeps_plan and not has_jumps,
            memory_planning_pass=BranchPlanning(),
            segment_alignment=CONSTANT_ALIGNMENT,
        )
    )
    program = manager.executorch_program
    # Besides the file, only the emitter's own output contains them.
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


def _has_dynamic_shapes(program: ExportedProgram) -> bool:
    """Whether a tensor of the program has a size that is only known at run time."""
    values = itertools.chain.from_iterable(tree_leaves(node.meta.get("val")) for node in program.graph.nodes)
    return any(not isinstance(size, int) for value in values for size in getattr(value, "shape", ()))


def _bounds(edge: ExportedProgram) -> dict[int, list[tuple[int, int]]]:
    """Returns the smallest and largest size of each dimension of inputs with dynamic shapes."""
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
    """Requests initial values for buffers that the program changes, unless they are zero, as planned memory initially
    is.
    """
    signature = edge.graph_signature
    changed = set(signature.buffers_to_mutate.values())
    for node in edge.graph.nodes:
        name = signature.inputs_to_buffers.get(node.name) if node.op == "placeholder" else None
        if name in changed and edge.state_dict.get(name, edge.constants.get(name)).count_nonzero():
            # ExecuTorch's InitializedMutableBufferPass sets this for buffers by patterns of their names.
            node.meta["et_init_buffer"] = True


def _fit_arenas(program: Program) -> None:
    """Ends each planned buffer at its last tensor's end; ExecuTorch rounds sizes up."""
    plan = program.execution_plan[0]
    ends = [0] * len(plan.non_const_buffer_sizes)
    for value in plan.values:
        place = getattr(value.val, "allocation_info", None)
        if place is not None:
            size = math.prod(value.val.sizes) * itemsize(value.val.scalar_type)
            ends[place.memory_id] = max(ends[place.memory_id], place.memory_offset + size)
    plan.non_const_buffer_sizes = ends


def _known_nodes_of_instructions(program: Program, graph_module: GraphModule) -> list[Node | None]:
    """Returns the node of each instruction, where emission records it: not in branches and loops."""
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
    """Returns one node per instruction: emission keeps the graph's order and emits one instruction per out variant."""
    plan = program.execution_plan[0]
    calls = [node for node in graph_module.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    names = [plan.operators[call.instr_args.op_index] for call in plan.chains[0].instructions]
    expected = [(node.target._schema.name, node.target._schema.overload_name) for node in calls]
    assert [(operator.name, operator.overload) for operator in names] == expected
    return calls


def optimize(emitted: EmittedProgram, options: Options) -> tuple[list[Node | None], MemoryPlan]:
    """Optimizes the plan of a program; returns the nodes of the remaining instructions, and the memory plan."""
    plan = emitted.program.execution_plan[0]
    leads = {index: node.meta[LEAD] for index, node in enumerate(emitted.nodes) if node and LEAD in node.meta}
    report = optimize_plan(plan, leads)
    wasted = constant_only_instructions(plan)
    assert not wasted, f"instructions {wasted} of the plan work on constants only"
    return [emitted.nodes[index] for index in report.kept], report.memory


def optimized(emitted: EmittedProgram, options: Options) -> tuple[list[Node | None], int, int]:
    """Returns the nodes of an optimized program's instructions, and the bytes of its file and of its tensors."""
    emitted = copy.deepcopy(emitted, {id(emitted.nodes): emitted.nodes})
    nodes = optimize(emitted, options)[0] if emitted.file is None else emitted.nodes
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    file = emitted.file or serialize(emitted.program, constants, emitted.states)
    return nodes, len(file), sum(emitted.program.execution_plan[0].non_const_buffer_sizes)
