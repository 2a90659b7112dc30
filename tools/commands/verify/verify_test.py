import json
import os
import subprocess
from pathlib import Path

import pytest

from tools.commands.verify.verify import commit, main

_FILES = {"".join(path.suffixes): path for path in map(Path, os.environ["IMAGE"].split())}
_ARGUMENTS = [argument for path in _FILES.values() for argument in ("--file", str(path))]


@pytest.mark.parametrize("suffix", [".elf", ".hex", ".uf2", ".bin"])
def test_each_file_of_an_image_is_its_own(suffix: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*_ARGUMENTS, str(_FILES[suffix])]) == 0
    assert "is the pico2_w that this tree builds: all " in capsys.readouterr().out


def test_flash_that_was_read_from_a_board_goes_on_behind_the_image(tmp_path: Path) -> None:
    dump = tmp_path / "dump.bin"
    dump.write_bytes(_FILES[".bin"].read_bytes() + b"\xff" * 4096)
    assert main([*_ARGUMENTS, str(dump)]) == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "1 of "),
        (lambda data: bytes([data[0] ^ 0x80]) + data[1:], "the first at 0x10000000 (data)"),
        (lambda data: data[:-16], " bytes differ"),
        (lambda data: data + b"\x01", "1 of "),
        (lambda data: b"", " bytes differ"),
    ],
)
def test_a_changed_byte_is_named(changed, message, tmp_path, capsys) -> None:
    assert callable(changed)
    image = tmp_path / "release.bin"
    image.write_bytes(changed(_FILES[".bin"].read_bytes()))
    assert main([*_ARGUMENTS, str(image)]) == 1
    error = capsys.readouterr().err
    assert "release.bin is not the pico2_w that this tree builds: " in error and message in error


def test_a_record_says_what_built_an_image_from_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    record = tmp_path / "record.json"
    assert main([*_ARGUMENTS, str(_FILES[".bin"]), "--record", str(record)]) == 0
    document = json.loads(record.read_text())
    assert document["packages"][0].pop("sourceInfo") == "no git checkout"
    assert document == json.loads(_FILES[".spdx.json"].read_text())
    changed = tmp_path / "changed.bin"
    changed.write_bytes(b"\x01" + _FILES[".bin"].read_bytes()[1:])
    record.unlink()
    assert main([*_ARGUMENTS, str(changed), "--record", str(record)]) == 1 and not record.exists()


def test_the_commit_of_a_checkout(tmp_path: Path) -> None:
    assert commit(str(tmp_path)) == ""
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "commit", "--quiet", "--allow-empty", "-m", "a"], check=True)
    assert len(commit(str(tmp_path))) == len("git commit ") + 40
    (tmp_path / "a").touch()
    assert commit(str(tmp_path)).endswith(", with changes that are not committed")


def test_a_file_that_is_no_image(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a.elf", "a.hex", "a.uf2"):
        (tmp_path / name).write_bytes(b"no image")
        assert main([*_ARGUMENTS, str(tmp_path / name)]) == 1
        assert name in capsys.readouterr().err
    assert main([*_ARGUMENTS, str(tmp_path / "missing.bin")]) == 1
    assert "missing.bin: No such file or directory; pass the .elf, .hex, .uf2 or .bin" in capsys.readouterr().err
