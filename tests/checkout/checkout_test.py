"""A checkout whose bazelw is a script that answers like Bazel."""

import json
from pathlib import Path

import pytest

from tests.checkout.checkout import Checkout, CheckoutError

_BAZELW = """#!/bin/sh
for argument in "$@"; do
  case $argument in
    --build_event_json_file=*)
      echo '{"id": {}}' >"${argument#*=}"
      [ "$1" != test ] || cat summary.json >>"${argument#*=}" ;;
    broken) echo "no such target" >&2; exit 1 ;;
  esac
done
"""

_SUMMARY = {"runnerCount": [{"name": name, "count": 1} for name in ("total", "internal", "linux-sandbox")]}


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    (tmp_path / "bazelw").write_text(_BAZELW)
    (tmp_path / "bazelw").chmod(0o755)
    (tmp_path / "summary.json").write_text(json.dumps({"buildMetrics": {"actionSummary": _SUMMARY}}))
    return Checkout(tmp_path)


def test_runners_of_actions_are_counted_but_bazel_itself(checkout: Checkout, monkeypatch: pytest.MonkeyPatch) -> None:
    # The script reads files of the checkout, as Bazel does.
    monkeypatch.chdir("/")
    assert checkout.build("build", ["//x"], []).actions == {}
    assert checkout.build("test", ["//x"], []).actions == {"linux-sandbox": 1}


def test_a_build_that_fails_says_why(checkout: Checkout) -> None:
    with pytest.raises(CheckoutError, match="no such target"):
        checkout.build("build", ["broken"], [])
