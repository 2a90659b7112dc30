"""Lowers a model to VGF, Arm's container of SPIR-V graphs for Vulkan: in floating point, or quantized to int8."""

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
from executorch.kernels import quantized as _quantized  # noqa: F401
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node
from torch.fx.passes.operator_support import OperatorSupportBase

from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.concat_scales import isolate_concat_scales
from tools.pipeline.export.backends.arm.forms import write_strides
from tools.pipeline.export.backends.arm.masks import write_masks
from tools.pipeline.export.backends.arm.refused import (
    IsNotRefused,
    in_a_line,
    lower_all_but_refused,
    naming_places,
    with_reasons,
)
from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.ir.operators import DEQUANTIZE_CHANNELS
from tools.pipeline.export.pipelines import VGF_FORMS
from tools.pipeline.export.quantize.in_float import InFloat
from tools.pipeline.export.quantize.quantize import Quantized
from tools.pipeline.export.quantize.ranges import with_ranges
from tools.pipeline.export.upstream.replaced import replaced

# The TOSA profiles of a program's operators, by the dtype of its inputs and outputs.
_PROFILES = {"float32": "TOSA-1.0+FP", "int8": "TOSA-1.0+FP+INT"}

# Dtypes that delegates replace by 32-bit ones in their results.
_WIDE = {torch.int64: "of 64-bit integers", torch.float64: "in double precision"}

_DEQUANTIZATIONS = (
    exir_ops.edge.quantized_decomposed.dequantize_per_channel.default,
    exir_ops.edge.quantized_decomposed.dequantize_per_tensor.default,
)

_WIDE_INDICES = "its indices are of 64 bits, VGF's of 32"

# Lines of the model converter's output that don't explain a failure.
_ASIDES = ("WARNING: ", "INFO: ", "Failed to compile network")
# The source location in a temporary file.
_PLACES = r"^<unknown>:\d+: error: |\S+\.tosa\b"


@dataclass(frozen=True)
class Compiled:
    """A subgraph that became a delegate: its TOSA form, and the .vgf in the program."""

    tosa: bytes
    payload: bytes


@dataclass
class Lowered:
    """A program with delegates.

    Attributes:
      manager: the edge program.
      compiled: the delegates, in order.
      rejected: operators on portable kernels, as (operator, location in the model, reason).
    """

    manager: EdgeProgramManager
    compiled: list[Compiled]
    rejected: list[tuple[str, str, str]]


class _ResultError(Exception):
    """A subgraph returns a dtype that VGF doesn't support."""


class _ConverterError(Exception):
    """Arm's compiler refuses a subgraph."""


class _Quantizer(VgfQuantizer):
    """ExecuTorch's quantizer, with the core's method of choosing ranges."""

    def __init__(self, in_float: InFloat) -> None:
        super().__init__(VgfCompileSpec(_PROFILES["int8"]))
        self._in_float = in_float

    def annotate(self, model: GraphModule) -> GraphModule:
        delegates.leave(model, self._in_float)
        return with_ranges(super().annotate(model))


def quantize(program: ExportedProgram, samples: Iterable[Sample], in_float: InFloat) -> Quantized:
    """Returns the program after ExecuTorch's quantizer for VGF, calibrated on the samples.

    Args:
      in_float: what stays in floating point.

    Raises UserError as `delegates.quantize` does.
    """
    path, quantizer = in_float.path, _Quantizer(in_float)
    quantizer.set_global(get_symmetric_quantization_config())
    samples = list(samples)
    state = State({})
    is_limited = write_masks(program, samples, state, 8, path)
    isolate_concat_scales(program, samples, state, path)
    return delegates.quantize(VGF_FORMS.run(program), samples, quantizer, path, state, is_limited)


def delegate(program: ExportedProgram, io: str, path: Path) -> Lowered:
    """Lowers a program, with the subgraphs that VGF can express as delegates.

    Operators that ExecuTorch's passes or the model converter refuse, and in int8 the TOSA reference model, are left to
    portable kernels, one location after another.

    Args:
      io: `float32`, or `int8` for a program that is quantized.
    """
    write_strides(program)
    _widen_zero_points(program)
    return lower_all_but_refused(program, lambda refused: _lower(program, io, path, refused), lambda found: found)


def _lower(program: ExportedProgram, io: str, path: Path, refused: Mapping[str, str]) -> Lowered:
    """Lowers a program, with the subgraphs that VGF can express as delegates.

    Args:
      refused: maps locations in the model that are left to portable kernels, as `origin` returns them, to the reasons.

    Raises LoweringError for a subgraph that can't be lowered.
    """
    with (
        delegates.lowering(program, path, "VGF") as rejected,
        _compiling(is_checked=io == "int8") as compiled,
        _checking_borders(),
        naming_places(VgfBackend, path, _why),
    ):
        checks = [IsNotRefused(refused, path), _IsNarrow()]
        partitioner = VgfPartitioner(VgfCompileSpec(_PROFILES[io]), checks)
        # These operators need shaders that are not in the program; the model converter refuses them.
        partitioner._custom_partition_ops.clear()
        manager = to_edge_transform_and_lower(
            program, partitioner=[partitioner], compile_config=EdgeCompileConfig(_check_ir_validity=False)
        )
    named = [
        (operator, place, _WIDE_INDICES if reason.endswith(_IsNarrow.__name__) else reason)
        for operator, place, reason in with_reasons(rejected, refused)
    ]
    return Lowered(manager, compiled, named)


class _IsNarrow(OperatorSupportBase):
    """Leaves 64-bit indices to portable kernels, because delegates would return 32-bit ones."""

    def is_node_supported(self, submodules: Mapping[str, torch.nn.Module], node: Node) -> bool:
        return node.target != exir_ops.edge.aten.argmax.default or node.meta["val"].dtype != torch.int64


def _widen_zero_points(program: ExportedProgram) -> None:
    """Converts zero points per channel to 64 bits, in place: ExecuTorch's kernel always reads 64 bits."""
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
    """Makes the backend accept floating-point operands of quantized layers, and raise _ResultError for results that the
    runtime would refuse to copy from VGF's.
    """
    original = VgfBackend.preprocess

    def preprocess(program: ExportedProgram, specs: list[CompileSpec]) -> PreprocessResult:
        # Nodes that are in floating point, though quantization may follow: the subgraph's inputs, which have the
        # metadata of the operators outside, and what reads these. Quantization would be folded into them, and lost.
        floating: set[Node] = set()
        for node in program.graph.nodes:
            is_float = isinstance(node.meta.get("val"), torch.Tensor) and node.meta["val"].dtype == torch.float32
            if not is_float or node.target in _DEQUANTIZATIONS:
                continue
            if node.op == "placeholder" or not floating.isdisjoint(node.all_input_nodes):
                floating.add(node)
                node.meta.pop("custom", None)
        for node in program.graph.output_node().all_input_nodes:
            if node.meta["val"].dtype in _WIDE:
                raise _ResultError(f"its result is {_WIDE[node.meta['val'].dtype]}, which VGF has not")
        return original(program, specs)

    with replaced(VgfBackend, "preprocess", staticmethod(preprocess)):
        yield


def on_portable_kernels(rejected: Iterable[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Lists operators outside of VGF with location and reason, without quantization, which is no layer of the model."""
    found: dict[tuple[str, str], list[str]] = {}
    for operator, place, reason in rejected:
        if not operator.startswith("quantized_decomposed::"):
            found.setdefault((place, reason), []).append(operator)
    return [(", ".join(operators), place, reason) for (place, reason), operators in found.items()]


def _why(error: Exception) -> str:
    """Explains why a subgraph can't be lowered, in one line."""
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
    """Returns a compiler's error message, or how it ended, in one line."""
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
    """Lets the backend find the compiler in its package, and records the compiled subgraphs, in order.

    Args:
      is_checked: whether the TOSA reference model must be able to compute them, too.
    """
    done: list[Compiled] = []
    original, variable = vgf_backend.vgf_compile, "MODEL_CONVERTER_PATH"

    def vgf_compile(tosa_flatbuffer: bytes, compile_flags: list[str], *_: object) -> bytes:
        try:
            # Omits the subgraph's tag, which counts the exports of a process.
            payload = original(tosa_flatbuffer, compile_flags)
        except RuntimeError as error:
            # ExecuTorch's message contains a command with a deleted file.
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
