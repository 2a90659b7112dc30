"""A chip is one module: it is found by its name, and nothing else names it."""

import ast
from pathlib import Path

import pytest

import boardsim
from boardsim.chip import Chip
from boardsim.chips import chip_names, find_chip

_FOLDER = Path(boardsim.__file__).parent


@pytest.mark.parametrize("name", chip_names())
def test_a_chip_has_what_a_machine_asks_of_it(name: str) -> None:
    chip = find_chip(name)
    assert chip.RESET_CLOCK_HZ > 0 and chip.VECTOR_TABLE_ALIGNMENT % 128 == 0
    assert issubclass(chip, Chip)


def test_a_chip_that_there_is_not() -> None:
    assert len(chip_names()) >= 3
    with pytest.raises(KeyError):
        find_chip("z80")


def test_no_module_imports_a_chip() -> None:
    for path in _FOLDER.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            module = node.module if isinstance(node, ast.ImportFrom) else None
            assert not (module or "").startswith("boardsim.chips."), path
