"""plan.json: the arenas that a program needs on a core, exact to the byte."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.document.document import Format


@dataclass(frozen=True)
class MemoryPlan:
    """Sizes of arenas in bytes, and counts.

    Attributes:
      core: the core that the sizes hold for.
      method: the method allocator's arena.
      planned: the memory-planned buffers, in the order of their memory ids from 1.
      temp: the temporary allocator's arena.
      operators: distinct operators.
      values: values (tensors, numbers, lists).
      tensors: tensors among them.
      instructions: instructions of all chains.
      outputs: where each output is in the arena of the planned buffers; None: in none of them.
      unwritten: bytes at the end of that arena that an inference need not write.
      memories: bytes in other memories of the board, by their names.
    """

    core: str
    method: int
    planned: tuple[int, ...]
    temp: int
    operators: int
    values: int
    tensors: int
    instructions: int
    outputs: tuple[int | None, ...] = ()
    unwritten: int = 0
    memories: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.core not in POINTER_SIZES:
            raise ValueError(f"core {self.core} is unknown")
        counts = (self.method, self.temp, self.operators, self.values, self.tensors, self.instructions, self.unwritten)
        if min(*counts, *self.planned, *(place for place in self.outputs if place is not None)) < 0:
            raise ValueError("a size, count or place is negative")

    @property
    def arenas(self) -> dict[str, int]:
        """Bytes of each arena by its name."""
        return {"method": self.method, "planned": sum(self.planned), "temp": self.temp}


_FORMAT = Format(MemoryPlan, "memory plan", 3, "pass the plan.json of a torch_firmware")
memory_plan_json, read_memory_plan = _FORMAT.text, _FORMAT.read
