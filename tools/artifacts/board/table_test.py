from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.board.table import BRIEF, FULL, main, table, update
from tools.artifacts.board.testing import write_board
from tools.quiet.console import UserError

_CONSOLE = {"uart": "UART0", "baud": "115200", "description": "a port"}
_EMPTY = (
    "# Boards\n<!-- Begin of the table that `bazel run //firmware/boards:update_readme` writes. -->\n"
    "<!-- End of the table. -->\nmore\n"
)


def test_a_row_has_what_the_definition_says(tmp_path: Path) -> None:
    radio = {"name": "radio", "origin": 0x20010000, "length": 100, "use": "the radio's"}
    row = table([read_board(write_board(tmp_path, console=_CONSOLE, reserved=[radio]))], FULL).splitlines()[2]
    for text in ("[tiny](tiny)", "4 KB at 0x08000000", "100 bytes at 0x20010000: the radio's"):
        assert text in row
    assert "UART0, 115200 8N1: a port" in row and "pyOCD `tiny_target`" in row and "QEMU `mps2-an386`" in row


def test_a_board_may_be_programmed_by_one_tool_alone(tmp_path: Path) -> None:
    row = table([read_board(write_board(tmp_path, console=_CONSOLE, programmer={"pyocd_target": "tiny"}))], FULL)
    assert "pyOCD `tiny` |" in row and "OpenOCD" not in row.splitlines()[2]


def test_the_table_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    boards = [read_board(write_board(tmp_path, console=_CONSOLE, emulator=None, programmer=None))]
    for columns in (BRIEF, FULL):
        text = update(_EMPTY, boards, columns)
        assert text.startswith("# Boards\n") and text.endswith("more\n") and table(boards, columns) in text
        assert update(text, boards, columns) == text


def test_documents_are_written_by_what_they_show(tmp_path: Path) -> None:
    brief, full = tmp_path / "brief.md", tmp_path / "full.md"
    for document in (brief, full):
        document.write_text(_EMPTY)
    board = str(write_board(tmp_path, console=_CONSOLE))
    assert main([board, "--brief", str(brief), "--full", str(full)]) == 0
    assert "`//firmware:tiny`" in brief.read_text() and "4 KB" not in brief.read_text()
    assert "4 KB" in full.read_text()
    full.write_text("# Boards\n")
    before = brief.read_text().replace("tiny", "old")
    brief.write_text(before)
    # Both or none.
    assert main([board, "--brief", str(brief), "--full", str(full)]) == 1
    assert brief.read_text() == before


def test_a_document_without_a_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UserError, match="lacks the lines"):
        update("# Boards\n", [], FULL)
    document = tmp_path / "none.md"
    assert main([str(write_board(tmp_path)), "--full", str(document)]) == 1
    assert "none.md: No such file" in capsys.readouterr().err
