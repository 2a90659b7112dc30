"""A checkout whose bazelw is a script that answers like Bazel."""

import json
from pathlib import Path

import pytest

from tests.checkout.checkout import Checkout, CheckoutError
from tools.quiet.console import UserError

_BAZELW = """#!/bin/sh
for argument in "$@"; do
  case $argument in
    --build_event_json_file=*)
      if grep -q Edited model.py; then
        echo '{"id": {}, "action": {"type": "TorchExport"}}'
        echo '{"id": {}, "action": {"type": "Symlink"}}'
        echo '{"buildMetrics": {"actionSummary": {"runnerCount": [{"name": "linux-sandbox", "count": 1}]}}}'
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
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "bazelw").write_text(_BAZELW)
    (tmp_path / "bazelw").chmod(0o755)
    (tmp_path / "graph.json").write_text(json.dumps(_GRAPH))
    (tmp_path / "model.py").write_text("x = 1\n")
    return Checkout(tmp_path)


def test_what_bazel_does_itself_does_not_count(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    # The script reads files of the checkout, as Bazel does.
    monkeypatch.chdir("/")
    assert checkout.build("build", ["//x"], []).kinds.total() == 0
    with checkout.edited("model.py", "#"):
        build = checkout.build("build", ["//x"], [])
        assert build.kinds == {"TorchExport": 1}
        assert build.actions == {"linux-sandbox": 1}
        first, second = (checkout.root / "model.py").read_text().splitlines()
        assert first.startswith("# Edited at ") and second == "x = 1"
    assert checkout.actions("//x") == {("CppLink", ("out/x.elf",))}


def test_the_file_is_as_it_was_after_a_build_that_fails(checkout: Checkout) -> None:
    with pytest.raises(CheckoutError, match="no such target"), checkout.edited("model.py", "#"):
        checkout.build("build", ["broken"], [])
    assert (checkout.root / "model.py").read_text() == "x = 1\n"


def test_a_folder_that_is_no_checkout(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path)
    with (
        pytest.raises(UserError, match="model.py: No such file or directory; run this on a checkout"),
        checkout.edited("model.py", "#"),
    ):
        pass
