"""Lowers a model to ExecuTorch's portable operators, in the model's own dtypes."""

from __future__ import annotations

from executorch.exir import (
    to_edge_transform_and_lower,
)
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram
from torch.export.graph_signature import OutputKind

from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.capture.capture import capture_model
from tools.pipeline.export.capture.diagnosis import (
    check_out_variants,
    explain_lowering,
)
from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.ir.dim_orders import copy_to_order, default_order, order_for_kernels
from tools.pipeline.export.ir.edge import EDGE
from tools.pipeline.export.plan.emission import EmittedProgram, emit
from tools.pipeline.export.rewrite.assignments import assemble
from tools.pipeline.export.rewrite.constant_propagation import fold_without_kernel, propagate_constants
from tools.pipeline.export.rewrite.decompositions.decompositions import decompose
from tools.pipeline.export.rewrite.fold import fold_layers
from tools.pipeline.export.rewrite.narrow_images import lay_down
from tools.pipeline.export.rewrite.own_operators import drop_pool_indices, keep_recurrent_layers
from tools.pipeline.export.upstream.retracing import known_results_of
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import Console


def lower_model(asked: LoweringRequest) -> LoweredModel:
    """The program in the model's own dtypes."""
    return LoweredModel(lower_method(asked.file, asked.eager, asked.console), asked.eager.samples, asked.eager.outputs)


def lower_method(file: ModelFile, eager: Eager, console: Console | None) -> EmittedProgram:
    captured = capture_model(file, eager, console)
    try:
        edge = to_edge(captured)
    except SpecViolationError as error:
        raise explain_lowering(captured, file.path, error) from error
    check_out_variants(edge, file.path)
    return emit(edge)


def to_edge(program: ExportedProgram) -> ExportedProgram:
    """ExecuTorch's edge dialect, with attention decomposed, batch normalization folded, recurrent layers whole and
    constants propagated.
    """
    alive = fold_layers(program)
    lay_down(alive.graph, is_channels_last=False)
    alive.graph_module.recompile()
    whole = fold_without_kernel(assemble(decompose(keep_recurrent_layers(alive))))
    with known_results_of(whole):
        edge = to_edge_transform_and_lower(whole, compile_config=EDGE).exported_program()
    # Not earlier: before it is an edge program the graph may hold operators that work in place.
    edge = order_for_kernels(drop_pool_indices(propagate_constants(edge)))
    return _order_outputs(edge)


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
