import json
from pathlib import Path

import pytest

from tools.artifacts.image_index.image_index import Image, read_image_index
from tools.quiet.console import UserError

_FILES = ("elf", "plan", "description", "report", "golden", "manifest")
_ENTRY = {"board": "tiny", "model": "sine", "variant": "int8"} | {name: f"../a/x.{name}" for name in _FILES}


def index(**changes: object) -> str:
    return json.dumps({"format": "index of images", "version": 1, "images": [_ENTRY]} | changes)


def test_paths_are_relative_to_the_index(tmp_path: Path) -> None:
    path = tmp_path / "b.index.json"
    path.write_text(index())
    files = {name: tmp_path / ".." / "a" / f"x.{name}" for name in _FILES}
    assert read_image_index(path) == [Image(board="tiny", model="sine", variant="int8", **files)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rows", "is no index of images"),
        (index(format="size report"), "its format is 'size report'"),
        (index(version=2), "has version 2 of its schema"),
        (index(images=[{"board": "tiny"}]), "is no index of images"),
    ],
)
def test_another_file_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "b.index.json"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as error:
        read_image_index(path)
    assert str(path) in str(error.value)
