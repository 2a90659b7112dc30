import json
from pathlib import Path

from tools.artifacts.image_index.image_index import Image, read_image_index

_FILES = ("elf", "plan", "description", "report", "golden", "manifest")
_ENTRY = {"board": "tiny", "model": "sine", "variant": "int8"} | {name: f"../a/x.{name}" for name in _FILES}


def index(**changes: object) -> str:
    return json.dumps({"format": "index of images", "version": 1, "images": [_ENTRY]} | changes)


def test_paths_are_relative_to_the_index(tmp_path: Path) -> None:
    path = tmp_path / "b.index.json"
    path.write_text(index())
    files = {name: tmp_path / ".." / "a" / f"x.{name}" for name in _FILES}
    assert read_image_index(path) == [Image(board="tiny", model="sine", variant="int8", **files)]
