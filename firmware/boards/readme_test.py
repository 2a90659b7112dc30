import os
from pathlib import Path

from tools.artifacts.board.board import read_board
from tools.artifacts.board.table import update


def test_the_table_is_that_of_the_definitions() -> None:
    text = Path(os.environ["README"]).read_text(encoding="utf-8")
    boards = [read_board(Path(path)) for path in os.environ["BOARDS"].split()]
    assert update(text, boards) == text, "README.md is out of date: ./bazelw run //firmware/boards:update_readme"
