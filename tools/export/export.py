"""Exports the model of a model file: program, golden data and manifest."""

from __future__ import annotations

import io
import json
from dataclasses import dataclass
from pathlib import Path

import torch

from tools.export import golden
from tools.export.lower import capture, lower
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
    inputs = file.example_inputs()
    golden.check_dtypes(list(inputs), f"{path}: example input")
    labels = None
    samples = [inputs]
    if file.has("evaluation_set"):
        samples, labels = file.evaluation_set()
    outputs = golden.run_eager(model, samples)
    golden.check_dtypes(outputs[0], f"{path}: the model's output")
    emitted = lower(capture(model, inputs))
    plan = emitted.program.execution_plan[0]
    memory = None
    nodes = emitted.nodes
    if emitted.is_static:
        report = optimize_plan(plan)
        memory = report.memory
        nodes = [emitted.nodes[index] for index in report.kept]
        assert not constant_only_instructions(plan)
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    manifest = make_manifest(name, core, backend, emitted.program, constants, nodes, memory, path)
    return Exported(
        program=serialize(emitted.program, constants),
        golden=golden.serialize(samples, outputs, labels),
        manifest=(json.dumps(manifest, indent=1) + "\n").encode(),
    )


def _load_weights(model: torch.nn.Module, weights: Path, path: Path) -> None:
    try:
        model.load_state_dict(torch.load(io.BytesIO(weights.read_bytes()), weights_only=True))
    except RuntimeError as error:
        raise UserError(f"{weights} does not fit model() of {path}; train it again: {error}") from error
