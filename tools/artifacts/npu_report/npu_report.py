"""NAME.npu.json: what an NPU's compiler estimates of a program, and what of the program stays on the core."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tools.artifacts.document.document import Format

MEMORIES = {"sram": "SRAM", "dram": "DRAM", "on_chip_flash": "on-chip flash", "off_chip_flash": "off-chip flash"}
"""Vela's kinds of memories, as in names of estimates, and in words."""


@dataclass(frozen=True)
class OnCore:
    """Describes what the NPU can't take of one place in the model.

    Attributes:
      operators: ATen's names, with commas between them.
      place: in the model.
      reason: why the NPU doesn't take them.
      numbers: what the core computes them with, `int8` or `floating point`.
    """

    operators: str
    place: str
    reason: str
    numbers: str

    def __str__(self) -> str:
        return f"{self.operators} in {self.numbers}: {self.place}: {self.reason}"


@dataclass(frozen=True)
class Delegate:
    """A subgraph that the NPU computes.

    Attributes:
      bytes: of its payload, all in all.
      commands_bytes, weights_bytes, arena_bytes: of commands, of weights and scales, of memory to work in.
      summary: Vela's estimates of the whole, such as `cycles_total`, `nn_macs` and `sram_feature_map_read_bytes`.
      layers: the same of each layer: `operator`, `name`, `macs`, `cycles` (the most of `npu_cycles` and what each of
        MEMORIES is busy for it, such as `sram_cycles`), and `sram_bytes`, which live meanwhile.
    """

    bytes: int
    commands_bytes: int
    weights_bytes: int
    arena_bytes: int
    summary: dict[str, Any]
    layers: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class NpuReport:
    """Holds the estimates of an NPU's compiler for a program.

    Attributes:
      name: the program's.
      accelerator, memory_mode: as Vela calls them.
      clock_hz: the NPU's.
      delegates: what it computes, in order of execution.
      core: what it can't.
    """

    name: str
    accelerator: str
    memory_mode: str
    clock_hz: int
    delegates: tuple[Delegate, ...]
    core: tuple[OnCore, ...]


def layer_name(layer: Mapping[str, Any]) -> str:
    """A layer's name without what the exporter adds to all of them."""
    return re.sub(r"^(aten|tosa)_|_default|_tensor", "", str(layer["name"]))


_FORMAT = Format(NpuReport, "NPU report", 1, "pass the .npu.json that a torch_program with backend ethos_u writes")
npu_report_json, read_npu_report = _FORMAT.text, _FORMAT.read
