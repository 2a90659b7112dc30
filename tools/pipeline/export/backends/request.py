"""Defines the request to a backend for lowering a model, and its result."""

from dataclasses import dataclass, field

import torch

from tools.artifacts.quantization_report.quantization_report import QuantizationReport
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import EmittedProgram
from tools.pipeline.export.plan.manifest import Quantization
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import Console


@dataclass(frozen=True)
class LoweringRequest:
    """A request to a backend for lowering a model.

    Attributes:
      file: the model file.
      name: the program's name.
      eager: the method and its golden data.
    """

    file: ModelFile
    name: str
    eager: Eager
    options: Options
    console: Console


@dataclass
class LoweredModel:
    """The lowered model.

    Attributes:
      emitted: the program.
      samples: the golden inputs in the program's dtypes.
      outputs: the expected outputs for them.
      quantization: the quantization of a quantized program.
      report: the report of a quantized program.
      npu: the estimates of the NPU's compiler, as text and as JSON.
      vgf: the .vgf files of the delegates.
    """

    emitted: EmittedProgram
    samples: list[golden.Sample]
    outputs: list[list[torch.Tensor]]
    quantization: Quantization | None = None
    report: QuantizationReport | None = None
    npu: tuple[str, str] | None = None
    vgf: list[bytes] = field(default_factory=list)
