"""What a backend is asked to lower, and what it makes of it."""

from __future__ import annotations

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
    """What a backend is asked to lower.

    Attributes:
      file: the model file.
      name: the program's.
      eager: the method and its golden data.
    """

    file: ModelFile
    name: str
    eager: Eager
    options: Options
    console: Console


@dataclass
class LoweredModel:
    """What a backend makes of a model.

    Attributes:
      emitted: the program.
      samples: the golden inputs as the program takes them.
      outputs: what the program must return for them.
      quantization: of a quantized program.
      report: of a quantized program.
      npu: what the NPU's compiler estimates, for people and for programs.
      vgf: the .vgf of each delegate.
    """

    emitted: EmittedProgram
    samples: list[golden.Sample]
    outputs: list[list[torch.Tensor]]
    quantization: Quantization | None = None
    report: QuantizationReport | None = None
    npu: tuple[str, str] | None = None
    vgf: list[bytes] = field(default_factory=list)
