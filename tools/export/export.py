"""Exports the model of a model file: program, golden data and manifest."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import torch
from torch._export.verifier import SpecViolationError

from tools.export import golden
from tools.export.diagnosis import (
    check_captured,
    check_out_variants,
    check_state,
    explain_capture,
    explain_forward,
    explain_lowering,
)
from tools.export.lower import EmittedProgram, capture, emit, to_edge
from tools.export.manifest import make_manifest
from tools.export.plan_passes import constant_only_instructions, optimize_plan
from tools.export.serialize import serialize
from tools.model_file.model_file import ModelFile
from tools.quiet.console import Console, UserError


@dataclass(frozen=True)
class Exported:
    """The three files of an export."""

    program: bytes
    golden: bytes
    manifest: bytes


def export(path: Path, name: str, core: str, backend: str, weights: Path | None, console: Console) -> Exported:
    """Exports the model in the file `path`.

    Args:
      name: the program's name in the manifest.
      core: the core that the program is for, `portable` if any.
      backend: what computes: `portable`, kernels of ExecuTorch's operator set.
      weights: a state_dict that tools/train wrote, if the model is trained.

    Raises UserError for what the user can mend.
    """
    torch.manual_seed(0)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    file = ModelFile(path)
    model = file.model()
    if weights is not None:
        _load_weights(model, weights, path)
    # A program takes its inputs in the default order of dimensions, whatever views the example inputs are.
    inputs = tuple(tensor.contiguous() for tensor in file.example_inputs())
    golden.check_dtypes(inputs, f"{path}: example input")
    samples, labels = file.evaluation_set() if file.has("evaluation_set") else ([inputs], None)
    try:
        outputs = golden.run_eager(model, samples)
    except UserError as error:
        raise UserError(f"{path}: {error}") from error
    except Exception as error:
        raise explain_forward(file, model, inputs, error) from error
    golden.check_dtypes(outputs[0], f"{path}: the model's output")
    for index in golden.non_finite_outputs(outputs):
        console.say(f"export: warning: {path}: output {index} of the model holds NaN or infinity in eager mode.")

    emitted = _lower(file, model, inputs)
    plan = emitted.program.execution_plan[0]
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    if emitted.file is not None:
        manifest = make_manifest(name, core, backend, emitted.program, constants, [], None, path)
        program = emitted.file
    else:
        report = optimize_plan(plan)
        wasted = constant_only_instructions(plan)
        assert not wasted, f"instructions {wasted} of the plan work on constants only"
        nodes = [emitted.nodes[index] for index in report.kept]
        manifest = make_manifest(name, core, backend, emitted.program, constants, nodes, report.memory, path)
        program = serialize(emitted.program, constants)
    return Exported(
        program=program,
        golden=golden.serialize(samples, outputs, labels),
        manifest=(json.dumps(manifest, indent=1) + "\n").encode(),
    )


def _lower(file: ModelFile, model: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> EmittedProgram:
    try:
        captured = capture(model, inputs)
    except Exception as error:
        raise explain_capture(file, error) from error
    check_captured(captured, file.path)
    try:
        edge = to_edge(captured)
    except SpecViolationError as error:
        raise explain_lowering(captured, file.path, error) from error
    check_state(edge, file.path)
    check_out_variants(edge, file.path)
    return emit(edge)


def _load_weights(model: torch.nn.Module, weights: Path, path: Path) -> None:
    try:
        model.load_state_dict(torch.load(io.BytesIO(weights.read_bytes()), weights_only=True))
    except RuntimeError as error:
        raise UserError(f"{weights} does not fit model() of {path}; train it again: {error}") from error
