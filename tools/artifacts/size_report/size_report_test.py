import json
from pathlib import Path

import pytest

from tools.artifacts.size_report.size_report import Memory, SizeReport, read_size_report, size_report_json
from tools.quiet.console import UserError

_REPORT = SizeReport(
    "firmware", "sine", "tiny", "cortex-m4", Memory(30, 4096, {"runtime": 20, "kernels": 10}), Memory(0, 2048, {})
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "firmware.report.json"
    path.write_text(size_report_json(_REPORT))
    assert read_size_report(path) == _REPORT
    assert list(json.loads(path.read_text())["flash"]["parts"]) == ["runtime", "kernels"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "memory plan"}, "is no size report .*its format is 'memory plan'"),
        ({"version": 0}, "has version 0 of its schema"),
        ({"flash": 1}, r"is no size report .*; pass the \.report\.json of a torch_firmware"),
        ({"core": None, "ram": {"used": 1}}, "is no size report"),
    ],
)
def test_another_file_is_named(tmp_path: Path, change: dict, message: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(json.dumps(json.loads(size_report_json(_REPORT)) | change))
    with pytest.raises(UserError, match=message) as error:
        read_size_report(path)
    assert str(path) in str(error.value)
