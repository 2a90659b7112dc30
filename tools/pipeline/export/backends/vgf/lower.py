"""Lowers a model to VGF, Arm's container of SPIR-V graphs for Vulkan: in floating point, or quantized to int8."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import model_converter
import torch
from executorch.backends.arm.quantizer import VgfQuantizer, get_symmetric_quantization_config
from executorch.backends.arm.vgf import VgfBackend, VgfCompileSpec, VgfPartitioner
from executorch.backends.arm.vgf import backend as vgf_backend
from executorch.exir import EdgeCompileConfig, EdgeProgramManager, to_edge_transform_and_lower
from executorch.exir.backend.backend_details import PreprocessResult
from executorch.exir.backend.compile_spec_schema import CompileSpec
from executorch.exir.dialects._ops import ops as exir_ops
from executorch.exir.schema import Program
from executorch.extension.pybindings import _portable_lib
from executorch.kernels import quantized as _quantized  # noqa: F401
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.operator_support import OperatorSupportBase

from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.concat_scales import isolate_concat_scales
from tools.pipeline.export.backends.arm.forms import (
    layouts_of_all_readers,
    tables_before_pools,
    upsampling_of_sizes,
    write_strides,
)
from tools.pipeline.export.backends.arm.layout import fewer_transpositions
from tools.pipeline.export.backends.arm.masks import write_masks
from tools.pipeline.export.backends.arm.refused import (
    IsNotRefused,
    checking,
    in_a_line,
    lower_all_but_refused,
    naming_places,
    with_reasons,
)
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.operators import DEQUANTIZE_CHANNELS
from tools.pipeline.export.pipelines import VGF_FORMS
from tools.pipeline.export.quantize.quantize import Quantized, Sample
from tools.pipeline.export.quantize.ranges import with_ranges
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.export.upstream.retracing import decomposed_once

# The profiles of TOSA that a program's operators are of, by the dtype at its border.
_PROFILES = {"float32": "TOSA-1.0+FP", "int8": "TOSA-1.0+FP+INT"}

# What delegates return in their place are 32 bits.
_WIDE = {torch.int64: "of 64-bit integers", torch.float64: "in double precision"}

_WIDE_INDICES = "its indices are of 64 bits, VGF's of 32"

# What the model converter says besides what was wrong.
_ASIDES = ("WARNING: ", "INFO: ", "Failed to compile network")
# Where in a temporary file that was.
_PLACES = r"^<unknown>:\d+: error: |\S+\.tosa\b"


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


class _ResultError(Exception):
    """A subgraph returns what VGF has not."""


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
    isolate_concat_scales(program, samples, State({}))
    return delegates.quantize(VGF_FORMS.run(program), samples, quantizer, path)


def delegate(program: ExportedProgram, io: str, path: Path) -> Lowered:
    """Lowers a program, with the subgraphs that VGF can express as delegates.

    What of them ExecuTorch's passes or the model converter refuse, and in int8 the TOSA reference model, is left to
    portable kernels, place by place.

    Args:
      io: `float32`, or `int8` for a program that is quantized.
    """
    write_strides(program)
    _widen_zero_points(program)
    return lower_all_but_refused(lambda refused: _lower(program, io, path, refused), lambda found: found)


def _lower(program: ExportedProgram, io: str, path: Path, refused: Mapping[str, str]) -> Lowered:
    """Lowers a program, with the subgraphs that VGF can express as delegates.

    Args:
      refused: places in the model that are left to portable kernels, as `origin` has them, and why.

    Raises LoweringError for a subgraph that can't be lowered.
    """
    with (
        delegates.rejections(path, "VGF") as rejected,
        delegates.shared_history(),
        decomposed_once(),
        _compiling(is_checked=io == "int8") as compiled,
        tables_before_pools(),
        fewer_transpositions(),
        upsampling_of_sizes(),
        layouts_of_all_readers(),
        checking(program),
        _checking_borders(),
        naming_places(VgfBackend, path, _why),
    ):
        checks = [IsNotRefused(refused, path), _IsNarrow()]
        partitioner = VgfPartitioner(VgfCompileSpec(_PROFILES[io]), checks)
        # Of shaders that are not in the program; the model converter refuses them.
        partitioner._custom_partition_ops.clear()
        manager = to_edge_transform_and_lower(
            program,
            partitioner=[partitioner],
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )
    named = [
        (operator, place, _WIDE_INDICES if reason.endswith(_IsNarrow.__name__) else reason)
        for operator, place, reason in with_reasons(rejected, refused)
    ]
    return Lowered(manager, compiled, named)


class _IsNarrow(OperatorSupportBase):
    """Leaves to portable kernels indices of 64 bits, which ExecuTorch has delegates return that have them in 32."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node.target != exir_ops.edge.aten.argmax.default or node.meta["val"].dtype != torch.int64


def _widen_zero_points(program: ExportedProgram) -> None:
    """Gives zero points by channel 64 bits, in place: ExecuTorch's kernel reads such, whatever there is."""
    for node in program.graph.nodes:
        if node.target != DEQUANTIZE_CHANNELS:
            continue
        points = node.args[2]
        name = program.graph_signature.inputs_to_buffers.get(points.name)
        if name is not None:
            program.state_dict[name] = program.state_dict[name].to(torch.int64)
            points.meta["val"] = points.meta["val"].to(torch.int64)


@contextlib.contextmanager
def _checking_borders() -> Iterator[None]:
    """Lets the backend take operands in floating point of layers that are quantized, and raise _ResultError for results
    that the runtime would refuse to copy from VGF's.
    """
    original = VgfBackend.preprocess

    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        for node in program.graph.nodes:
            # An operand has what is said of the operator outside, which may be quantized, and gives it to its
            # transposition: the quantization behind that would become a part of it, and be lost.
            if node.op == "placeholder" and node.meta["val"].dtype == torch.float32:
                node.meta.pop("custom", None)
        for node in program.graph.output_node().all_input_nodes:
            if node.meta["val"].dtype in _WIDE:
                raise _ResultError(f"its result is {_WIDE[node.meta['val'].dtype]}, which VGF has not")
        return original(program, specs)

    with replaced(VgfBackend, "preprocess", staticmethod(preprocess)):
        yield


def without_kernel(program: Program) -> list[str]:
    """Operators of an emitted program that the runtime in ExecuTorch's wheel has no kernels of."""
    names = {f"{each.name}.{each.overload}".rstrip(".") for each in program.execution_plan[0].operators}
    return sorted(names.difference(_portable_lib._get_operator_names()))


def on_portable_kernels(rejected: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """What is not in VGF: operators, place in the model and reason; without quantization, which is no layer of it."""
    found: dict[tuple[str, str], list[str]] = {}
    for operator, place, reason in rejected:
        if not operator.startswith("quantized_decomposed::"):
            found.setdefault((place, reason), []).append(operator)
    return [(", ".join(operators), place, reason) for (place, reason), operators in found.items()]


def _why(error: Exception) -> str:
    """Why a subgraph can't be lowered, in a line."""
    if isinstance(error, _ConverterError):
        who = "Arm's model converter can't compile it"
    elif isinstance(error, delegates.UncheckedError):
        who = "the TOSA reference model, which the golden outputs are of, can't compute it"
    elif isinstance(error, _ResultError):
        return in_a_line(error)
    else:
        who = "ExecuTorch takes it for VGF and can't lower it then"
    return f"{who}: {in_a_line(error)}"


def _said(failed: subprocess.CalledProcessError) -> str:
    """What a compiler said of its failure, or how it ended, in a line."""
    lines = (failed.stdout + b"\n" + failed.stderr).decode(errors="replace").splitlines()
    lines = [line.strip() for line in lines if line.strip() and not line.startswith(_ASIDES)]
    said = [re.sub(_PLACES, "", line).rstrip(".") for line in lines]
    if failed.returncode < 0:
        said.append(f"it ended with {signal.Signals(-failed.returncode).name}")
    return "; ".join(said) or f"it ended with status {failed.returncode}"


def _converter() -> Path:
    return Path(model_converter.__file__).parent / "binaries/bin/model-converter"


@contextlib.contextmanager
def _compiling(is_checked: bool) -> Iterator[list[Compiled]]:
    """Lets the backend find the compiler in its package, and records what it compiles, in order.

    Args:
      is_checked: whether the TOSA reference model has to compute it, too.
    """
    done: list[Compiled] = []
    original, variable = vgf_backend.vgf_compile, "MODEL_CONVERTER_PATH"

    def vgf_compile(tosa_flatbuffer: bytes, compile_flags: list[str], *_: object) -> bytes:
        try:
            # Without the tag of the subgraph, which counts the exports of a process.
            payload = original(tosa_flatbuffer, compile_flags)
        except RuntimeError as error:
            # ExecuTorch's message has a command with a file that is gone.
            failed = error.__context__
            text = _said(failed) if isinstance(failed, subprocess.CalledProcessError) else str(error)
            raise _ConverterError(text) from None
        if is_checked:
            delegates.check_reference(bytes(tosa_flatbuffer))
        done.append(Compiled(bytes(tosa_flatbuffer), payload))
        return payload

    before = os.environ.get(variable)
    os.environ[variable] = str(_converter())
    try:
        with replaced(vgf_backend, "vgf_compile", vgf_compile):
            yield done
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before
