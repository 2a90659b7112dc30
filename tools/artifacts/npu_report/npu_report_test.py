import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.npu_report.npu_report import Delegate, NpuReport, OnCore, npu_report_json, read_npu_report
from tools.quiet.console import UserError

_LAYER = {"operator": "Conv2D", "name": "aten_conv2d", "cycles": 1200, "macs": 4096, "sram_bytes": 512}
_REPORT = NpuReport(
    "net",
    "ethos-u55-128",
    "shared_sram",
    500_000_000,
    (Delegate(9000, 2000, 6800, 1024, {"cycles_total": 1200, "nn_macs": 4096}, (_LAYER,)),),
    (OnCore("aten::sin", "net.py:12 (sin)", "the NPU has no such operator", "floating point"),),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "net.npu.json"
    path.write_text(npu_report_json(_REPORT))
    assert read_npu_report(path) == _REPORT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "size report"}, "is no NPU report .*its format is 'size report'"),
        ({"version": 9}, "has version 9 of its schema"),
        ({"delegates": [{}]}, "is no NPU report"),
        ({"core": [{"operator": "aten::sin"}]}, "is no NPU report"),
    ],
)
def test_other_files_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "net.npu.json"
    path.write_text(json.dumps(json.loads(npu_report_json(_REPORT)) | change))
    with pytest.raises(UserError, match=message):
        read_npu_report(path)
