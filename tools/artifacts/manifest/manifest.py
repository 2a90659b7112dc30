"""manifest.json: what is in a program, for tools that read no torch and for people."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.artifacts.document.document import from_json, record, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "manifest", 2
_ADVICE = "pass the manifest.json of a torch_program"


@dataclass(frozen=True)
class Operator:
    """An operator of the program: name and overload as in `aten::add.out`, and the user's places of its calls."""

    name: str
    overload: str
    places: tuple[str, ...]


@dataclass(frozen=True)
class Call:
    """An operator call: the operator's index, the user's place, multiply-accumulates per inference, the pass of the
    export that made it, or `torch.export`.
    """

    operator: int
    place: str
    macs: int
    made_by: str = ""


@dataclass(frozen=True)
class Border:
    """An input or output.

    Attributes:
      name: in the model; of some programs it is not known, and empty.
      scale, zero_point: number = (element - zero_point) * scale; a scale of 0 if it isn't quantized.
      bounds: of an input of dynamic shape the smallest and largest size of each dimension; else empty.
    """

    name: str = ""
    scale: float = 0.0
    zero_point: int = 0
    bounds: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        # It gets into headers.
        if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*|", self.name) is None:
            raise ValueError(f"an input or output has the name {self.name!r}")
        if not (math.isfinite(self.scale) and self.scale >= 0 and -(2**31) <= self.zero_point < 2**31):
            raise ValueError(f"an input or output has scale {self.scale} and zero point {self.zero_point}")
        if any(not 0 <= low <= high < 2**31 for low, high in self.bounds):
            raise ValueError(f"an input has sizes between {self.bounds}")


@dataclass(frozen=True)
class Manifest:
    """The part of a manifest that the tools read; docs/models.md describes all of it.

    Attributes:
      name: the program's name.
      core: the core that it is lowered for, or `portable`.
      operators: in the order of the program's.
      calls: the operator calls in the order of execution.
      inputs, outputs: in the order of the program's.
      keeps_state: whether an inference depends on earlier ones, so that planned memory must stay as it is.
      parameters: of the program's tensors, in order, the user's names of those that are parameters or buffers of the
        module, as `features.0.weight`; empty for all others.
      labels: what the model's classes are called; empty: the model file does not say.
      versions: of the packages that exported the program, by name; empty if it was imported.
    """

    name: str
    core: str
    operators: tuple[Operator, ...]
    calls: tuple[Call, ...]
    inputs: tuple[Border, ...]
    outputs: tuple[Border, ...]
    keeps_state: bool
    parameters: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for call in self.calls:
            if not 0 <= call.operator < len(self.operators) or call.macs < 0:
                raise ValueError(f"{call} with {len(self.operators)} operators")


def manifest_json(content: dict[str, Any]) -> str:
    """The text of manifest.json.

    Args:
      content: what tools.pipeline.export.plan.manifest.make_manifest() returns.
    """
    return to_json(_FORMAT, _VERSION, content)


def read_manifest(path: Path) -> Manifest:
    """Reads manifest.json.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        operators = [entry | {"places": entry["origin"]} for entry in content["operators"]]
        calls = [entry | {"place": entry["origin"]} for entry in content["instructions"]]
        parameters = [entry.get("parameter", "") for entry in content.get("tensors", ())]
        return record(Manifest, content | {"operators": operators, "calls": calls, "parameters": parameters})
