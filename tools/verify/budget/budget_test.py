from pathlib import Path

import pytest

from tools.quiet.console import UserError
from tools.verify.budget.budget import Measures, baseline_json, grown, markdown, over, parse_limit, read_baseline

_BEFORE = Measures({"flash": 900, "ms": 2.0}, {"flash": {"weights": 500, "kernels": 400}, "ms": {"fc: linear": 2.0}})
_NOW = Measures(
    {"flash": 1100, "ms": 1.5, "accuracy": 0.8},
    {"flash": {"weights": 600, "kernels": 350, "libc": 150}, "ms": {"fc: linear": 1.5}},
)


def test_limits() -> None:
    assert parse_limit("flash=64K") == ("flash", 65536)
    assert parse_limit("ms=2.5") == ("ms", 2.5)
    for text in ("flash=64k", "ms=2K", "speed=1", "ram="):
        with pytest.raises(UserError, match="is no limit; give a number"):
            parse_limit(text)


def test_what_grew_is_named() -> None:
    assert grown("flash", _NOW, _BEFORE) == ["libc +150", "weights +100"]
    before, now = (Measures({}, {"instructions": {"new": new, "old": old}}) for new, old in ((0, 10), (5000, 11)))
    assert grown("instructions", now, before) == ["new +5,000"]
    assert over({"flash": 1024, "ms": 2, "accuracy": 0.9}, _NOW, _BEFORE, "//x:y.update") == [
        "1,100 bytes of flash, 76 over the limit of 1,024; since the baseline: libc +150, weights +100",
        "accuracy is 80.0%, and 90.0% is the least",
    ]
    (message,) = over({"flash": 1024}, _NOW, None, "//x:y.update")
    assert message.endswith("there is no baseline to say what grew: bazel run //x:y.update writes one")
    assert over({"flash": 1100, "accuracy": 0.8}, _NOW, None, "") == []


def test_summary_for_a_pull_request() -> None:
    assert markdown("net on desk", {"flash": 1024}, _NOW, _BEFORE).splitlines()[2:] == [
        "| | now | baseline | change | limit | grew |",
        "|---|--:|--:|--:|--:|---|",
        "| flash | 1,100 | 900 | +200 | 1,024 | libc +150, weights +100 |",
        "| ms | 1.500 | 2.000 | -0.500 |  |  |",
        "| accuracy | 80.0% |  |  |  |  |",
    ]


def test_baseline(tmp_path: Path) -> None:
    path = tmp_path / "x.baseline.json"
    path.write_text(baseline_json(_NOW))
    assert read_baseline(path, "//x:y.update") == _NOW
    path.write_text("{}")
    with pytest.raises(UserError, match=r"write it anew with bazel run //x:y.update"):
        read_baseline(path, "//x:y.update")
