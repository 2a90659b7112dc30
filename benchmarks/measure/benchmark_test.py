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
        assert set(row) == {"model", "variant", "board", "flash", "arena", "stack", "load", "inference", "cycles"}
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


# These are of a whole image on a Cortex-M4: bytes of flash, and instructions of an inference.
GOALS = {
    ("softmax", "float32"): (2_400, 200),
    ("add", "float32"): (2_300, 60),
    ("sine", "float32"): (2_900, 900),
    ("sine", "int8"): (2_900, 1_000),
    ("ds_cnn", "float32"): (96_000, 7_000_000),
    ("ds_cnn", "int8"): (42_500, 3_900_000),
}


def test_images_of_compiled_models_are_as_small_and_fast_as_they_were_to_be(tmp_path: Path) -> None:
    arguments = [word for name in {model for model, _ in GOALS} for word in ("--model", name)]
    assert run(*arguments, "--json", str(tmp_path / "rows.json")) == 0
    rows = [row for row in json.loads((tmp_path / "rows.json").read_text()) if row["board"] == "mps2_an386"]
    measured = {(row["model"], row["variant"]): row for row in rows}
    assert measured.keys() >= GOALS.keys()
    for name, (flash, inference) in GOALS.items():
        row = measured[name]
        assert row["flash"] <= flash, row
        assert row["inference"] <= inference, row
        # There is no program to load.
        assert row["load"] <= 2, row


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


# These are, by board, bytes of flash and of memory that the program takes, and instructions of an inference.
INT8 = {
    "mps2_an386": {
        "ds_cnn": (42_500, 9_300, 3_900_000),
        "resnet8": (96_000, 36_000, 13_000_000),
        "mobilenet_v1": (255_000, 41_000, 11_300_000),
        "autoencoder": (285_000, 820, 340_000),
        "sine": (2_900, 40, 1_000),
    },
    "mps3_an547": {
        "ds_cnn": (42_500, 9_900, 935_000),
        "resnet8": (96_000, 35_200, 3_200_000),
        "mobilenet_v1": (259_000, 41_200, 3_700_000),
        "autoencoder": (285_000, 820, 60_000),
        "sine": (3_400, 40, 620),
    },
}


def test_int8_models_are_small_and_fast(tmp_path: Path) -> None:
    arguments = [word for name in INT8["mps2_an386"] for word in ("--model", name)]
    assert run(*arguments, "--json", str(tmp_path / "rows.json")) == 0
    rows = [row for row in json.loads((tmp_path / "rows.json").read_text()) if row["variant"] == "int8"]
    inferences = {(row["model"], row["board"]): row["inference"] for row in rows}
    for row in rows:
        # A Cortex-M33 has the Cortex-M4's kernels.
        is_like_m4 = row["board"] == "mps2_an505"
        flash, arena, inference = INT8["mps2_an386" if is_like_m4 else row["board"]][row["model"]]
        assert row["flash"] <= flash, row
        assert row["arena"] <= arena, row
        if is_like_m4:
            inference = int(1.05 * inferences[row["model"], "mps2_an386"])
        assert row["inference"] <= inference, row


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
