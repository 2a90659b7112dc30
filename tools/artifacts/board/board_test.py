from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board
from tools.quiet.console import UserError


def test_reads_every_field(tmp_path: Path) -> None:
    host = {"name": "host", "origin": 0x21000000, "length": 0x100, "use": "tests"}
    board = read_board(write_board(tmp_path, reserved=[host]))
    assert (board.flash.origin, board.flash.end) == (0x08000000, 0x08001000)
    assert board.flash.contains(0x08000FFF) and not board.flash.contains(0x08001000)
    assert board.region("host").origin == 0x21000000
    assert board.region("absent") is None
    assert board.emulator.machine == "mps2-an386"


def test_where_an_npu_works(tmp_path: Path) -> None:
    dram = {"name": "dram", "origin": 0x60000000, "length": 0x100, "use": ""}
    assert read_board(write_board(tmp_path)).arena.name == "ram"
    npu = {"accelerator": "ethos-u65-256", "arena_memory": "dram"}
    assert read_board(write_board(tmp_path, npu=npu, reserved=[dram])).arena.origin == 0x60000000
    with pytest.raises(UserError, match="arena_memory 'dram' is none of its regions"):
        read_board(write_board(tmp_path, npu=npu))
    with pytest.raises(UserError, match="arena_memory 'ram' is none of its regions"):
        read_board(write_board(tmp_path, ram=dram))


def test_a_board_without_emulator(tmp_path: Path) -> None:
    assert read_board(write_board(tmp_path, emulator=None)).emulator is None


def test_a_definition_of_another_version(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"board\.json has version 2 of its schema"):
        read_board(write_board(tmp_path, version=2))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.json: No such file"):
        read_board(tmp_path / "none.json")
