import json
from pathlib import Path

import pytest

from tools.quiet.console import UserError
from tools.quiet.files import reading, replacing, writing


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


def test_a_full_disk_has_its_own_next_step(tmp_path: Path) -> None:
    (tmp_path / "rows.json").symlink_to("/dev/full")
    message = r"/rows\.json: No space left on device; free some space, then start it again$"
    with pytest.raises(UserError, match=message), replacing(tmp_path / "rows.json") as file:
        file.write_text("rows")


def test_a_new_file_takes_the_place_of_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("old")
    (tmp_path / "rows.json").chmod(0o640)
    (tmp_path / "link").symlink_to("rows.json")
    for name in ("link", "new.json"):
        with replacing(tmp_path / name) as file:
            assert file.suffix == (".json")
            file.write_text("new")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["link", "new.json", "rows.json"]
    assert (tmp_path / "link").is_symlink() and (tmp_path / "rows.json").read_text() == "new"
    assert (tmp_path / "rows.json").stat().st_mode & 0o777 == 0o640
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o644


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_what_ends_the_writing_leaves_the_old_file(error: type[BaseException], tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text("old")
    for name in ("rows.json", "new.json"):
        with pytest.raises(error), replacing(tmp_path / name) as file:
            file.write_text("ne")
            raise error
    assert [file.name for file in tmp_path.iterdir()] == ["rows.json"]
    assert (tmp_path / "rows.json").read_text() == "old"
