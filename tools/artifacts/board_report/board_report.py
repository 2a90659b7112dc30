"""board_report.json: what an image did on a board, as //tools/commands/prove writes it."""

from collections.abc import Mapping
from dataclasses import dataclass

from tools.artifacts.document.document import Format

#: Where an image ran: on a real board, or on the board simulator.
PLACES = ("board", "simulator")


@dataclass(frozen=True)
class Item:
    """One thing that was checked: its name, whether it holds, and what was found."""

    name: str
    passed: bool
    found: str


@dataclass(frozen=True)
class Layer:
    """One operator call: operator, the user's place of it, multiply-accumulates, what the board's counter measured, and
    beside that the instructions and estimated cycles of the simulator; None where it has none.
    """

    operator: str
    place: str
    macs: int
    measured: int
    instructions: int | None = None
    estimate: int | None = None


@dataclass(frozen=True)
class BoardReport:
    """The result of running an image on a board.

    Attributes:
      board, description: of the board.
      place: where the image ran, one of PLACES.
      chip, revision: what the board itself says it is; the revision is empty where nothing could be read.
      model: the model's name.
      image: SHA-256 of the image's Intel HEX file.
      date: when it ran, as 2026-11-28.
      versions: of what made and flashed the image, by name.
      unit: of what the counter counts, such as `cycles`.
      clock_hz: the core's clock.
      inference: what an inference took, in `unit`.
      stack_used, stack_size: bytes of the stack at its deepest, of those there are.
      items: what was checked.
      layers: in the order of execution.
      kinds: those of the images with a layer of each kind; their places begin with the program's name.
    """

    board: str
    description: str
    place: str
    chip: str
    revision: str
    model: str
    image: str
    date: str
    versions: Mapping[str, str]
    unit: str
    clock_hz: int
    inference: int
    stack_used: int
    stack_size: int
    items: tuple[Item, ...]
    layers: tuple[Layer, ...]
    kinds: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        if self.place not in PLACES:
            raise ValueError(f"it ran on {self.place!r}")

    @property
    def passed(self) -> bool:
        """Whether every item holds."""
        return all(item.passed for item in self.items)


_FORMAT = Format(
    BoardReport, "board report", 1, "pass the board_report.json that `bazel run //firmware:BOARD.prove` writes"
)
board_report_json, read_board_report = _FORMAT.text, _FORMAT.read
