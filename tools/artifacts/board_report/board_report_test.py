import json
from pathlib import Path
from typing import Any

import pytest

from tools.artifacts.board_report.board_report import board_report_json, read_board_report
from tools.artifacts.board_report.testing import make_report
from tools.quiet.console import UserError


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "board_report.json"
    report = make_report()
    path.write_text(board_report_json(report))
    assert read_board_report(path) == report


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
    path.write_text(json.dumps(json.loads(board_report_json(make_report())) | change))
    with pytest.raises(UserError, match=message):
        read_board_report(path)
