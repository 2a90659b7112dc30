"""NAME.quantization.json: what quantization made of each layer of a model."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.artifacts.document.document import from_json, record, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "quantization report", 1
_ADVICE = "pass the one that a torch_program with backend cortex_m or ethos_u writes"

# In place of a number that JSON has none of.
_EXACT = "exact"


@dataclass(frozen=True)
class Weight:
    """A layer's weight: how it is scaled, and how many scales of which range it has.

    Of int8 it is `per channel` or `per tensor`, of int4 `int4 per channel` or `int4 per group of 32`.
    """

    scheme: str
    scales: int
    smallest_scale: float
    largest_scale: float


@dataclass(frozen=True)
class QParams:
    """How an output's integers stand for numbers: scale * (integer - zero_point)."""

    scale: float
    zero_point: int


@dataclass(frozen=True)
class Layer:
    """An operator of the model.

    Attributes:
      place: where it stands in the model.
      operator: its name, such as `aten::conv2d`.
      scheme: `int8`, `float32`, `view` for what only looks at memory in another way, or `fused` for what is computed
        together with the next one.
      reason: why it stays in floating point.
      weight: of a layer with a quantized one.
      output: of a layer whose result is quantized.
      snr_db: signal-to-noise ratio of what it returns, against floating point: 10 log10(sum f^2 / sum (f - q)^2);
        infinite if they are equal, None if they were not compared.
    """

    place: str
    operator: str
    scheme: str
    reason: str | None = None
    weight: Weight | None = None
    output: QParams | None = None
    snr_db: float | None = None


@dataclass(frozen=True)
class Accuracy:
    """Shares of an evaluation set's samples whose largest output is at the label's index.

    Attributes:
      samples: how many there are.
      float32, int8: the shares in floating point, and quantized.
      classes: the names of `labels()`, or indices; empty where they are too many to be told apart.
      float32_confusion, int8_confusion: counts of samples by label and, in it, by the index of the largest output.
    """

    samples: int
    float32: float
    int8: float
    classes: tuple[str, ...] = ()
    float32_confusion: tuple[tuple[int, ...], ...] = ()
    int8_confusion: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class QuantizationReport:
    """The result of quantizing a model.

    Attributes:
      name: the program's name.
      core: the core that it is lowered for.
      samples: how many samples layers were compared on.
      layers: in order of execution.
      accuracy: None without an evaluation set.
      notes: what there is to say about outputs that are far from those in floating point, or why all stays there.
    """

    name: str
    core: str
    samples: int
    layers: tuple[Layer, ...]
    accuracy: Accuracy | None
    notes: tuple[str, ...] = ()

    @property
    def is_float(self) -> bool:
        """Whether the model stays in floating point altogether."""
        return bool(self.layers) and all(layer.scheme == "float32" for layer in self.layers)


def quantization_report_json(report: QuantizationReport) -> str:
    """The text of the report. What a layer has not is left out."""
    content = asdict(report)
    content["layers"] = [
        {name: value for name, value in layer.items() if value is not None} for layer in content["layers"]
    ]
    for layer in content["layers"]:
        if layer.get("snr_db") == math.inf:
            layer["snr_db"] = _EXACT
    return to_json(_FORMAT, _VERSION, content)


def read_quantization_report(path: Path) -> QuantizationReport:
    """Reads the report.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        for layer in content["layers"]:
            if layer.get("snr_db") == _EXACT:
                layer["snr_db"] = math.inf
        return record(QuantizationReport, content)
