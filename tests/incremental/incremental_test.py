"""The tool on a checkout whose bazelw is a script that answers like Bazel."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.incremental.incremental import Edit, Workspace, main
from tools.quiet.console import UserError

_BAZELW = """#!/bin/sh
for argument in "$@"; do
  case $argument in
    --build_event_json_file=*)
      if grep -q Edited model.py; then
        echo '{"id": {}, "action": {"type": "TorchExport"}}'
        echo '{"id": {}, "action": {"type": "Symlink"}}'
      else
        echo '{"id": {}}'
      fi >"${argument#*=}" ;;
    broken) echo "no such target" >&2; exit 1 ;;
  esac
done
[ "$1" != aquery ] || cat graph.json
"""

_GRAPH = {
    "pathFragments": [
        {"id": 1, "label": "out"},
        {"id": 2, "label": "x.elf", "parentId": 1},
        {"id": 3, "label": "link"},
    ],
    "artifacts": [{"id": 7, "pathFragmentId": 2}, {"id": 8, "pathFragmentId": 3}],
    "actions": [{"mnemonic": "CppLink", "outputIds": [7]}, {"mnemonic": "Symlink", "outputIds": [8]}],
}


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "bazelw").write_text(_BAZELW)
    (tmp_path / "bazelw").chmod(0o755)
    (tmp_path / "graph.json").write_text(json.dumps(_GRAPH))
    (tmp_path / "model.py").write_text("x = 1\n")
    return Workspace(tmp_path)


def test_what_bazel_does_itself_does_not_count(workspace: Workspace) -> None:
    assert workspace.build("//x").total() == 0
    with workspace.edited(Edit("the model", "model.py", "#")):
        assert workspace.build("//x") == {"TorchExport": 1}
        first, second = (workspace.root / "model.py").read_text().splitlines()
        assert first.startswith("# Edited at ") and second == "x = 1"
    assert workspace.actions("//x") == {("CppLink", ("out/x.elf",))}


def test_the_file_is_as_it_was_after_a_build_that_fails(workspace: Workspace) -> None:
    edit = Edit("the model", "model.py", "#")
    with pytest.raises(UserError, match="bazelw build broken failed:\nno such target"), workspace.edited(edit):
        workspace.build("broken")
    assert (workspace.root / "model.py").read_text() == "x = 1\n"


def test_a_folder_that_is_no_checkout(workspace: Workspace, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--workspace", str(workspace.root)]) == 1
    assert "models/sine/sine.py: No such file or directory; run this on a checkout" in capsys.readouterr().err
