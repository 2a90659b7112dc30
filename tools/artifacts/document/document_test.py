import re
from pathlib import Path

import pytest

from tools.artifacts.document.document import from_json, to_json
from tools.quiet.console import UserError


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(to_json("memory plan", 3, {"method": 4}), encoding="utf-8")
    assert from_json(path, "memory plan", 3, "pass another")["method"] == 4


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "x.json is no memory plan .*; pass another"),
        ("[]", "x.json is no memory plan .*; pass another"),
        ("{}", "x.json is no memory plan .*its format is None.*; pass another"),
        (to_json("manifest", 3, {}), "x.json is no memory plan .*its format is 'manifest'.*; pass another"),
        (to_json("memory plan", 2, {}), "has version 2 of its schema, and this is the tool for version 3; build"),
    ],
)
def test_another_file_is_named(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(UserError) as error:
        from_json(path, "memory plan", 3, "pass another")
    assert re.search(message, str(error.value))
