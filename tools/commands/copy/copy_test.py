import os
import stat
from pathlib import Path

import pytest

from tools.commands.copy.copy import main


def _image() -> list[Path]:
    return [Path(path) for path in os.environ["IMAGE"].split()]


def _arguments() -> list[str]:
    return [argument for path in _image() for argument in ("--file", str(path))]


def test_all_files_of_an_image_lie_where_the_user_wants_them(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert main([*_arguments(), "out/images"]) == 0
    copies = {file.name: file.read_bytes() for file in (tmp_path / "out/images").iterdir()}
    assert copies == {file.name: file.read_bytes() for file in _image()}
    assert {"".join(Path(name).suffixes) for name in copies} >= {".elf", ".bin", ".hex", ".map", ".uf2", ".report.txt"}
    said = capsys.readouterr().out
    assert all(str(tmp_path / "out/images" / name) in said for name in copies)


def test_a_second_copy_takes_the_place_of_the_first(tmp_path: Path) -> None:
    for _ in range(2):
        assert main([*_arguments(), str(tmp_path)]) == 0
    modes = {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {0o644}
    assert len(list(tmp_path.iterdir())) == len(_image())


def test_no_folder(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--file", "image.elf"])
    assert capsys.readouterr().err.startswith('copy: error: name the folder for the copies behind "--", such as: bazel')


def test_a_folder_that_cannot_be(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main([*_arguments(), str(tmp_path / "file")]) == 1
    error = capsys.readouterr().err
    assert f"copy: error: {tmp_path / 'file'}" in error
    assert (tmp_path / "file").read_text() == "mine"
