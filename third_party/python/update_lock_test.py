"""The lock holds what the requirements need, and its making keeps what users added."""

from pathlib import Path
from typing import Any

import pytest

from third_party.python.update_lock import LockError, format_lock, main, needed, previous_hashes


def entry(name: str, version: str, digest: str, *dependencies: str) -> dict[str, Any]:
    """An entry of pip's installation report."""
    return {
        "metadata": {"name": name, "version": version, "requires_dist": list(dependencies)},
        "download_info": {"archive_info": {"hashes": {"sha256": digest}}},
    }


INSTALLED = {
    "torch": entry("torch", "2.0+cpu", "aa", "sympy>=1", 'triton; extra == "gpu"', 'winlib; sys_platform == "win32"'),
    "sympy": entry("sympy", "1.5", "bb", "mpmath"),
    "mpmath": entry("mpmath", "1.3", "cc"),
    "pandas": entry("pandas", "3.0", "dd", "tzdata"),
    "tzdata": entry("tzdata", "2026", "ee"),
    "triton": entry("triton", "3.1", "ff"),
}


def test_dependencies_are_followed_and_markers_obeyed() -> None:
    assert needed("torch==2.0\n", INSTALLED) == ["mpmath", "sympy", "torch"]


def test_extras_bring_their_dependencies() -> None:
    assert "triton" in needed("torch[gpu]\n", INSTALLED)


def test_an_exclusion_leaves_out_what_only_it_needs() -> None:
    assert needed("torch\npandas\n#without pandas\n#without mpmath\n", INSTALLED) == ["sympy", "torch"]


def test_an_unknown_package_is_named() -> None:
    with pytest.raises(LockError, match="nosuch"):
        needed("nosuch\n", INSTALLED)


def test_the_lock_names_no_local_version_and_keeps_hashes_of_the_same_version() -> None:
    previous = previous_hashes("# note\ntorch==2.0 --hash=sha256:99\nsympy==1.4 --hash=sha256:88\n")
    lock = format_lock(["sympy", "torch"], INSTALLED, previous)
    assert "torch==2.0 --hash=sha256:99 --hash=sha256:aa\n" in lock
    assert "sympy==1.5 --hash=sha256:bb\n" in lock
    assert "2.0+cpu" in lock.splitlines()[3]  # told to the reader, not to pip


def test_every_requirement_is_locked_with_hashes() -> None:
    here = Path("third_party/python")
    locked = previous_hashes((here / "requirements_lock.txt").read_text())
    assert all(digests for digests in locked.values())
    names = {pin.split("==")[0] for pin in locked}
    lines = (here / "requirements.in").read_text().splitlines()
    wanted = {line.split("==")[0].lower() for line in lines if line and not line.startswith("#")}
    assert wanted <= names


def test_without_a_workspace_the_command_says_how_to_start_it(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([])
    assert "bazelw run //third_party/python:update_lock" in capsys.readouterr().err
