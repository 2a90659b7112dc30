import json
import math
from pathlib import Path

import pytest

from tools.artifacts.quantization_report.quantization_report import (
    Accuracy,
    Layer,
    QParams,
    QuantizationReport,
    Weight,
    quantization_report_json,
    read_quantization_report,
)
from tools.quiet.console import UserError

_LAYERS = (
    Layer("conv (Conv2d)", "aten::conv2d", "fused", weight=Weight("per channel", 8, 0.1, 0.2)),
    Layer("relu (ReLU)", "aten::relu", "int8", output=QParams(0.125, -128), snr_db=41.23),
    Layer("pool (MaxPool2d)", "aten::max_pool2d", "int8", snr_db=math.inf),
    Layer("norm (LayerNorm)", "aten::layer_norm", "float32", reason="no form"),
)


_CLASSES = (("no", "yes"), ((1, 0), (0, 2)), ((1, 0), (1, 1)))


@pytest.mark.parametrize("accuracy", [None, Accuracy(360, 0.975, 0.9722), Accuracy(3, 1.0, 0.67, *_CLASSES)])
def test_what_is_written_is_read(tmp_path: Path, accuracy: Accuracy | None) -> None:
    report = QuantizationReport("net", "cortex-m4", 8, _LAYERS, accuracy)
    path = tmp_path / "net.json"
    path.write_text(quantization_report_json(report))
    assert read_quantization_report(path) == report


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "size report"}, "is no quantization report .*its format is 'size report'"),
        ({"version": 9}, "has version 9 of its schema"),
        ({"layers": 3}, "is no quantization report"),
        ({"layers": [{"place": "x"}]}, "is no quantization report"),
        ({"accuracy": {"share": 1}}, "is no quantization report"),
    ],
)
def test_another_file_is_named(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "x.json"
    report = json.loads(quantization_report_json(QuantizationReport("net", "cortex-m4", 8, _LAYERS, None)))
    path.write_text(json.dumps(report | change))
    with pytest.raises(UserError, match=message) as error:
        read_quantization_report(path)
    assert str(path) in str(error.value)
