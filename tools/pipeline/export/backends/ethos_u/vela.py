"""Calls Vela as ExecuTorch's Ethos-U backend does, and records its estimates for each subgraph."""

import contextlib
import csv
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from executorch.backends.arm.ethosu import EthosUCompileSpec
from executorch.backends.arm.ethosu import backend as arm_backend

from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import parse
from tools.artifacts.npu_report.npu_report import MEMORIES
from tools.pipeline.export.backends.arm import delegates
from tools.pipeline.export.backends.arm.child_process import in_a_child
from tools.pipeline.export.upstream.replaced import replaced
from tools.pipeline.export.upstream.vela_results import payload_of, result_of

# The columns of Vela's table of layers that the report contains, with the report's names.
_LAYER_COLUMNS = {
    "Original Operator": "tosa_operator",
    "NNG Operator": "operator",
    "Target": "target",
    "Staging Usage": "sram_bytes",
    "Op Cycles": "cycles",
    "NPU": "npu_cycles",
    "SRAM AC": "sram_cycles",
    "DRAM AC": "dram_cycles",
    "OnFlash AC": "on_chip_flash_cycles",
    "OffFlash AC": "off_chip_flash_cycles",
    "MAC Count": "macs",
    "Name": "name",
}

_SUMMARY_COLUMNS = (
    "cycles_total", "cycles_npu", "cycles_sram_access", "cycles_dram_access", "cycles_on_chip_flash_access",
    "cycles_off_chip_flash_access", "nn_macs", "total_original_weights", "total_npu_encoded_weights",
    *(
        f"{memory}_{moved}"
        for memory in MEMORIES
        for moved in ("feature_map_read_bytes", "feature_map_write_bytes", "weight_read_bytes", "weight_write_bytes")
    ),
    "sram_total_bytes", "dram_total_bytes", "on_chip_flash_total_bytes", "off_chip_flash_total_bytes",
    "inference_time", "inferences_per_second",
)  # fmt: skip


@dataclass(frozen=True)
class Compiled:
    """A subgraph that Vela compiled.

    Attributes:
      tosa: Vela's input.
      payload: the payload in the program.
      layers: Vela's estimates for each layer, in bytes and cycles.
      summary: Vela's estimates for the subgraph.
      places: the source locations of its operators, in order.
    """

    tosa: bytes
    payload: bytes
    layers: list[dict[str, Any]]
    summary: dict[str, Any]
    places: tuple[str, ...] = ()


class VelaError(Exception):
    """Vela refuses a subgraph."""


# The program holds the name, so it must be the same on every machine.
_CONFIG = "vela.ini"


def compile_spec(npu: Npu) -> EthosUCompileSpec:
    """Returns the description of an NPU for quantizer and partitioner; Vela itself runs inside of compiling()."""
    return EthosUCompileSpec(
        npu.accelerator,
        system_config="board",
        memory_mode="board",
        config_ini=_CONFIG,
        extra_flags=["--verbose-performance", "--cpu-tensor-alignment=16"],
    )


@contextlib.contextmanager
def compiling(npu: Npu) -> Iterator[list[Compiled]]:
    """Provides Vela's configuration, and records the subgraphs that the backend compiles, in order."""
    done: list[Compiled] = []
    original = arm_backend.vela_compile

    def vela_compile(tosa_flatbuffer: bytes, args: list[str], **_: Any) -> Any:
        if delegates.returns_input(bytes(tosa_flatbuffer)):
            raise VelaError("a subgraph returns one of its inputs as it is in memory")
        with tempfile.TemporaryDirectory() as directory:
            payload = in_a_child(lambda: compiled(tosa_flatbuffer, list(args), directory), VelaError)
            # Vela keeps one of two outputs that hold the same elements in different orders.
            outputs, kept = delegates.outputs_of(bytes(tosa_flatbuffer)), len(parse(payload).outputs)
            if kept != outputs:
                raise VelaError(f"it leaves out {outputs - kept} of the {outputs} outputs of a subgraph")
            delegates.check_reference(bytes(tosa_flatbuffer))
            output = Path(directory) / "output"
            layers = _table(output / "out_per-layer.csv")
            summary = _table(next(output.glob("out_summary_*.csv")))[0]
        done.append(
            Compiled(
                bytes(tosa_flatbuffer),
                payload,
                [{key: _number(layer[column]) for column, key in _LAYER_COLUMNS.items()} for layer in layers],
                {column: _number(summary[column]) for column in _SUMMARY_COLUMNS},
            )
        )
        return result_of(payload)

    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / _CONFIG).write_text(npu.vela_config())

        def compiled(tosa_flatbuffer: bytes, args: list[str], directory: str) -> bytes:
            # Vela writes files with the model's name to the working directory.
            with contextlib.chdir(folder):
                return payload_of(original(tosa_flatbuffer, args, intermediate_path=directory))

        with replaced(arm_backend, "vela_compile", vela_compile):
            yield done


def _table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
