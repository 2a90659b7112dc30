import os
from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.board.table import BRIEF, FULL, Columns, update


@pytest.mark.parametrize(("document", "columns"), [("BRIEF", BRIEF), ("FULL", FULL)])
def test_the_table_is_that_of_the_definitions(document: str, columns: Columns) -> None:
    text = Path(os.environ[document]).read_text(encoding="utf-8")
    boards = [read_board(Path(path)) for path in os.environ["BOARDS"].split()]
    assert update(text, boards, columns) == text, "out of date: ./bazelw run //firmware/boards:update_readme"
