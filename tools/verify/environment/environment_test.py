"""Any environment gets the same options, messages and exit status."""

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from tools.artifacts.board.board import Board
from tools.artifacts.board.testing import write_board
from tools.artifacts.golden.golden import Golden, golden_npz
from tools.quiet.console import UserError
from tools.verify.environment.environment import Run, SampleRun, spread, verify_main


@dataclass
class Dreamt:
    """An environment whose image returns its input plus an error."""

    error: float = 0.0
    problems: tuple[str, ...] = ()
    comparable: bool = True
    kind: str = "dreamt"

    def run_example(self) -> Run:
        return Run("hello\x1b[2J\n", ("1 instruction",), self.problems, self.comparable)

    def run_samples(self, golden: Golden, most: int | None) -> SampleRun:
        samples = spread(golden, most)
        return SampleRun(tuple(samples), (golden.inputs[0][samples] + np.float32(self.error),), ("2 instructions",))


def _verify(folder: Path, environment: Dreamt, *more: str) -> int:
    data = np.eye(4, dtype=np.float32)
    golden = folder / "x.golden.npz"
    golden.write_bytes(golden_npz(Golden((data,), (data,), np.arange(4))))

    def make(_arguments: argparse.Namespace, board: Board, read: Golden | None) -> Dreamt:
        assert board.name and (read is None or read.samples == 4)
        return environment

    arguments = ["--elf", "image.elf", "--board", str(write_board(folder)), "--golden", str(golden), *more]
    return verify_main("dream", __doc__, lambda parser: None, make, arguments)


def test_a_good_run_shows_console_outputs_measurements_and_pass(tmp_path, capsys) -> None:
    assert _verify(tmp_path, Dreamt(), "--test", "--min-accuracy", "1") == 0
    out = capsys.readouterr().out
    assert "image on " in out and ", dreamt\nconsole:\n  | hello\\x1b[2J\noutput 0: float32 [4]\n" in out
    assert out.endswith("accuracy over 4 samples: device 1.0000, PyTorch 1.0000\n2 instructions\nPASS\n")


def test_some_samples_are_spread_over_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _verify(tmp_path, Dreamt(), "--samples", "2") == 0
    assert "accuracy over 2 of 4 samples" in capsys.readouterr().out
    samples = np.zeros((100, 1), np.float32)
    whole, stream = (Golden((samples,), (samples,), None, is_stream=is_stream) for is_stream in (False, True))
    assert spread(whole, 3) == [0, 49, 99] and spread(whole.part([0, 1]), 5) == [0, 1]
    assert spread(stream, 3) == [0, 1, 2] and spread(whole.part([0, 1, 2]), None) == [0, 1, 2]


def test_what_is_wrong_is_a_warning_or_in_a_test_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = Dreamt(error=1.0, problems=("the lamp is off",))
    assert _verify(tmp_path, wrong) == 0
    assert "dream: warning: the lamp is off" in capsys.readouterr().err
    assert _verify(tmp_path, wrong, "--test") == 1
    captured = capsys.readouterr()
    assert "dream: error: the lamp is off" in captured.err and "dream: error: output 0: 16 of 16" in captured.err
    assert "PASS" not in captured.out


def test_an_image_that_failed_is_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _verify(tmp_path, Dreamt(error=1.0, problems=("it hangs",), comparable=False), "--test") == 1
    captured = capsys.readouterr()
    assert "output 0" not in captured.out + captured.err and "1 instruction" in captured.out


def test_what_cannot_be_run_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def make(_arguments: argparse.Namespace, _board: Board, _golden: Golden | None) -> Dreamt:
        raise UserError("there are no dreams today")

    assert verify_main("dream", None, lambda parser: None, make, ["--elf", "x", "--board", "nowhere"]) == 1
    assert capsys.readouterr().err == "dream: error: board 'nowhere' is unknown; give a board.json or one of: (none)\n"
    board = str(write_board(tmp_path))
    assert verify_main("dream", None, lambda parser: None, make, ["--elf", "x", "--board", board]) == 1
    assert capsys.readouterr().err == "dream: error: there are no dreams today\n"


@pytest.mark.parametrize(
    ("options", "says"),
    [(["--min-accuracy", "0.5"], "--min-accuracy needs --golden"), (["--samples", "0"], "--samples 0: give how many")],
)
def test_options_that_make_no_sense(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        verify_main("dream", None, lambda parser: None, lambda *_: Dreamt(), ["--elf", "x", "--board", "y", *options])
    assert says in capsys.readouterr().err
