"""The linter of .ci/run starts from the environment of the lock, and finds faults."""

import subprocess
import sys
from pathlib import Path


def test_the_linter_names_a_fault(tmp_path: Path) -> None:
    (tmp_path / "source.py").write_text("import os\n")
    command = [sys.executable, "-m", "ruff", "check", "--no-cache", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 1, result.stderr
    assert "F401" in result.stdout
