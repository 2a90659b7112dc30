"""NAME.index.json: images that a tool runs in their boards' emulators. rules/private/emulator.bzl writes it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tools.artifacts.document.document import from_json
from tools.quiet.files import reading

_FORMAT, _VERSION = "index of images", 1
_ADVICE = "run a firmware_benchmark or firmware_profile target"


@dataclass(frozen=True)
class Image:
    """An image and what belongs to it.

    Attributes:
      board: the board's name.
      elf, plan, report, golden, manifest: files of a torch_firmware.
      description: the board's definition.
      model, variant: what it is in a table; empty where the rule has none.
      choice: the name of the model that the files are of, where the image has several to choose from; empty elsewhere.
      npu: what the board's NPU computes of the program, by its compiler; None if it computes nothing.
    """

    board: str
    elf: Path
    plan: Path
    description: Path
    report: Path
    golden: Path
    manifest: Path
    model: str = ""
    variant: str = ""
    choice: str = ""
    npu: Path | None = None


def read_image_index(path: Path) -> list[Image]:
    """Reads an index, whose paths are relative to it.

    Raises:
      UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        return [_image(entry, path.parent) for entry in content["images"]]


def _image(entry: dict[str, Any], root: Path) -> Image:
    files = {name: root / entry[name] for name in ("elf", "plan", "description", "report", "golden", "manifest")}
    return Image(
        board=str(entry["board"]),
        model=str(entry.get("model", "")),
        variant=str(entry.get("variant", "")),
        choice=str(entry.get("choice", "")),
        npu=root / entry["npu"] if "npu" in entry else None,
        **files,
    )
