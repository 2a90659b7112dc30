import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.quantization_report.quantization_report import (
    Accuracy,
    Layer,
    QParams,
    QuantizationReport,
    Weight,
    quantization_report_json,
)
from tools.pipeline.quantization_report.quantization_report import main

_REPORT = QuantizationReport(
    "net",
    "cortex-m4",
    8,
    (
        Layer("conv (Conv2d)", "aten::conv2d", "fused"),
        Layer(
            "relu (ReLU)",
            "aten::relu",
            "int8",
            weight=Weight("per channel", 8, 0.1, 0.2),
            output=QParams(0.125, -128),
            snr_db=41.23,
        ),
        Layer("norm (LayerNorm)", "aten::layer_norm", "float32", reason="no form", snr_db=math.inf),
    ),
    Accuracy(360, 0.975, 0.9722),
)


def run(folder: Path, content: str) -> int:
    (folder / "report.json").write_text(content)
    return main([f"--report={folder}/report.json", f"--text={folder}/out.txt"])


def report(**changes: Any) -> str:
    return quantization_report_json(replace(_REPORT, **changes))


def test_the_text_has_every_layer_and_what_stayed_in_floating_point(tmp_path: Path) -> None:
    assert run(tmp_path, report()) == 0
    lines = (tmp_path / "out.txt").read_text().splitlines()
    row = next(line.split() for line in lines if line.startswith("relu"))
    assert row == ["relu", "(ReLU)", "aten::relu", "int8", "per", "channel", "(8)", "0.125", "-128", "41.2"]
    assert "accuracy over 360 samples: float32 0.9750, int8 0.9722" in lines
    assert lines[-1] == "in floating point: aten::layer_norm, norm (LayerNorm): no form"


def test_a_program_that_is_all_in_floating_point_has_no_int8_in_its_report(tmp_path: Path) -> None:
    layers = (Layer("norm (LayerNorm)", "aten::layer_norm", "float32", reason="for fewer instructions"),)
    note = "everything stays in floating point, for few instructions"
    assert run(tmp_path, report(layers=layers, accuracy=Accuracy(360, 0.975, 0.975), notes=(note,))) == 0
    text = (tmp_path / "out.txt").read_text()
    assert text.startswith("net in floating point for cortex-m4\n") and note in text.splitlines()
    assert "accuracy over 360 samples: float32 0.9750\n" in text
    assert "int8" not in text


def test_without_an_evaluation_set_and_without_layers(tmp_path: Path) -> None:
    assert run(tmp_path, report(accuracy=None, layers=())) == 0
    assert "accuracy" not in (tmp_path / "out.txt").read_text()


def test_what_is_no_report_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, "{}") == 1
    assert "report.json is no quantization report" in capsys.readouterr().err
