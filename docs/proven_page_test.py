"""docs/proven.md is what the boards' reports say."""

from pathlib import Path

import pytest

from docs.proven_page import page
from tools.artifacts.board_report.board_report import BoardReport, board_report_json
from tools.artifacts.board_report.testing import make_report
from tools.quiet.console import UserError


def test_the_page_is_up_to_date() -> None:
    text = Path("docs/proven.md").read_text(encoding="utf-8")
    assert text == page(), "write it anew: ./bazelw run //docs:update_proven"


def _put(root: Path, board: str, report: BoardReport) -> None:
    folder = root / "firmware/boards" / board / "proofs"
    folder.mkdir(parents=True)
    (folder / "net.json").write_text(board_report_json(report), encoding="utf-8")


@pytest.mark.parametrize(("passed", "says"), [(True, "yes"), (False, "no: golden inputs")])
def test_a_report_is_a_row(tmp_path: Path, passed: bool, says: str) -> None:
    _put(tmp_path, "desk", make_report(passed=passed))
    row = (
        "| [desk, 2026-11-28](../firmware/boards/desk/proofs/net.json) | STM32WB55, 0x20010000, CPUID 0x410fc241 "
        f"| net | {says} | 6,400 cycles, 0.1 ms | 96 of 4,096 bytes |\n"
    )
    assert row in page(tmp_path)
    assert "no report yet" not in page(tmp_path)


@pytest.mark.parametrize(
    ("board", "place", "says"),
    [("desk", "simulator", "is of the simulator"), ("chair", "board", "is of 'desk'; move it")],
)
def test_what_proves_nothing(tmp_path: Path, board: str, place: str, says: str) -> None:
    _put(tmp_path, board, make_report(place))
    with pytest.raises(UserError, match=says):
        page(tmp_path)
