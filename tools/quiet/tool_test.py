"""How a tool ends, as its user's shell sees it."""

import os
import subprocess
import sys
from pathlib import Path
from typing import IO, Any

import pytest

from tools.quiet.tool import option_parser

_PROGRAM = """
import sys
from pathlib import Path
from tools.quiet.console import UserError
from tools.quiet.tool import run_tool

def run(argument):
    print(argument)
    {last}

sys.exit(run_tool("tool", run, "printed"))
"""


def run(last: str, stdout: int | IO[Any] = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM.format(last=last)]
    return subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, text=True, env=os.environ, check=False)


@pytest.mark.parametrize(("last", "status"), [("pass", 0), ("return 0", 0), ("return 3", 3)])
def test_the_status_is_the_tools(last: str, status: int) -> None:
    result = run(last)
    assert (result.returncode, result.stdout, result.stderr) == (status, "printed\n", "")


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ("raise UserError('x.npy: this is wrong; do that')", "x.npy: this is wrong; do that"),
        ("raise UserError('\\x1b]0;name\\x07 \\u202e is\\n\\twrong')", "\\x1b]0;name\\x07 \\u202e is\n\twrong"),
        ("Path('/not/there').write_text('')", "/not/there: No such file or directory"),
        ("Path('/').write_text('')", "/: Is a directory"),
        ("raise BrokenPipeError(32, 'Broken pipe')", "Broken pipe"),
        ("Path('/dev/full').write_text('text')", "No space left on device; free some space, then start it again"),
    ],
)
def test_what_does_not_work_is_one_message(last: str, expected: str) -> None:
    result = run(last)
    assert (result.returncode, result.stdout, result.stderr) == (1, "printed\n", f"tool: error: {expected}\n")


@pytest.mark.parametrize("last", ["pass", "raise UserError('this is wrong')"])
def test_output_onto_a_full_disk_is_one_message(last: str) -> None:
    with Path("/dev/full").open("w") as full:
        result = run(last, full)
    (line,) = result.stderr.splitlines()
    assert result.returncode == 1
    assert line.startswith("tool: error: ")


@pytest.mark.parametrize("last", ["pass", "print('more' * 100_000)"])
def test_nobody_reads_the_output(last: str) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as nobody:
        result = run(last, nobody)
    assert (result.returncode, result.stderr) == (141, "")


def test_a_fault_of_the_tool_keeps_its_traceback() -> None:
    result = run("1 / 0")
    assert result.returncode == 1
    assert result.stderr.endswith("ZeroDivisionError: division by zero\n")


def test_help_fits_the_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    example = "    bazel run //tools:tool -- --an-option of the tool, in a line"
    with pytest.raises(SystemExit, match="0"):
        option_parser("tool", f"{'word ' * 30}\n\n{example}\n").parse_args(["--help"])
    lines = capsys.readouterr().out.splitlines()
    assert example in lines
    assert max(len(line) for line in lines if line != example) < 60


def test_a_wrong_option_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        option_parser("tool", None).parse_args(["--colour\x1b"])
    assert capsys.readouterr().err == "tool: error: unrecognized arguments: --colour\\x1b (all options: -- --help)\n"
