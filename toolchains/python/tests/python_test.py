"""Python programs of the workspace run on its own interpreter and packages, whatever the machine has."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest


def describe(*arguments: str, **environment: str) -> dict[str, Any]:
    """Runs the `py_tool` with nothing but the given environment."""
    program = Path(os.environ["DESCRIBE"]).absolute()
    result = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=True)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def description() -> dict[str, Any]:
    # A Python of the user's that must have no influence.
    return describe("a b", "", PYTHONPATH="/nonexistent", PYTHONHOME="/nonexistent")


def test_interpreter_and_packages_are_the_declared_ones(description: dict[str, Any]) -> None:
    assert description["version"] == [3, 11]
    assert "python3/python/" in description["executable"]
    assert "pypi" in description["numpy"]
    assert description["sum"] == 6


def test_nothing_is_imported_from_outside(description: dict[str, Any]) -> None:
    outside = [entry for entry in description["path"] if "runfiles" not in entry and "python3/python/" not in entry]
    assert outside == []


def test_arguments_are_passed_on_unchanged(description: dict[str, Any]) -> None:
    assert description["arguments"] == ["a b", ""]


def test_programs_that_it_starts_see_no_private_libraries(description: dict[str, Any]) -> None:
    assert description["library_path"] is None


def test_hashes_are_the_same_in_every_run(description: dict[str, Any]) -> None:
    assert describe()["hash"] == description["hash"]
