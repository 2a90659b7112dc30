"""Kernels with code of their own for a Cortex-M, on emulated cores."""

import os
from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.verify.environment.qemu import Qemu

FILES = [Path(name) for name in os.environ["IMAGES"].split()]
BOARDS = {path.parent.name: read_board(path) for path in FILES if path.name == "board.json"}


@pytest.mark.parametrize("board", sorted(BOARDS))
def test_inner_functions_equal_plain_loops(board: str) -> None:
    (image,) = [path for path in FILES if path.stem == f"device_{board}"]
    console = Qemu(BOARDS[board], Path(os.environ["QEMU"])).run(image, timeout=120).console
    # The output before it contains the reasons for refused calls.
    assert console.endswith("\nPASS\n"), console
