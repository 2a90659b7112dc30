"""NAME.report.json: what takes an image's flash and RAM."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from tools.artifacts.document.document import Format, to_json


@dataclass(frozen=True)
class Memory:
    """Bytes of a memory: used in all, the board's limit, and by part, largest first. A part of no bytes is left out."""

    used: int
    limit: int
    parts: dict[str, int]


@dataclass(frozen=True)
class SizeReport:
    """Lists what takes an image's flash and RAM.

    Attributes:
      image: the image's name.
      program: name of the .pte, of several with commas; None without one.
      board: the board's name.
      core: the board's core.
      flash: parts are runtime, kernels, libc, weights, NPU weights, NPU commands, NPU driver, program metadata,
        example, application, board, strings, alignment.
      ram: parts are arena method, arena planned, arena temp, NPU scratch (the part of the latter that the NPU
        works in), stack, data, alignment.
      arenas: other memories with tensors by their names, with the parts of `ram` that lie there.
    """

    image: str
    program: str | None
    board: str
    core: str
    flash: Memory
    ram: Memory
    arenas: dict[str, Memory] = field(default_factory=dict)

    @property
    def memories(self) -> dict[str, Memory]:
        """The memories by the names that people know them by."""
        return {"flash": self.flash, "RAM": self.ram} | self.arenas


_FORMAT = Format(SizeReport, "size report", 2, "pass the .report.json of a torch_firmware")
size_report_json, read_size_report = _FORMAT.text, _FORMAT.read


def size_reports_json(reports: Sequence[SizeReport]) -> str:
    """The text of what the rule size_report writes of several images."""
    return to_json("size reports", _FORMAT.version, {"reports": [asdict(report) for report in reports]})
