"""Tests that an entry shared by checkouts is whole or not there, whoever writes, reads or deletes it meanwhile."""

import os
import subprocess
import time
from pathlib import Path

import pytest


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "a cache/repositories"


def shared(directory: Path, command: str, cache: Path, key: str, *paths: str) -> int:
    """Starts shared.sh in a repository's directory; returns its exit status."""
    (directory / "key").write_text(key)
    script = Path(os.environ["SHARED_SCRIPT"]).absolute()
    arguments = [command, str(cache), "some", "key", *paths]
    return subprocess.run(["sh", script, *arguments], cwd=directory, capture_output=True, check=False).returncode


def repository(path: Path) -> Path:
    """Returns a repository with a program and a link in a directory whose name has a space."""
    (path / "usr/a b").mkdir(parents=True)
    program = path / "usr/a b/program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (path / "usr/link").symlink_to("a b/program")
    return path


@pytest.fixture
def stored(tmp_path: Path, cache: Path) -> Path:
    assert shared(repository(tmp_path / "first"), "store", cache, "version 1", "usr") == 0
    return cache


def contents(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*") if path.name != "key")


def test_a_second_checkout_gets_a_copy_of_its_own(tmp_path: Path, stored: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    assert shared(second, "restore", stored, "version 1") == 0
    assert contents(second) == contents(tmp_path / "first")
    copy = second / "usr/a b/program"
    assert os.access(copy, os.X_OK)
    assert copy.stat().st_nlink == 1
    assert str((second / "usr/link").readlink()) == "a b/program"


def test_another_version_is_not_there(tmp_path: Path, stored: Path) -> None:
    second = tmp_path / "second"
    second.mkdir()
    assert shared(second, "restore", stored, "version 2") == 1
    assert contents(second) == []


@pytest.mark.parametrize("damage", ["changed", "cut", "unfinished"])
def test_a_damaged_entry_is_not_taken_and_made_again(tmp_path: Path, stored: Path, damage: str) -> None:
    (entry,) = stored.iterdir()
    archive = entry / "content.tar"
    if damage == "changed":
        archive.write_bytes(archive.read_bytes().replace(b"/bin/sh", b"/bin/no"))
    elif damage == "cut":
        archive.write_bytes(archive.read_bytes()[:2000])
    else:
        (entry / "b2").unlink()
    second = repository(tmp_path / "second")
    assert shared(tmp_path, "restore", stored, "version 1") == 1
    assert not (tmp_path / "usr").exists()
    assert shared(second, "store", stored, "version 1", "usr") == 0
    assert shared(tmp_path, "restore", stored, "version 1") == 0


def test_two_that_store_at_once_leave_one_whole_entry(tmp_path: Path, cache: Path) -> None:
    directories = [repository(tmp_path / name) for name in ["first", "second"]]
    for directory in directories:
        (directory / "key").write_text("version 1")
    script = Path(os.environ["SHARED_SCRIPT"]).absolute()
    command = ["sh", script, "store", str(cache), "some", "key", "usr"]
    running = [subprocess.Popen(command, cwd=directory) for directory in directories]
    assert [process.wait() for process in running] == [0, 0]
    assert len(list(cache.iterdir())) == 1
    third = tmp_path / "third"
    third.mkdir()
    assert shared(third, "restore", cache, "version 1") == 0


def test_a_store_that_fails_leaves_nothing(tmp_path: Path, cache: Path) -> None:
    assert shared(repository(tmp_path / "first"), "store", cache, "version 1", "usr", "missing") != 0
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize("version", ["version 1", "version 2"])
def test_what_a_killed_store_left_is_deleted(tmp_path: Path, stored: Path, version: str) -> None:
    left, written = stored / "incomplete-ABC123", stored / "incomplete-DEF456"
    for work in (left, written):
        work.mkdir()
        (work / "content.tar").write_bytes(b"some")
    os.utime(left, (time.time() - 7200,) * 2)
    (tmp_path / "second").mkdir()
    shared(tmp_path / "second", "restore", stored, version)
    assert not left.exists()
    assert written.exists()


def test_what_was_not_used_for_a_month_is_deleted(tmp_path: Path, stored: Path) -> None:
    (entry,) = stored.iterdir()
    os.utime(entry, (0, 0))
    assert shared(repository(tmp_path / "second"), "store", stored, "version 2", "usr") == 0
    assert not entry.exists()
