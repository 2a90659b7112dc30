import json
from pathlib import Path
from typing import Any

import pytest

from tools.quiet.console import UserError
from tools.verify.exploration.exploration import Row, best, main, parse_budget, rows_of, table


def _page() -> dict[str, Any]:
    def image(program: int, board: str, flash: int, cycles: int | None, accuracy: float | None, clock: int) -> Any:
        return {
            "program": program,
            "board": board,
            "memories": {"flash": {"used": flash}, "RAM": {"used": 500}},
            "rows": [[cycles or 300, cycles]],
            "untimed": "" if cycles else "its manual has no cycle counts",
            "clock_hz": clock,
            "accuracy": accuracy,
        }

    return {
        "programs": [{"name": "net_int8"}, {"name": "net"}],
        "images": [
            image(0, "slow", 1000, 4000, 0.8, 1_000_000),
            image(0, "quick", 2000, 4000, 0.8, 4_000_000),
            image(1, "slow", 3000, 8000, 0.9, 1_000_000),
            image(1, "uncounted", 9000, None, None, 1_000_000),
        ],
    }


def test_budget() -> None:
    assert parse_budget("flash=256K,ram=1M,instructions=5000,ms=2.5,accuracy=0.95") == {
        "flash": 262144,
        "ram": 1048576,
        "instructions": 5000,
        "ms": 2.5,
        "accuracy": 0.95,
    }
    assert parse_budget("") == {}
    for text in ("flash", "ms=20K", "speed=1", "ram=-1"):
        with pytest.raises(UserError, match=r"give flash, ram, instructions, ms, accuracy as in flash=256K"):
            parse_budget(text)


def test_table_says_what_fits_why_not_and_what_is_best() -> None:
    rows = [*rows_of(_page()), Row("net", "small", reason="flash is 3 bytes too small")]
    rows += [Row("bad", board, reason="model() raised it") for board in ("slow", "quick", "small")]
    assert table(rows, parse_budget("flash=2K,ms=2")).splitlines() == [
        "model     board      flash  RAM  instr.    ms  accuracy  fits",
        "net_int8  slow       1,000  500   4,000  4.00     80.0%  no: ms by 2.00",
        "net_int8  quick      2,000  500   4,000  1.00     80.0%  yes",
        "net       slow       3,000  500   8,000  8.00     90.0%  no: flash by 952, ms by 6.00",
        "net       uncounted  9,000  500     300                  no: flash by 6,952, ms is unknown",
        "net       small                                          no: flash is 3 bytes too small",
        "bad       all                                            no: model() raised it",
        "no ms on uncounted: its manual has no cycle counts",
    ]
    assert table(rows[3:4], {}).splitlines()[0] == "model  board      flash  RAM  instr.  fits"
    assert best(rows, {}) == [
        "fastest: net_int8 on quick",
        "fewest instructions: net on uncounted",
        "least flash: net_int8 on slow",
        "least RAM: net_int8 on slow",
        "most accurate: net on slow",
    ]


def test_test_of_a_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "page.json"
    path.write_text(json.dumps(_page()))
    monkeypatch.setenv("TEST_UNDECLARED_OUTPUTS_DIR", str(tmp_path))
    assert main(["--page", str(path), "--budget", "ms=2"]) == 0
    assert "fastest: net_int8 on quick" in capsys.readouterr().out
    markdown = (tmp_path / "exploration.md").read_text()
    assert "| net_int8 | quick | 2,000 | 500 | 4,000 | 1.00 | 80.0% | yes |\n" in markdown
    assert markdown.endswith("\nno ms on uncounted: its manual has no cycle counts\n")
    assert main(["--page", str(path), "--budget", "ms=0.5"]) == 1
    assert "nothing fits ms=0.5" in capsys.readouterr().out
    path.write_text("{}")
    assert main(["--page", str(path), "--budget", ""]) == 1
    assert str(path) in capsys.readouterr().err
