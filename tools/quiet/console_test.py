import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.quiet.console import Console, SparseProgress, UserError, note_progress, run_quietly

_PROGRAM = """
import ctypes, os, sys, warnings
from pathlib import Path
from tools.quiet.console import UserError, run_quietly
from tqdm import tqdm

def step(console):
    print("python out")
    print("python err", file=sys.stderr)
    os.system("echo child out; echo child err >&2")
    warnings.warn("a warning")
    ctypes.CDLL(None).printf(b"C out\\n")
    with console.shown():
        print("shown out")
        for _ in tqdm(range(5), desc="bar"):
            pass
    print("python out again")
    {last}

sys.exit(run_quietly(step, Path(sys.argv[1]), "tool"))
"""


def run(last: str, log: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM.format(last=last), str(log)]
    return subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False)


def test_only_what_the_tool_says_is_shown(tmp_path: Path) -> None:
    result = run('console.say("done")', tmp_path / "folder" / "log")
    assert result.returncode == 0
    assert result.stdout == "shown out\n"
    bar, said = result.stderr.splitlines()
    assert bar.startswith("bar: 100%")
    assert said == "done"
    log = (tmp_path / "folder" / "log").read_text(encoding="utf-8").splitlines()
    for text in ("python out", "python err", "child out", "child err", "C out", "python out again"):
        assert text in log
    assert any("a warning" in line for line in log)


def test_the_log_is_emptied(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("old", encoding="utf-8")
    run("pass", log)
    assert "old" not in log.read_text(encoding="utf-8")


def test_a_mistake_of_the_user_is_one_message(tmp_path: Path) -> None:
    result = run('raise UserError("x.py:3: this is wrong; do that.")', tmp_path / "log")
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == [
        "tool: error: x.py:3: this is wrong; do that.",
        f"  (what torch printed: {tmp_path}/log)",
    ]


def test_an_exit_of_the_users_code_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_quietly(lambda _: sys.exit(0), tmp_path / "log", "tool") == 1
    message = "tool: error: a call of sys.exit(0) ended it; let the model raise an error instead\n"
    assert capfd.readouterr().err.endswith(f"{message}  (traceback: {tmp_path}/log)\n")


def test_a_log_that_says_nothing_is_not_named(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def fail(cause: Exception | None) -> Callable[[Console], None]:
        def step(_console: Console) -> None:
            raise UserError("this is wrong; do that.") from cause

        return step

    assert run_quietly(fail(None), tmp_path / "log", "tool") == 1
    assert capfd.readouterr().err == "tool: error: this is wrong; do that.\n"
    assert not (tmp_path / "log").read_bytes()
    assert run_quietly(fail(ValueError("why")), tmp_path / "log", "tool") == 1
    assert f"(traceback: {tmp_path}/log)" in capfd.readouterr().err


def test_a_fault_of_the_tool_leaves_its_traceback_in_the_log(tmp_path: Path) -> None:
    result = run("1 / 0", tmp_path / "log")
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == [
        "tool: internal error: ZeroDivisionError: division by zero",
        f"  (traceback: {tmp_path}/log)",
    ]
    assert "Traceback" in (tmp_path / "log").read_text(encoding="utf-8")


def test_an_interrupt_is_no_fault_of_the_tool(tmp_path: Path) -> None:
    # Python 3.11 raises a RuntimeError from an interrupt during the definition of a class.
    for last in ("raise KeyboardInterrupt", "raise RuntimeError('__set_name__') from KeyboardInterrupt()"):
        result = run(last, tmp_path / "log")
        assert "internal error" not in result.stderr
        assert result.stderr.splitlines()[-1] == "KeyboardInterrupt"


def test_a_full_disk_is_one_message(tmp_path: Path) -> None:
    advice = "No space left on device; free some space, then start it again"
    result = run("Path('/dev/full').write_text('text')", tmp_path / "log")
    assert result.stderr.splitlines()[1:] == [f"tool: error: {advice}", f"  (traceback: {tmp_path}/log)"]
    # The log is on it, too. C++ of PyTorch aborts where what it prints by Python raises an exception.
    result = run("console.say('goes on')", Path("/dev/full"))
    assert result.returncode == 1
    assert result.stderr.splitlines()[1:] == ["goes on", f"tool: error: {advice}", "  (traceback: /dev/full)"]
    assert "Traceback" not in result.stderr


def test_a_log_that_cannot_be_written(tmp_path: Path) -> None:
    result = run("pass", tmp_path)
    assert (result.returncode, result.stderr) == (1, f"tool: error: {tmp_path}: Is a directory\n")


class _Lines:
    def __init__(self) -> None:
        self.text = ""

    def write(self, text: str) -> int:
        self.text += text
        return len(text)

    def flush(self) -> None:
        pass


def test_a_progress_bar_becomes_a_few_lines() -> None:
    lines = _Lines()
    now = 0.0
    stream = SparseProgress(lines, interval=10, clock=lambda: now)
    stream.write("before\n")
    for second in range(25):
        now = float(second)
        stream.write(f"\rstep {second}   ")
    stream.write("\n")
    stream.write("after\n")
    assert lines.text == "before\nstep 10\nstep 20\nstep 24\nafter\n"


def test_a_bar_without_an_end_is_shown_at_last() -> None:
    lines = _Lines()
    stream = SparseProgress(lines)
    stream.write("\rstep 1")
    stream.finish()
    stream.finish()
    assert lines.text == "step 1\n"


def test_notes_are_in_the_log_and_are_nothing_that_torch_printed(tmp_path, capfd) -> None:
    def step(_console: Console) -> None:
        note_progress("pass 1 of 2")
        raise UserError("no")

    note_progress("outside")
    assert run_quietly(step, tmp_path / "log", "x") == 1
    assert (tmp_path / "log").read_text() == "pass 1 of 2\n"
    assert capfd.readouterr().err == "x: error: no\n"
