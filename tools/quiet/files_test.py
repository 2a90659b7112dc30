import json
from pathlib import Path

import pytest

from tools.quiet.console import UserError
from tools.quiet.files import reading, writing


def read(path: Path) -> int:
    with reading("plan", path, "pass another"):
        return int(json.loads(path.read_text(encoding="utf-8"))["size"])


def test_what_is_right_is_read(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text('{"size": 3}')
    assert read(tmp_path / "plan.json") == 3


def test_a_missing_file_is_named_with_cause_and_next_step(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"^plan .*/none\.json: No such file or directory; pass another$"):
        read(tmp_path / "none.json")


_OTHERS = [b"", b"\xff\xfe", b"[]", b"3", b"{}", b'{"size": "x"}', b'{"size": null}', b"[" * 100_000]


@pytest.mark.parametrize("content", _OTHERS)
def test_something_else_is_named_with_the_next_step(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "other").write_bytes(content)
    with pytest.raises(UserError, match=r"/other is no plan \(.+\); pass another$"):
        read(tmp_path / "other")


def test_a_fault_of_the_tool_stays_one() -> None:
    with pytest.raises(ZeroDivisionError), reading("plan", Path("x"), "pass another"):
        raise ZeroDivisionError


def test_a_place_that_cannot_be_written_to_is_named(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "rows.json"
    with (
        pytest.raises(UserError, match=r"missing/rows\.json: No such file or directory; choose a folder"),
        writing(path),
    ):
        path.write_text("rows")
