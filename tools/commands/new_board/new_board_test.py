import ast
import os
import resource
import shutil
from pathlib import Path

import pytest

from tools.commands.new_board.new_board import main

_ARGUMENTS = ["--core", "cortex-m4", "--clock-hz", "180000000", "--flash-length", "512K", "--ram-length", "128K"]


def test_the_folder_is_small_and_is_not_overwritten(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "MODULE.bazel").write_text('module(\n    name = "torch_fusion",\n)\n')
    assert main(["--name", "my_board", *_ARGUMENTS]) == 0
    folder = tmp_path / "firmware/boards/my_board"
    lines = [line for file in folder.iterdir() for line in file.read_text().splitlines()]
    assert len(lines) <= 150
    assert "//firmware/boards/my_board:my_board" in capsys.readouterr().out
    assert main(["--name", "my_board", *_ARGUMENTS]) == 1
    assert "exists" in capsys.readouterr().err


def test_a_board_of_torch_fusion_is_listed(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    (tmp_path / "MODULE.bazel").write_text('module(\n    name = "torch_fusion",\n)\n')
    boards = tmp_path / "firmware/boards/boards.bzl"
    boards.parent.mkdir(parents=True)
    boards.write_text('_BOARDS = {\n    "one": ["simulated"],\n}\n\nOTHER = {\n}\n')
    assert main(["--name", "two", *_ARGUMENTS]) == 0
    assert boards.read_text() == '_BOARDS = {\n    "one": ["simulated"],\n    "two": [],\n}\n\nOTHER = {\n}\n'
    assert "//firmware/boards:update_readme" in capsys.readouterr().out
    assert sorted(path.name for path in (boards.parent / "two").iterdir()) == ["BUILD.bazel", "board.c"]
    # A board that is already listed is not added again; an invalid list is not changed, and no folder is written.
    shutil.rmtree(boards.parent / "two")
    assert main(["--name", "two", *_ARGUMENTS]) == 0
    assert boards.read_text().count("two") == 1
    boards.write_text("")
    assert main(["--name", "three", *_ARGUMENTS]) == 1
    assert "has no list _BOARDS" in capsys.readouterr().err and not (boards.parent / "three").exists()


def test_what_it_writes_is_what_is_built(tmp_path: Path) -> None:
    folder = tmp_path / "my_board"
    assert main(["--name", "my_board", *_ARGUMENTS, "--output", str(folder)]) == 0
    for name in ("BUILD.bazel", "board.c"):
        # //firmware/tests:new_board_image is an image for it.
        assert (folder / name).read_text() == Path("tools/commands/new_board/my_board", name).read_text()
    assert Path(os.environ["IMAGE"].split()[0]).stat().st_size > 0


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize(("folder", "package"), [("boards/b", "boards/b"), (".", "")])
def test_a_board_of_another_workspace(absolute, folder, package, tmp_path, monkeypatch, capsys) -> None:
    # Run from Torch Fusion's checkout, or where the user stands.
    checkout, workspace = tmp_path / "torch_fusion", tmp_path / "mine"
    checkout.mkdir()
    workspace.mkdir()
    (checkout / "MODULE.bazel").write_text('module(name = "torch_fusion")\n')
    (workspace / "MODULE.bazel").write_text('module(name = "mine")\n')
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(checkout))
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(checkout if absolute else workspace))
    output = str(workspace / folder) if absolute else folder
    assert main(["--name", "b", *_ARGUMENTS, "--output", output]) == 0
    assert 'load("@torch_fusion//rules:board.bzl", "board")' in (workspace / folder / "BUILD.bazel").read_text()
    assert f'board = "//{package}:b", model = "@torch_fusion//models/sine"' in capsys.readouterr().out


def test_a_folder_outside_of_any_workspace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--name", "b", *_ARGUMENTS, "--external", "--output", str(tmp_path / "b")]) == 0
    assert 'load("@torch_fusion//rules:board.bzl", "board")' in (tmp_path / "b/BUILD.bazel").read_text()
    said = capsys.readouterr().out
    assert "move it into a Bazel workspace" in said
    assert 'board = "//FOLDER/b:b", model = "@torch_fusion//models/sine"' in said


@pytest.mark.parametrize("core", ["cortex_m4", "Cortex-M4"])
def test_a_core_as_others_spell_it(core: str, tmp_path: Path) -> None:
    assert main(["--name", "b", *_ARGUMENTS, "--core", core, "--output", str(tmp_path)]) == 0
    assert 'core = "cortex_m4"' in (tmp_path / "BUILD.bazel").read_text()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--name", "My Board"], "lower-case letters"),
        (["--name", "b", "--ram-length", "lots"], "--ram-length lots: no number"),
        (["--name", "b", "--flash-length", "0K"], "--flash-length 0K: no memory"),
        (["--name", "b", "--clock-hz", "80MHz"], "--clock-hz 80MHz: give it in Hz without a unit, such as 80000000"),
        (["--name", "b", "--clock-hz", "0"], "--clock-hz 0: give it in Hz"),
        (["--name", "b", "--clock-hz", "4294967296"], "--clock-hz 4294967296: no Cortex-M runs at more than"),
        (["--name", "../b"], "lower-case letters"),
        (["--name", "b\n"], "lower-case letters"),
        (["--name", ""], "lower-case letters"),
        (["--name", "support"], "--name support: a board's folder has a target of that name"),
        (["--name", "b", "--description", "one\ntwo"], "--description 'one\\ntwo': give one line of text"),
        (["--name", "b", "--pyocd-target", "\0"], "--pyocd-target '\\x00': give one line of text"),
    ],
)
def test_bad_values(changes: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_ARGUMENTS, "--output", str(tmp_path / "b"), *changes]) == 1
    error = capsys.readouterr().err
    assert message in error and "Traceback" not in error
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize("text", ['a "board" \\', "{name} %s $(x)", '"); fail("', "größer"])
def test_texts_stay_texts(text: str, tmp_path: Path) -> None:
    texts = ["--description", text, "--pyocd-target", text, "--openocd-config", text]
    assert main(["--name", "b", *_ARGUMENTS, *texts, "--output", str(tmp_path)]) == 0
    # Starlark's syntax of calls and literals is Python's.
    (call,) = [
        node
        for node in ast.walk(ast.parse((tmp_path / "BUILD.bazel").read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "board"
    ]
    given = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords}
    assert given["description"] == text
    assert given["programmer"] == {"pyocd_target": text, "openocd_config": text}


def test_a_name_that_is_too_long_for_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "b" * 300
    assert main(["--name", name, *_ARGUMENTS, "--output", str(tmp_path / name)]) == 1
    assert capsys.readouterr().err.endswith(": File name too long\n")


def test_an_interrupt_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ["--name", "b", *_ARGUMENTS, "--output", str(tmp_path / "b")]

    def write_half(path: Path, text: str, encoding: str) -> int:
        with path.open("w", encoding=encoding) as file:
            file.write(text[: len(text) // 2])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "write_text", write_half)
        main(options)
    assert list((tmp_path / "b").iterdir()) == []
    assert main(options) == 0


def test_a_disk_that_gets_full_leaves_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--name", "b", *_ARGUMENTS, "--output", str(tmp_path / "b")]
    assert main(options) == 0
    size = (tmp_path / "b/BUILD.bazel").stat().st_size
    assert size < (tmp_path / "b/board.c").stat().st_size
    shutil.rmtree(tmp_path / "b")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        assert main(options) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert capsys.readouterr().err.startswith(f"new_board: error: {tmp_path}/b/board.c: File too large; ")
    assert list((tmp_path / "b").iterdir()) == []
    assert main(options) == 0
