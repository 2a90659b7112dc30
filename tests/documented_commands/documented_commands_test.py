"""Runs commands of documents, each by the program that Bazel would start."""

import os
from pathlib import Path

import pytest

from tests.documents.commands import Shell, commands, put_files, run_all

_BAZELW = """#!/bin/sh
shift
label=$1
shift
[ "$1" != -- ] || shift
export BUILD_WORKING_DIRECTORY="$PWD"
cd "{runfiles}" || exit
case $label in
{cases}
esac
"""


def test_commands_do_what_documents_say(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    programs = dict(pair.split("=") for pair in os.environ["PROGRAMS"].split())
    built = [Path(path) for path in os.environ["BUILT"].split()]
    cases = "\n".join(f'{label}) exec {path} "$@" ;;' for label, path in programs.items())
    (tmp_path / "bazelw").write_text(_BAZELW.format(runfiles=Path.cwd(), cases=cases))
    (tmp_path / "bazelw").chmod(0o755)
    put_files(tmp_path, built)
    (tmp_path / "path/to/folder").mkdir(parents=True, exist_ok=True)
    found = [
        command
        for document in (Path(path) for path in os.environ["DOCUMENTS"].split() if path.endswith(".md"))
        for command in commands(document.name, document.read_text(encoding="utf-8"))
        # Settings need a build.
        if command.needs <= {"board"} and (words := command.text.split())[1:3] in [["run", name] for name in programs]
        if words[3:4] in ([], ["--"])
    ]
    assert len(found) >= 18
    assert run_all(found, Shell(tmp_path, os.environ), set()) == 0, capsys.readouterr().out
