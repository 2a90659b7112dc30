"""The benchmark against images of this build: numbers that other tools report, and what bad input gets."""

import json
import os
from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.golden.golden import read_golden
from tools.artifacts.image_index.image_index import read_image_index
from tools.artifacts.memory_plan.memory_plan import read_memory_plan
from tools.artifacts.size_report.size_report import read_size_report
from tools.commands.benchmark.benchmark import main
from tools.verify.emulate.emulate import run_golden
from tools.verify.environment.comparison import compare
from tools.verify.environment.qemu import Qemu

INDEX = Path(os.environ["INDEX"])
QEMU = os.environ["QEMU"]


def run(*arguments: str) -> int:
    return main(["--index", str(INDEX), "--qemu", QEMU, *arguments])


def test_rows_hold_the_sizes_of_the_report_and_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--model", "softmax", "--json", str(tmp_path / "rows.json")) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    images = [image for image in read_image_index(INDEX) if image.model == "softmax"]
    assert [row["board"] for row in rows] == [image.board for image in images]
    for row, image in zip(rows, images, strict=True):
        assert set(row) == {"model", "variant", "board", "flash", "arena", "stack", "load", "inference"}
        report = read_size_report(image.report)
        assert row["flash"] == report.flash.used
        assert row["arena"] == sum(read_memory_plan(image.plan).arenas.values())
        assert 0 < row["stack"] <= report.ram.parts["stack"]
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


# Multiply-accumulates or window elements of the layers in models/layers, and instructions per each.
LAYERS = {
    "convolution": (16 * 16 * 16 * (16 * 3 * 3), 3.5),
    "conv1d": (16 * 256 * (16 * 3), 3.5),
    "conv2d_grouped": (16 * 16 * 16 * (4 * 3 * 3), 3.5),
    "conv2d_depthwise": (16 * 16 * 16 * (3 * 3), 5),
    "conv2d_dilated": (16 * 16 * 16 * (16 * 3 * 3), 3.5),
    "conv_transpose2d": (16 * 8 * 8 * (16 * 3 * 3), 3.5),
    "linear": (256 * 64, 3.5),
    "bmm": (2 * 32 * 32 * 32, 3.5),
    "max_pool2d": (16 * 16 * 16 * (2 * 2), 3),
    "avg_pool2d": (16 * 16 * 16 * (2 * 2), 3),
}


def test_layers_take_few_instructions_and_compute_what_pytorch_does(tmp_path: Path) -> None:
    arguments = [word for name in LAYERS for word in ("--model", name)]
    assert run(*arguments, "--json", str(tmp_path / "rows.json")) == 0
    rows = json.loads((tmp_path / "rows.json").read_text())
    assert {row["model"] for row in rows} == set(LAYERS)
    for row in rows:
        count, limit = LAYERS[row["model"]]
        assert row["inference"] <= limit * count, row
    for image in read_image_index(INDEX):
        if image.model in LAYERS:
            golden = read_golden(image.golden).part([0])
            environment = Qemu(read_board(image.description), Path(QEMU))
            _, outputs = run_golden(environment, image.elf, golden, 60)
            assert compare(golden.outputs_from_memory(outputs), golden, 1e-5, 1e-5) == []


def test_ds_cnn_takes_at_most_eleven_million_instructions(tmp_path: Path) -> None:
    assert run("--model", "ds_cnn", "--json", str(tmp_path / "rows.json")) == 0
    assert all(row["inference"] <= 11_000_000 for row in json.loads((tmp_path / "rows.json").read_text()))


# Bytes of flash and of memory that the program takes, and instructions of an inference on a Cortex-M4.
INT8 = {
    "ds_cnn": (52_000, 18_500, 4_300_000),
    "resnet8": (110_000, 52_000, 17_000_000),
    "mobilenet_v1": (258_000, 62_000, 13_000_000),
    "autoencoder": (285_000, 2_500, 420_000),
    "sine": (10_500, 500, 2_000),
}
# Instructions of an inference on a Cortex-M55.
MVE = {"ds_cnn": 1_050_000, "resnet8": 5_400_000, "mobilenet_v1": 5_000_000, "autoencoder": 88_000, "sine": 1_600}


def test_int8_models_are_small_and_fast(tmp_path: Path) -> None:
    arguments = [word for name in INT8 for word in ("--model", name)]
    assert run(*arguments, "--json", str(tmp_path / "rows.json")) == 0
    rows = [row for row in json.loads((tmp_path / "rows.json").read_text()) if row["variant"] == "int8"]
    inferences = {(row["model"], row["board"]): row["inference"] for row in rows}
    for row in rows:
        flash, arena, inference = INT8[row["model"]]
        assert row["flash"] <= flash, row
        assert row["arena"] <= arena, row
        if row["board"] == "mps2_an386":
            assert row["inference"] <= inference, row
        elif row["board"] == "mps2_an505":
            assert row["inference"] <= 1.05 * inferences[row["model"], "mps2_an386"], row
        else:
            assert row["inference"] <= MVE[row["model"]], row


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
    assert "index.json is no index of images" in capsys.readouterr().err
