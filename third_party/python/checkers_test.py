"""The checkers of .ci/run start from the environment of the lock, and find faults."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("command", "source", "fault"),
    [
        (["ruff", "check", "--no-cache"], ("source.py", "import os\n"), "F401"),
        (["mypy", "--strict", "--cache-dir=/dev/null"], ("source.py", "def f():\n    return 1\n"), "no-untyped-def"),
        (
            ["third_party.python.run_clang_format", "--style=Google", "--dry-run", "--Werror"],
            ("source.cpp", "int  x;\n"),
            "clang-format-violations",
        ),
    ],
)
def test_a_checker_names_a_fault(command: list[str], source: tuple[str, str], fault: str, tmp_path: Path) -> None:
    path = tmp_path / source[0]
    path.write_text(source[1])
    result = subprocess.run([sys.executable, "-m", *command, str(path)], capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert fault in result.stdout + result.stderr
