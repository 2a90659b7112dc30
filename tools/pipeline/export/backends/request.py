"""Defines the request to a backend for lowering a model, and its result."""

from dataclasses import dataclass, field, replace

import torch

from tools.artifacts.quantization_report.quantization_report import QuantizationReport
from tools.pipeline.export.capture import golden
from tools.pipeline.export.capture.eager import Eager
from tools.pipeline.export.options import Options
from tools.pipeline.export.plan.emission import EmittedProgram
from tools.pipeline.export.plan.manifest import Quantization
from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.console import Console, SilentConsole


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

    def note(self, text: str) -> None:
        """Prints a note about the model."""
        self.console.say(f"export: note: {self.file.path}: {text}")

    def silent(self) -> "LoweringRequest":
        """Returns the request with nothing printed, for what is made again."""
        return replace(self, console=SilentConsole())


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
