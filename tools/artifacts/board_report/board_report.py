"""board_report.json: what an image did on a board, as //tools/commands/prove writes it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.document.document import from_json, to_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "board report", 1
_ADVICE = "pass the board_report.json that `bazel run //firmware:BOARD.prove` writes"

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
    """What an image did on a board.

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

    @property
    def passed(self) -> bool:
        """Whether every item holds."""
        return all(item.passed for item in self.items)


def board_report_json(report: BoardReport) -> str:
    """The text of board_report.json."""
    return to_json(_FORMAT, _VERSION, asdict(report))


def read_board_report(path: Path) -> BoardReport:
    """Reads board_report.json.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        if content["place"] not in PLACES:
            raise ValueError(f"it ran on {content['place']!r}")
        return BoardReport(
            board=str(content["board"]),
            description=str(content["description"]),
            place=str(content["place"]),
            chip=str(content["chip"]),
            revision=str(content["revision"]),
            model=str(content["model"]),
            image=str(content["image"]),
            date=str(content["date"]),
            unit=str(content["unit"]),
            clock_hz=int(content["clock_hz"]),
            inference=int(content["inference"]),
            stack_used=int(content["stack_used"]),
            stack_size=int(content["stack_size"]),
            versions={str(name): str(version) for name, version in content["versions"].items()},
            items=tuple(Item(str(e["name"]), bool(e["passed"]), str(e["found"])) for e in content["items"]),
            layers=tuple(map(_layer, content["layers"])),
        )


def _layer(content: dict[str, Any]) -> Layer:
    counts = (None if content[name] is None else int(content[name]) for name in ("instructions", "estimate"))
    return Layer(
        str(content["operator"]), str(content["place"]), int(content["macs"]), int(content["measured"]), *counts
    )
