"""docs/rules.md is what the doc strings say, and says something of everything that is public."""

import os
from pathlib import Path

import pytest

from docs.rules_page import Message, main, page, read_module
from tools.quiet.console import UserError

MODULES = [Path(path) for path in os.environ["MODULES"].split()]
PAGE = Path("docs/rules.md")


def test_the_page_is_up_to_date() -> None:
    expected = page([read_module(path) for path in MODULES])
    assert PAGE.read_text(encoding="utf-8") == expected, "write it anew: ./bazelw run //docs:update_rules"


def test_all_that_is_public_is_documented() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for path in MODULES:
        info = Message(path.read_bytes())
        for rule in info.messages(1):
            assert rule.text(2), f"{info.text(6)}: {rule.text(1)} has no doc"
            for attribute in rule.messages(3):
                assert attribute.text(2), f"{info.text(6)}: {rule.text(1)}.{attribute.text(1)} has no doc"
        for provider in info.messages(2):
            assert all(field.text(2) for field in provider.messages(3)), f"{info.text(6)}: {provider.text(1)}"
        for function in info.messages(3):
            assert function.text(3), f"{info.text(6)}: {function.text(1)} has no doc"
            undocumented = [p.text(1) for p in function.messages(2) if not p.text(2)]
            assert not undocumented, f"{info.text(6)}: {function.text(1)}: {undocumented}"
        for named in [*info.messages(1), *info.messages(3)]:
            assert f"`{named.text(1)}" in text


def test_a_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.binaryproto"
    for content in (b"not a message", b"\x0a\xff", MODULES[0].read_bytes()[:-1]):
        path.write_bytes(content)
        with pytest.raises(UserError, match="x.binaryproto"):
            read_module(path)
    assert main([str(path), "--output", str(tmp_path / "page.md")]) == 1
    assert "update_rules: error: " in capsys.readouterr().err
    assert not (tmp_path / "page.md").exists()
