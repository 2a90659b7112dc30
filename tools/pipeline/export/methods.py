"""Exports further methods of a program."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from executorch.exir.schema import ExecutionPlan, Program, Tensor

from tools.artifacts.manifest.manifest import manifest_json
from tools.pipeline.export.backends.portable import lower_method
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.eager import Eager, run_eager
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import EmittedProgram, optimize
from tools.pipeline.export.plan.manifest import Quantization, make_manifest
from tools.pipeline.model_file.deterministic import tracing
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import UserError

# The restrictions of a program with several methods.
ONE_METHOD = (
    "a program of several methods can be neither quantized, nor have control flow or dynamic shapes, nor keep state, "
    "which methods don't share; make a program of each method, and state of several an input and an output of each"
)


@dataclass(frozen=True)
class ExportedMethod:
    """A further method of a program: its files, its results in eager mode, and its multiply-accumulates."""

    golden: bytes
    manifest: bytes
    eager: Eager
    macs: int


def macs_of(manifest: dict[str, Any]) -> int:
    """Returns the multiply-accumulates of a call of the method of a manifest."""
    return sum(instruction["macs"] for instruction in manifest["instructions"])


def dim_orders_of(manifest: dict[str, Any]) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the dim orders of a program's inputs and outputs."""
    inputs, outputs = ([entry["dim_order"] for entry in manifest[kind]] for kind in ("inputs", "outputs"))
    return inputs, outputs


def plan_method(
    name: str, emitted: EmittedProgram, eager: Eager, options: Options, path: Path, quantization: Quantization | None
) -> tuple[list[bytes], dict[str, Any]]:
    """Plans the memory of an emitted method, and returns its constants and its manifest.

    Args:
      name: the manifest's name.
      path: the model file.
      quantization: the quantization of a quantized program.
    """
    nodes, memory = emitted.nodes, None
    if emitted.file is None:
        nodes, memory = optimize(emitted, options)
    constants = [buffer.storage for buffer in emitted.program.constant_buffer]
    manifest = make_manifest(name, emitted, nodes, memory, eager, options, path, quantization)
    return constants, manifest


def add_method(
    method: str,
    file: ModelFile,
    model: torch.nn.Module,
    program: Program,
    constants: list[bytes],
    name: str,
    options: Options,
    note: Callable[[str], None],
) -> ExportedMethod:
    """Adds a method to a program, whose constants it shares.

    Args:
      program: gets the method's plan.
      constants: the program's constants, to which the method's further ones are appended.
      name: the program's name.
      note: prints a note about the model.
    """
    path = file.path
    if not callable(getattr(model, method, None)):
        raise UserError(f"{path}: the module that model() returns has no method {method}().")
    eager = run_eager(file, model, method)
    with tracing():
        emitted = lower_method(file, eager, note)
    if emitted.file is not None or emitted.keeps_state:
        raise UserError(f"{path}: {ONE_METHOD}")
    own, manifest = plan_method(f"{name}_{method}", emitted, eager, options, path, None)
    plan = emitted.program.execution_plan[0]
    plan.name = method
    _share_constants(plan, own, constants)
    program.execution_plan.append(plan)
    return ExportedMethod(
        golden=golden.serialize(eager.samples, eager.outputs, None, dim_orders=dim_orders_of(manifest)),
        manifest=manifest_json(manifest).encode(),
        eager=eager,
        macs=macs_of(manifest),
    )


def _share_constants(plan: ExecutionPlan, own: list[bytes], constants: list[bytes]) -> None:
    """Makes a plan refer to `constants` in place of `own`, and appends those that are missing."""
    places = {constant: index for index, constant in reversed(list(enumerate(constants))) if index}
    for value in plan.values:
        if isinstance(value.val, Tensor) and value.val.data_buffer_idx:
            constant = own[value.val.data_buffer_idx]
            if constant not in places:
                places[constant] = len(constants)
                constants.append(constant)
            value.val.data_buffer_idx = places[constant]
