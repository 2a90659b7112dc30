"""Commands of documents, with a shell script in Bazel's place."""

import os
from pathlib import Path

import pytest

from tests.documents.commands import Shell, commands, main, run_all
from tools.quiet.console import UserError

_TEXT = """# Title

Text.

<!-- commands: board: flash, live; interrupted: live; long: //... -->

    ./bazelw run //x:flash       # a board
    ./bazelw run //x:live -- \\
        --fast
    FLAG=1 ./bazelw test //...

    load("//x:y.bzl", "y")

```
    ./bazelw run //x:fenced
```

    cd sub && ./bazelw fail
    bazel build //:net
"""

_BAZELW = """#!/bin/sh
echo "$PWD $*" >>"$LOG"
case "$*" in
  *fail*) echo "no such target"; exit 1 ;;
  run*live*) trap 'exit 130' INT; while :; do sleep 0.1; done ;;
esac
"""


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    (tmp_path / "sub").mkdir()
    (tmp_path / "bazelw").write_text(_BAZELW)
    (tmp_path / "bazelw").chmod(0o755)
    monkeypatch.setattr("tests.documents.commands._SECONDS_TO_INTERRUPT", 0.5)
    return Shell(tmp_path, os.environ | {"LOG": str(tmp_path / "log")})


def test_commands_of_a_document() -> None:
    found = [(command.place, command.text, set(command.needs)) for command in commands("a.md", _TEXT)]
    assert found == [
        ("a.md:7", "./bazelw run //x:flash", {"board"}),
        ("a.md:8", "./bazelw run //x:live -- --fast", {"board", "interrupted"}),
        ("a.md:10", "FLAG=1 ./bazelw test //...", {"long"}),
        ("a.md:18", "cd sub && ./bazelw fail", set()),
        ("a.md:19", "bazel build //:net", set()),
    ]


def test_they_run_where_the_one_before_has_gone(shell: Shell) -> None:
    said: list[str] = []
    assert run_all(list(commands("a.md", _TEXT)), shell, set(), said.append) == 1
    assert [line.split()[0] for line in said] == ["passed", "passed", "left", "FAILED", "no", "passed"]
    root = shell.root
    assert (root / "log").read_text().splitlines() == [
        f"{root} run //x:flash -- --simulate",
        f"{root} build //x:live",
        f"{root} run //x:live -- --simulate --fast",
        f"{root}/sub fail",
        f"{root}/sub build //:net",
    ]


def test_a_block_of_a_build_file(shell: Shell) -> None:
    rules = shell.root / "rules/defs.bzl"
    rules.parent.mkdir()
    rules.write_text('load(":image.bzl", _image = "image")\nload(":page.bzl", _page = "page", _part = "part")\n')
    (shell.root / "sub/BUILD.bazel").write_text('load("//x:defs.bzl", "image")\n')
    block = '[page(name = "a"), image(name = "b")]\n'
    text = f"    cd sub\n    bazel build //:net\n\n<!-- build file -->\n\n```starlark\n{block}```\n"
    assert run_all(list(commands("a.md", text)), shell, set(), lambda _: None) == 0
    loads = 'load("@torch_fusion//rules:defs.bzl", "page")\nload("//x:defs.bzl", "image")\n'
    assert (shell.root / "sub/BUILD.bazel").read_text() == f"{loads}\n{block}"


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        ("slow", "'slow' marks a command; it can be board, interrupted"),
        ("long: benchmark", "a comment marks the command 'benchmark', which its block does not have"),
    ],
)
def test_a_wrong_mark(mark: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        list(commands("a.md", f"<!-- commands: {mark} -->\n\n    bazel build //:net\n"))


def test_they_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.md").write_text(_TEXT)
    assert main(["--workspace", str(tmp_path), "--list", "a.md"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "a.md:7: ./bazelw run //x:flash (board)"
    assert main(["--workspace", str(tmp_path), "b.md"]) == 1
    assert "b.md can't be read: No such file" in capsys.readouterr().err
