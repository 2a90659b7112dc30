"""The application's answers to lines of numbers from the console."""

import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.artifacts.board.board import read_board
from tools.quiet.testing import given_file
from tools.verify.environment.qemu import command_line

SECONDS = 60


class Terminal:
    """The console of a running image."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.selector = selectors.DefaultSelector()
        self.selector.register(process.stdout, selectors.EVENT_READ)

    def read_until(self, end: str) -> str:
        """Returns what is printed up to `end`; fails after a while."""
        text = ""
        deadline = time.monotonic() + SECONDS
        while not text.endswith(end):
            assert self.selector.select(deadline - time.monotonic()), f"no {end!r} in {text!r}"
            data = os.read(self.process.stdout.fileno(), 1)
            assert data, f"the image ended after {text!r}"
            text += data.decode()
        return text.replace("\r\n", "\n")

    def answer(self, line: str) -> str:
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        return self.read_until("> ")


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    elf = given_file("IMAGE", ".elf")
    board = given_file("BOARD", "board.json")
    command = command_line(elf, read_board(board), Path(os.environ["QEMU"]), ["image", "console=1"])
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield Terminal(process)
        finally:
            process.kill()


def test_lines_of_numbers_are_answered_with_outputs(terminal: Terminal) -> None:
    assert "\nPASS\n" in terminal.read_until("> ")
    # Two rows of softmax: equal elements, and one far above the other.
    answer = terminal.answer("1.5, 1.5 -1e1 2.0e+01\r\n")
    assert "output 0: Float [2, 2]: 0.5 0.5 9.357" in answer and "e-14 1\n" in answer
    assert "execute: " in answer


@pytest.mark.parametrize("line", ["1 2 3\n", "1 2 3 4 5\n", "1 2 x 4\n", "1 2 3 4x\n", "- - - -\n"])
def test_a_line_that_does_not_fit_is_explained(terminal: Terminal, line: str) -> None:
    terminal.read_until("> ")
    assert "give all elements of the inputs on one line" in terminal.answer(line)
    # The next line is read as if nothing had happened.
    assert "0.5 0.5 0.5 0.5" in terminal.answer("1 1 1 1\n")
