"""Records are read from their files as they were written, and other files are named with the next step."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.size_report.size_report import size_report_json
from tools.artifacts.testing import FORMATS, Format
from tools.quiet.console import UserError


@pytest.mark.parametrize("each", FORMATS, ids=[each.name for each in FORMATS])
def test_what_is_written_is_read(tmp_path: Path, each: Format) -> None:
    path = tmp_path / "x.json"
    path.write_text(each.write(each.record))
    assert each.read(path) == each.record


def test_parts_of_a_memory_stay_in_order() -> None:
    assert list(json.loads(size_report_json(FORMATS[-1].record))["flash"]["parts"]) == ["runtime", "kernels"]


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        *((each.name, {"format": "rows"}, f"is no {each.name} .*its format is 'rows'") for each in FORMATS),
        *((each.name, {"version": 9}, "has version 9 of its schema") for each in FORMATS),
        ("board report", {"place": "desk"}, "is no board report .*it ran on 'desk'"),
        ("graph", {"inputs": [7]}, "there is no tensor 7"),
        ("size report", {"flash": 1}, r"is no size report .*; pass the \.report\.json of a torch_firmware"),
    ],
)
def test_another_file_is_named(tmp_path: Path, name: str, change: dict[str, Any], message: str) -> None:
    each = next(each for each in FORMATS if each.name == name)
    path = tmp_path / "x.json"
    path.write_text(json.dumps(json.loads(each.write(each.record)) | change))
    with pytest.raises(UserError, match=message) as error:
        each.read(path)
    assert str(path) in str(error.value)
