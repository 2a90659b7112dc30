"""plan.json: the arenas that a program needs on a core, exact to the byte."""

from dataclasses import asdict, dataclass
from pathlib import Path

from tools.artifacts.core.core import POINTER_SIZES
from tools.artifacts.document.document import from_json, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "memory plan", 3
_ADVICE = "pass the plan.json of a torch_firmware"


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

    @property
    def arenas(self) -> dict[str, int]:
        """Bytes of each arena by its name."""
        return {"method": self.method, "planned": sum(self.planned), "temp": self.temp}


def memory_plan_json(plan: MemoryPlan) -> str:
    """The text of plan.json."""
    return to_json(_FORMAT, _VERSION, asdict(plan))


def read_memory_plan(path: Path) -> MemoryPlan:
    """Reads plan.json.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        plan = MemoryPlan(
            core=str(content["core"]),
            method=int(content["method"]),
            planned=tuple(int(size) for size in content["planned"]),
            temp=int(content["temp"]),
            operators=int(content["operators"]),
            values=int(content["values"]),
            tensors=int(content["tensors"]),
            instructions=int(content["instructions"]),
            outputs=tuple(None if place is None else int(place) for place in content["outputs"]),
            unwritten=int(content["unwritten"]),
        )
        if plan.core not in POINTER_SIZES:
            raise ValueError(f"core {plan.core} is unknown")
        counts = (plan.method, plan.temp, plan.operators, plan.values, plan.tensors, plan.instructions, plan.unwritten)
        if min(*counts, *plan.planned, *(place for place in plan.outputs if place is not None)) < 0:
            raise ValueError("a size, count or place is negative")
        return plan
