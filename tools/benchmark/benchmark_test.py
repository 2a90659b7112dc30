"""The benchmark against images of this build: numbers that other tools report, and what bad input gets."""

import json
import os
from pathlib import Path

import pytest

from tools.benchmark.benchmark import main, read_index

INDEX = Path(os.environ["INDEX"])
QEMU = os.environ["QEMU"]


def run(*arguments: str) -> int:
    return main(["--index", str(INDEX), "--qemu", QEMU, *arguments])


def test_rows_hold_the_sizes_of_the_report_and_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "softmax", "--json", str(tmp_path / "rows.json")) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    entries = [entry for entry in read_index(INDEX) if entry["model"] == "softmax"]
    assert [row["board"] for row in rows] == [entry["board"] for entry in entries]
    for row, entry in zip(rows, entries, strict=True):
        assert set(row) == {"model", "variant", "board", "flash", "arena", "stack", "load", "inference"}
        report = json.loads((INDEX.parent / entry["report"]).read_text())
        plan = json.loads((INDEX.parent / entry["plan"]).read_text())
        assert row["flash"] == report["flash"]["used"]
        assert row["arena"] == plan["method"] + sum(plan["planned"]) + plan["temp"]
        assert 0 < row["stack"] <= report["ram"]["parts"]["stack"]
    table = capsys.readouterr().out
    assert all(f"{row['inference']:,}" in table for row in rows)


def test_counts_are_the_same_in_every_run(tmp_path: Path) -> None:
    for name in ("first", "second"):
        assert run("--model", "softmax", "--json", str(tmp_path / name)) == 0
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_what_the_first_path_promises_of_softmax_and_sine(tmp_path: Path) -> None:
    assert run("--model", "softmax", "--model", "sine", "--json", str(tmp_path / "rows.json")) == 0
    # bytes of flash, instructions of load and inference
    limits = {"softmax": (12_000, 3_000, 700), "sine": (17_000, None, 3_000)}
    for row in json.loads((tmp_path / "rows.json").read_text()):
        flash, load, inference = limits[row["model"]]
        assert row["flash"] <= flash
        assert load is None or row["load"] < load
        assert row["inference"] < inference


def test_convolution_takes_at_most_four_instructions_per_multiply_accumulate(tmp_path: Path) -> None:
    assert run("--model", "convolution", "--json", str(tmp_path / "rows.json")) == 0
    multiply_accumulates = 16 * 16 * 16 * (16 * 3 * 3)
    for row in json.loads((tmp_path / "rows.json").read_text()):
        assert row["inference"] <= 4 * multiply_accumulates


def test_unknown_model_is_named_with_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "sinus") == 1
    message = capsys.readouterr().err
    assert "no model sinus" in message and "sine" in message


def test_unwritable_json_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "softmax", "--json", str(tmp_path / "missing" / "rows.json")) == 1
    assert "missing/rows.json" in capsys.readouterr().err


def test_index_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "index.json").write_text("rows")
    assert main(["--index", str(tmp_path / "index.json"), "--qemu", QEMU]) == 1
    assert "is no JSON" in capsys.readouterr().err
