"""Computes nodes that only depend on constants."""

import importlib
from typing import Any

import torch
from executorch.exir import memory
from executorch.exir.dialects._ops import ops as exir_ops
from torch.export import ExportedProgram

from tools.pipeline.export.ir import rewriting
from tools.pipeline.export.ir.constants import Constants
from tools.pipeline.export.ir.memory import writes
from tools.pipeline.export.ir.operators import EMPTY
from tools.pipeline.export.upstream.replaced import replace

_COPY = exir_ops.edge.dim_order_ops._clone_dim_order.default
_propagation: Any = importlib.import_module("executorch.exir.passes.constant_prop_pass")


# The pass treats operators with arguments of unknown types as dependent on an input. A mask that begins as zeros_like()
# has a memory format among its arguments.
replace(_propagation, "_PRIMITIVE_TYPES", (*_propagation._PRIMITIVE_TYPES, torch.memory_format))


def propagate_constants(program: ExportedProgram) -> ExportedProgram:
    """Computes nodes that only depend on constants, in place.

    Random numbers stay, since each inference draws new ones, and so does memory without values: a program would store
    what the exporter's memory happens to contain.
    """
    kept = {memory.alloc} | {
        node.target
        for node in program.graph.nodes
        if node.op == "call_function"
        and (
            torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
            or getattr(node.target, "_op", node.target) in EMPTY
        )
    }
    propagated: ExportedProgram = _propagation.constant_prop_pass(
        program, custom_skip_targets=kept, _skip_dim_order=False
    )
    # An operator may return a parameter itself, which torch.export doesn't accept as a constant.
    for name, value in propagated.constants.items():
        if isinstance(value, torch.nn.Parameter):
            propagated.constants[name] = value.detach()
    _order_returned(propagated)
    return propagated


def _order_returned(program: ExportedProgram) -> None:
    """Stores returned constants in the default order, in place. The pass copies them to outputs, and ExecuTorch can't
    copy a transposed tensor.
    """
    names = program.graph_signature.inputs_to_lifted_tensor_constants
    for node in program.graph.output_node().all_input_nodes:
        name = names.get(node.args[0].name) if node.target == _COPY else None
        if name is None or program.constants[name].is_contiguous():
            continue
        program.constants[name] = program.constants[name].detach().contiguous()
        node.kwargs = {**node.kwargs, "dim_order": list(range(program.constants[name].dim()))}
        for ordered in (node.args[0], node):
            ordered.meta["val"] = ordered.meta["val"].contiguous()


def fold_without_kernel(program: ExportedProgram) -> ExportedProgram:
    """Returns the program with its constants computed, if they need operators outside core ATen, such as positions that
    a model resizes to its image: a device may have no kernels for them. Otherwise returns the same program.
    """
    constants = Constants(program)
    for node in program.graph.nodes:
        is_outside = isinstance(node.target, torch._ops.OpOverload) and torch.Tag.core not in node.target.tags
        # The operands count if an operator has several results, such as a decomposition of a matrix.
        has_parts = isinstance(node.meta.get("val"), tuple) and not writes(node)
        computed = node.all_input_nodes if has_parts else [node]
        if is_outside and computed and all(constants.value(each) is not None for each in computed):
            return propagate_constants(rewriting.run_decompositions(program, {}))
    return program
