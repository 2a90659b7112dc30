"""A board's NPU: the description that `ethos_u()` of rules/ethos_u.bzl makes, and Vela's view of it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.document.document import from_json
from tools.quiet.files import reading

# As rules/ethos_u.bzl writes it.
_FORMAT, _VERSION = "NPU description", 1
_ADVICE = "pass the file that the board_npu() target of a board writes"

# Vela's names of the memories behind the two ports, and for each memory mode which port has constants, arena and cache.
_MODES = {
    "shared_sram": ("Axi1", "Axi0", "Axi0"),
    "sram_only": ("Axi0", "Axi0", "Axi0"),
    "dedicated_sram": ("Axi1", "Axi1", "Axi0"),
}


@dataclass(frozen=True)
class Npu:
    """An Ethos-U on a board.

    Attributes:
      accelerator: configuration as Vela spells it, such as `ethos-u55-128`.
      memory_mode: `shared_sram` (constants behind the second port), `sram_only`, or `dedicated_sram` (tensors behind
        the second port, the SRAM is a cache).
      clock_hz: clock of the NPU.
      ports: for `axi0` and `axi1`, what Vela's system configuration says of the memory there.
      arena_bytes: most bytes that tensors of the NPU may take.
      cache_bytes: size of the SRAM of `dedicated_sram`, otherwise 0.
      arena_memory, cache_memory: regions of the board's memory that images have the tensors in, and that this SRAM is.
      base: address of the registers as text; empty if images can't use it.
      interrupt: number of the interrupt.
      secure, privileged: what its accesses are.
      timeout_ms: how long an execution may take.
    """

    accelerator: str
    memory_mode: str
    clock_hz: int
    ports: dict[str, dict[str, Any]]
    arena_bytes: int
    cache_bytes: int
    arena_memory: str = "ram"
    cache_memory: str = ""
    base: str = ""
    interrupt: int = 0
    secure: bool = True
    privileged: bool = True
    timeout_ms: int = 10000

    @property
    def product(self) -> str:
        """`u55`, `u65` or `u85`."""
        return self.accelerator.split("-")[1]

    def vela_config(self) -> str:
        """Vela's configuration file, with a system configuration and a memory mode `board`."""
        lines = ["[System_Config.board]", f"core_clock={self.clock_hz}"]
        lines += [f"{port}_port={values['memory']}" for port, values in sorted(self.ports.items())]
        # Once for both ports, where the same memory is behind them.
        for values in {port["memory"]: port for port in self.ports.values()}.values():
            lines += [f"{values['memory']}_{key}={value}" for key, value in sorted(values.items()) if key != "memory"]
        constants, arena, cache = _MODES[self.memory_mode]
        lines += [
            "[Memory_Mode.board]",
            f"const_mem_area={constants}",
            f"arena_mem_area={arena}",
            f"cache_mem_area={cache}",
            # Where tensors are in SRAM Vela must find room for them in it.
            f"arena_cache_size={self.cache_bytes or self.arena_bytes}",
        ]
        return "\n".join(lines) + "\n"


def read_npu(path: Path) -> Npu:
    """Reads the description of a board's NPU.

    Raises:
        UserError: the file is missing, no JSON, or no description.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        return Npu(**{key: value for key, value in content.items() if key not in ("format", "version")})
