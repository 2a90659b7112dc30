import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.board_report.board_report import BoardReport, Item, Layer, board_report_json, read_board_report
from tools.quiet.console import UserError

_REPORT = BoardReport(
    board="desk",
    description="A desk, Cortex-M4F at 64 MHz",
    place="board",
    chip="STM32WB55",
    revision="0x20010000, CPUID 0x410fc241",
    model="net",
    image="12ab",
    date="2026-11-28",
    versions={"executorch": "1.4.1"},
    unit="cycles",
    clock_hz=64_000_000,
    inference=6400,
    stack_used=96,
    stack_size=4096,
    items=(Item("golden inputs", True, "3 of 3 samples equal PyTorch to the bit"),),
    layers=(Layer("aten::linear", "fc (Linear)", 32, 6000, 5000, 5500), Layer("aten::relu", "", 0, 400)),
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "board_report.json"
    path.write_text(board_report_json(_REPORT))
    assert read_board_report(path) == _REPORT


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "size report"}, "is no board report .*its format is 'size report'"),
        ({"version": 9}, "has version 9 of its schema"),
        ({"place": "desk"}, "is no board report .*it ran on 'desk'"),
        ({"layers": [{}]}, "is no board report"),
    ],
)
def test_other_files_are_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    path = tmp_path / "board_report.json"
    path.write_text(json.dumps(json.loads(board_report_json(_REPORT)) | change))
    with pytest.raises(UserError, match=message):
        read_board_report(path)
