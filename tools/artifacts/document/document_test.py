import re
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.document.document import from_json, record, to_json
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


@dataclass(frozen=True)
class _Part:
    name: str
    share: float = 0.5


@dataclass(frozen=True)
class _Whole:
    count: int
    parts: tuple[_Part, ...]
    limits: dict[int, bool]
    comment: str | None = None


_WHOLE = {"count": 3, "parts": [{"name": "a"}, {"name": "b", "share": 1}], "limits": {"7": True}, "other": 0}


def test_a_record_has_the_fields_of_a_file_and_its_own_defaults() -> None:
    whole = _Whole(3, (_Part("a"), _Part("b", 1.0)), {7: True})
    assert record(_Whole, _WHOLE) == whole
    assert record(_Whole, {**asdict(whole), "parts": [asdict(part) for part in whole.parts]}) == whole


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("count", wrong) for wrong in ("3", 3.0, True, None)),
        *(("parts", wrong) for wrong in ("ab", {}, [1], [{}], [{"name": "a", "share": "1"}])),
        *(("limits", wrong) for wrong in ([], {"x": True}, {"7": 1})),
        ("comment", 1),
    ],
)
def test_a_record_refuses_fields_of_other_types(name: str, value: Any) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        record(_Whole, _WHOLE | {name: value})
