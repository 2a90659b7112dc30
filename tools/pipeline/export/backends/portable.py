"""Lowers a model to ExecuTorch's portable operators, in the model's own dtypes."""

from collections.abc import Callable, Iterable

from executorch.exir import to_edge_transform_and_lower
from executorch.exir.error import InternalError
from torch._export.verifier import SpecViolationError
from torch.export import ExportedProgram

from tools.pipeline.export.backends.request import LoweredModel, LoweringRequest
from tools.pipeline.export.capture.capture import branches, capture_model
from tools.pipeline.export.capture.diagnosis import check_out_variants, explain_lowering
from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.ir.edge import EDGE
from tools.pipeline.export.pipelines import PORTABLE, PORTABLE_EDGE
from tools.pipeline.export.plan.emission import EmittedProgram, emit
from tools.pipeline.export.upstream.retracing import known_results_of
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import UserError


def lower_model(asked: LoweringRequest) -> LoweredModel:
    """Returns the program in the model's own dtypes."""
    return LoweredModel(lower_method(asked.file, asked.eager, asked.note), asked.eager.samples, asked.eager.outputs)


def lower_method(file: ModelFile, eager: Eager, note: Callable[[str], None]) -> EmittedProgram:
    captured = capture_model(file, eager, note)
    found = branches(captured, file.path)
    # ExecuTorch can't emit loops on a condition, also within a torch.cond.
    if loops := [name for name, kind in found.items() if kind == "while_loop"]:
        raise _no_form(file, loops)
    try:
        edge = to_edge(captured)
    except SpecViolationError as error:
        raise explain_lowering(captured, file.path, error) from error
    check_out_variants(edge, file.path)
    try:
        return emit(edge)
    except (InternalError, RuntimeError) as error:
        if not found:
            raise
        # ExecuTorch can't emit maps of several tensors or results.
        raise _no_form(file, found) from error


def _no_form(file: ModelFile, found: Iterable[str]) -> UserError:
    return UserError(
        f"{file.path}: ExecuTorch has no form of {', '.join(found)}, as it is written; scan a function over a "
        "fixed number of steps, write the steps one after another, or bound a while_loop by a counter: (i < 5) & ...."
    )


def to_edge(program: ExportedProgram) -> ExportedProgram:
    """Returns ExecuTorch's edge program, with attention decomposed, batch normalization folded, recurrent layers whole
    and constants propagated.
    """
    whole = PORTABLE.run(program)
    with known_results_of(whole):
        edge = to_edge_transform_and_lower(whole, compile_config=EDGE).exported_program()
    return PORTABLE_EDGE.run(edge)
