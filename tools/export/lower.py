"""From an nn.Module to an emitted ExecuTorch program: the steps that work on torch's graph."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, ExecutorchBackendConfig, to_edge_transform_and_lower
from executorch.exir.passes.constant_prop_pass import constant_prop_pass
from executorch.exir.schema import Program
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from tools.export.batch_norm import fold_batch_norm

# Kept whole: the kernel reads the weight as the module stores it, [out, in]. Decomposed, a transposition of the weight and a
# matrix product would be left.
_PRESERVED = [torch.ops.aten.linear.default]


@dataclass
class EmittedProgram:
    """What lowering gives.

    Attributes:
      program: ExecuTorch's own in-memory program.
      nodes: for every instruction of the program's only chain, in order, the graph node that it came from; empty if
        they cannot be told apart (control flow).
      is_static: whether every shape is known now, so that memory can be planned exactly.
    """

    program: Program
    nodes: list[Node]
    is_static: bool


def capture(model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> ExportedProgram:
    """torch.export, which runs the model's code once with tensors that have shapes but no values."""
    with torch.no_grad():
        return torch.export.export(model, inputs, strict=False)


def lower(program: ExportedProgram) -> EmittedProgram:
    """Edge dialect, batch normalization folded, constants propagated, out variants, emission."""
    program = constant_prop_pass(fold_batch_norm(program), custom_skip_targets=set())
    config = EdgeCompileConfig(preserve_ops=_PRESERVED)
    edge = to_edge_transform_and_lower(program, compile_config=config).exported_program()
    # Decompositions leave new operators on constants behind.
    edge = constant_prop_pass(edge, custom_skip_targets=set(), _skip_dim_order=False)
    is_static = _is_static(edge)
    manager = EdgeProgramManager(edge, compile_config=config).to_executorch(
        # Views of static shapes are removed from the plan itself, where it can be seen which memory they alias.
        ExecutorchBackendConfig(remove_view_copy=not is_static, segment_alignment=16)
    )
    emitted = manager.executorch_program
    nodes = _nodes_of_instructions(emitted, manager.exported_program().graph_module)
    return EmittedProgram(emitted, nodes, is_static)


def _is_static(program: ExportedProgram) -> bool:
    """Whether no shape is symbolic and no operator holds a graph of its own."""
    for node in program.graph.nodes:
        if node.op == "get_attr" or isinstance(node.target, torch._ops.HigherOrderOperator):
            return False
        values = node.meta.get("val")
        for value in values if isinstance(values, (tuple, list)) else [values]:
            if isinstance(value, torch.SymInt):
                return False
            if isinstance(value, torch.Tensor) and any(not isinstance(size, int) for size in value.shape):
                return False
    return True


def _nodes_of_instructions(program: Program, graph_module: GraphModule) -> list[Node]:
    """One node per instruction: emission keeps the graph's order and gives one instruction per out variant."""
    plan = program.execution_plan[0]
    calls = [node for node in graph_module.graph.nodes if node.op == "call_function" and _is_kernel(node)]
    instructions = plan.chains[0].instructions
    names = [plan.operators[i.instr_args.op_index] for i in instructions if hasattr(i.instr_args, "op_index")]
    expected = [(node.target._schema.name, node.target._schema.overload_name) for node in calls]
    if len(names) != len(instructions) or [(op.name, op.overload) for op in names] != expected:
        return []
    return calls


def _is_kernel(node: Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload)
