"""Lowers a model to VGF, Arm's container of SPIR-V graphs for Vulkan: in floating point, or quantized to int8."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import model_converter
from executorch.backends.arm.quantizer import VgfQuantizer, get_symmetric_quantization_config
from executorch.backends.arm.vgf import VgfCompileSpec, VgfPartitioner
from executorch.backends.arm.vgf import backend as vgf_backend
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from torch.export import ExportedProgram
from torch.fx import GraphModule

from tools.pipeline.export import delegates
from tools.pipeline.export.arm_forms import (
    layouts_of_all_readers,
    tables_before_pools,
    upsampling_of_sizes,
    write_layers,
    write_strides,
)
from tools.pipeline.export.cortex_m.quantize import Quantized, Sample
from tools.pipeline.export.cortex_m.ranges import with_ranges
from tools.pipeline.export.cortex_m.state import State
from tools.pipeline.export.joined import part_scales
from tools.pipeline.export.lower import propagate_constants
from tools.pipeline.export.masks import write_masks
from tools.pipeline.export.replaced import replaced
from tools.quiet.console import UserError

# The profiles of TOSA that a program's operators are of, by the dtype at its border.
_PROFILES = {"float32": "TOSA-1.0+FP", "int8": "TOSA-1.0+FP+INT"}


@dataclass(frozen=True)
class Compiled:
    """A subgraph that became a delegate: as TOSA, and the .vgf that went into the program."""

    tosa: bytes
    payload: bytes


@dataclass
class Lowered:
    """A program with delegates.

    Attributes:
      manager: the edge program.
      compiled: each delegate, in their order.
      rejected: what runs on portable kernels, as (operator, place in the model, reason).
    """

    manager: EdgeProgramManager
    compiled: list[Compiled]
    rejected: list[tuple[str, str, str]]


class _ConverterError(Exception):
    """Arm's compiler refuses a subgraph."""


class _Quantizer(VgfQuantizer):
    """ExecuTorch's quantizer, with ranges that are chosen as those of the core are."""

    def annotate(self, model: GraphModule) -> GraphModule:
        return with_ranges(super().annotate(model))


def quantize(program: ExportedProgram, samples: Iterable[Sample], path: Path) -> Quantized:
    """The program with quantize and dequantize operators of ExecuTorch's quantizer for VGF, calibrated on the samples.

    Raises UserError as `delegates.quantize` does.
    """
    quantizer = _Quantizer(VgfCompileSpec(_PROFILES["int8"]))
    quantizer.set_global(get_symmetric_quantization_config())
    samples = list(samples)
    write_masks(program, samples, State({}), 8)
    part_scales(program, samples, State({}))
    return delegates.quantize(propagate_constants(write_layers(program)), samples, quantizer, path)


def delegate(program: ExportedProgram, io: str, path: Path) -> Lowered:
    """Lowers a program, with the subgraphs that VGF can express as delegates.

    Args:
      io: `float32`, or `int8` for a program that is quantized.

    Raises UserError if the compiler refuses a subgraph.
    """
    write_strides(program)
    with (
        delegates.rejections(path) as rejected,
        delegates.shared_history(),
        _compiling() as compiled,
        tables_before_pools(),
        upsampling_of_sizes(),
        layouts_of_all_readers(),
    ):
        try:
            manager = to_edge_transform_and_lower(
                program,
                partitioner=[VgfPartitioner(VgfCompileSpec(_PROFILES[io]))],
                compile_config=EdgeCompileConfig(_check_ir_validity=False),
            )
        except _ConverterError as error:
            raise UserError(
                f"{path}: Arm's model converter can't compile the model: {error}. Write the layer another way, or use "
                "the portable backend."
            ) from error
    return Lowered(manager, compiled, rejected)


@contextlib.contextmanager
def _compiling() -> Iterator[list[Compiled]]:
    """Lets the backend find the compiler in its package, and records what it compiles, in order."""
    done: list[Compiled] = []
    original, variable = vgf_backend.vgf_compile, "MODEL_CONVERTER_PATH"

    def vgf_compile(tosa_flatbuffer: bytes, compile_flags: list[str], *_: object) -> bytes:
        try:
            # Without the tag of the subgraph, which counts the exports of a process.
            payload = original(tosa_flatbuffer, compile_flags)
        except RuntimeError as error:
            raise _ConverterError(str(error)) from error
        done.append(Compiled(bytes(tosa_flatbuffer), payload))
        return payload

    program = Path(model_converter.__file__).parent / "binaries/bin/model-converter"
    before = os.environ.get(variable)
    os.environ[variable] = str(program)
    try:
        with replaced(vgf_backend, "vgf_compile", vgf_compile):
            yield done
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
