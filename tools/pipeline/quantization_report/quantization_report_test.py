import json
from pathlib import Path
from typing import Any

import pytest

from tools.pipeline.quantization_report.quantization_report import main

_LAYERS: list[dict[str, Any]] = [
    {"place": "conv (Conv2d)", "operator": "aten::conv2d", "scheme": "fused"},
    {
        "place": "relu (ReLU)",
        "operator": "aten::relu",
        "scheme": "int8",
        "output": {"scale": 0.125, "zero_point": -128},
        "weight": {"scheme": "per channel", "scales": 8, "smallest_scale": 0.1, "largest_scale": 0.2},
        "snr_db": 41.23,
    },
    {
        "place": "norm (LayerNorm)",
        "operator": "aten::layer_norm",
        "scheme": "float32",
        "reason": "no form",
        "snr_db": None,
    },
]


def run(folder: Path, content: str) -> int:
    (folder / "report.json").write_text(content)
    return main([f"--report={folder}/report.json", f"--text={folder}/out.txt", f"--picture={folder}/out.png"])


def report(**changes: Any) -> str:
    accuracy = {"samples": 360, "float32": 0.975, "int8": 0.9722}
    content = {"name": "net", "core": "cortex-m4", "samples": 8, "layers": _LAYERS, "accuracy": accuracy}
    return json.dumps(content | changes)


def test_the_text_has_every_layer_and_what_stayed_in_floating_point(tmp_path: Path) -> None:
    assert run(tmp_path, report()) == 0
    lines = (tmp_path / "out.txt").read_text().splitlines()
    row = next(line.split() for line in lines if line.startswith("relu"))
    assert row == ["relu", "(ReLU)", "aten::relu", "int8", "per", "channel", "(8)", "0.125", "-128", "41.2"]
    assert "accuracy over 360 samples: float32 0.9750, int8 0.9722" in lines
    assert lines[-1] == "in floating point: aten::layer_norm, norm (LayerNorm): no form"


def test_the_picture_is_a_png_and_the_same_every_time(tmp_path: Path) -> None:
    assert run(tmp_path, report()) == 0
    first = (tmp_path / "out.png").read_bytes()
    assert first.startswith(b"\x89PNG")
    assert run(tmp_path, report()) == 0
    assert (tmp_path / "out.png").read_bytes() == first


def test_without_an_evaluation_set_and_without_layers(tmp_path: Path) -> None:
    assert run(tmp_path, report(accuracy=None, layers=[])) == 0
    assert "accuracy" not in (tmp_path / "out.txt").read_text()


@pytest.mark.parametrize("content", ["", "{}", '{"layers": 3}', "[]"])
def test_what_is_no_report_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str) -> None:
    assert run(tmp_path, content) == 1
    assert "report.json is none" in capsys.readouterr().err
