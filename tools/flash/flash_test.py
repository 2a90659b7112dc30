from __future__ import annotations

import os
import pty
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.board.board import read_board
from tools.board.testing import write_board
from tools.flash import flash as flash_module
from tools.flash.console_port import find_port, open_port, read_port
from tools.flash.flash import choose_probe, hex_chunks, main, openocd_command, verify
from tools.quiet.console import UserError

# 16 bytes at 0x08000000 and 4 at 0x08000100, as Intel HEX.
_HEX = """\
:020000040800F2
:10000000000102030405060708090A0B0C0D0E0F78
:0401000001020304F1
:00000001FF
"""
_CHUNKS = [(0x08000000, bytes(range(16))), (0x08000100, bytes([1, 2, 3, 4]))]


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.hex"
    path.write_text(_HEX, encoding="utf-8")
    return path


def _probe(unique_id: str) -> SimpleNamespace:
    return SimpleNamespace(unique_id=unique_id, description="a probe")


class FakeTarget:
    """Flash that pyOCD's programmer fills."""

    def __init__(self) -> None:
        self.memory = {address + i: byte for address, data in _CHUNKS for i, byte in enumerate(data)}
        self.resets: list[str] = []

    def reset(self) -> None:
        self.resets.append("reset")

    def reset_and_halt(self) -> None:
        self.resets.append("halt")

    def read_memory_block8(self, address: int, count: int) -> list[int]:
        return [self.memory[address + i] for i in range(count)]


class FakePyocd:
    """What the tool uses of pyOCD, recorded."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, probes: list[SimpleNamespace]) -> None:
        from pyocd.core import helpers, session
        from pyocd.flash import file_programmer

        self.target = FakeTarget()
        self.options: dict[str, object] = {}
        self.probe: object = None
        self.programmed: list[str] = []
        self.failure: Exception | None = None
        self.when_programmed: Callable[[], object] = lambda: None
        fake = self

        class Session:
            def __init__(self, probe: object, options: dict[str, object]) -> None:
                if fake.failure:
                    raise fake.failure
                fake.probe, fake.options = probe, options
                self.target = fake.target

            def __enter__(self) -> Session:
                return self

            def __exit__(self, *_: object) -> None:
                pass

        class FileProgrammer:
            def __init__(self, session: Session, progress: object) -> None:
                self.progress = progress

            def program(self, path: str, file_format: str) -> None:
                self.progress(0.5)
                self.progress(1.0)
                fake.programmed.append(path)
                fake.when_programmed()

        monkeypatch.setattr(session, "Session", Session)
        monkeypatch.setattr(file_programmer, "FileProgrammer", FileProgrammer)
        monkeypatch.setattr(helpers.ConnectHelper, "get_all_connected_probes", lambda **_: probes)


def _run(image: Path, tmp_path: Path, *more: str) -> int:
    return main(["--hex", str(image), "--board", str(write_board(tmp_path)), *more])


def test_programs_verifies_and_resets(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyocd = FakePyocd(monkeypatch, [_probe("0123")])
    assert _run(image, tmp_path) == 0
    assert pyocd.programmed == [str(image)]
    assert pyocd.options["target_override"] == "tiny_target"
    assert pyocd.target.resets == ["halt", "reset"]
    output = capsys.readouterr().out
    assert "100 %" in output and "verified 20 bytes" in output and "image runs on tiny" in output


def test_a_difference_after_programming_is_reported(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyocd = FakePyocd(monkeypatch, [_probe("0123")])
    pyocd.target.memory[0x08000102] = 0xFF
    assert _run(image, tmp_path) == 1
    assert "verification failed at 0x08000102: flash has 0xff, the image 0x03" in capsys.readouterr().err
    assert "reset" not in pyocd.target.resets


def test_without_a_probe_there_is_one_line(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    FakePyocd(monkeypatch, [])
    assert _run(image, tmp_path) == 1
    error = capsys.readouterr().err
    assert error.startswith("flash: error: no debug probe found") and error.count("\n") == 1


def test_an_unknown_target_says_what_to_install(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyocd.core import exceptions

    FakePyocd(monkeypatch, [_probe("0123")]).failure = exceptions.TargetSupportError("unknown")
    assert _run(image, tmp_path) == 1
    error = capsys.readouterr().err
    assert "'tiny_target'" in error and "--pack FILE" in error and "--tool openocd" in error and error.count("\n") == 1


def test_a_pack_is_given_to_pyocd(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyocd = FakePyocd(monkeypatch, [_probe("0123")])
    pack = tmp_path / "chip.pack"
    assert _run(image, tmp_path, "--pack", str(pack)) == 1
    assert "chip.pack: No such file" in capsys.readouterr().err
    pack.touch()
    assert _run(image, tmp_path, "--pack", str(pack)) == 0
    assert pyocd.options["pack"] == [str(pack)]
    assert _run(image, tmp_path, "--pack", str(pack), "--tool", "openocd") == 1
    assert "--pack is for pyOCD" in capsys.readouterr().err


def test_a_failing_probe_is_one_line(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from pyocd.core import exceptions

    FakePyocd(monkeypatch, [_probe("0123")]).failure = exceptions.ProbeError("USB went away")
    assert _run(image, tmp_path) == 1
    assert capsys.readouterr().err == "flash: error: pyOCD: USB went away\n"


def test_one_of_several_probes_is_chosen_by_the_start_of_its_id() -> None:
    probes = [_probe("0123"), _probe("04AB")]
    assert choose_probe(probes, "04ab") is probes[1]
    with pytest.raises(UserError, match=r"several debug probes: 0123 .*04AB .*--probe"):
        choose_probe(probes, None)
    with pytest.raises(UserError, match="no debug probe '9'; connected: 0123"):
        choose_probe(probes, "9")


def test_an_image_for_another_board_is_refused_before_a_probe_is_touched(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyocd = FakePyocd(monkeypatch, [_probe("0123")])
    flash = {"name": "flash", "origin": 0x10000000, "length": 0x1000}
    board = write_board(tmp_path, flash=flash)
    assert main(["--hex", str(image), "--board", str(board)]) == 1
    assert "outside the flash of tiny" in capsys.readouterr().err
    assert pyocd.probe is None


@pytest.mark.parametrize("content", [b"\x7fELF\x01\xff", b":00", b"hello"])
def test_a_file_that_is_no_hex(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "foreign.hex"
    path.write_bytes(content)
    with pytest.raises(UserError, match=r"foreign\.hex is no Intel HEX"):
        hex_chunks(path)


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.hex").touch()
    with pytest.raises(UserError, match=r"empty\.hex is empty"):
        hex_chunks(tmp_path / "empty.hex")


def test_a_missing_image(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="build it first"):
        hex_chunks(tmp_path / "none.hex")


def test_hex_chunks(image: Path) -> None:
    assert hex_chunks(image) == _CHUNKS


def test_verify_reads_what_it_compares() -> None:
    target = FakeTarget()
    verify(target.read_memory_block8, _CHUNKS)


def test_a_board_without_programmer(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = write_board(tmp_path, programmer=None)
    for tool, key in (("pyocd", "pyocd_target"), ("openocd", "openocd_config")):
        assert main(["--hex", str(image), "--board", str(board), "--tool", tool]) == 1
        assert f"has no {key}" in capsys.readouterr().err


def test_openocd_command(tmp_path: Path) -> None:
    board = read_board(write_board(tmp_path))
    command = openocd_command(Path("/a b/image.hex"), board, "04AB")
    assert command[:5] == ["openocd", "-f", "board/tiny.cfg", "-c", "adapter serial 04AB"]
    assert command[-1] == "program {/a b/image.hex} verify reset exit"


def test_openocd_that_is_not_installed(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert _run(image, tmp_path, "--tool", "openocd") == 1
    assert "openocd is not on the PATH" in capsys.readouterr().err


def test_an_unknown_tool_is_refused(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        _run(image, tmp_path, "--tool", "hammer")
    assert "invalid choice: 'hammer'" in capsys.readouterr().err


def test_the_console_port_is_found(tmp_path: Path) -> None:
    for name in ("usb-STMicroelectronics_STM32_STLink_0123-if02", "usb-Other_Modem_77"):
        (tmp_path / name).touch()
    assert find_port(folder=tmp_path).name.endswith("0123-if02")
    with pytest.raises(UserError, match="no serial port"):
        find_port("99", folder=tmp_path)
    (tmp_path / "usb-STMicroelectronics_STM32_STLink_04AB-if02").touch()
    assert find_port("04ab", folder=tmp_path).name.endswith("04AB-if02")
    with pytest.raises(UserError, match="several serial ports"):
        find_port(folder=tmp_path)


def test_the_console_is_read(capsys: pytest.CaptureFixture[str]) -> None:
    master, slave = pty.openpty()
    descriptor = open_port(Path(os.ttyname(slave)), 115200)
    os.write(master, b"PASS\r\n> ")
    assert "".join(read_port(descriptor, timeout=0.5)) == "PASS\n> "
    for number in (descriptor, master, slave):
        os.close(number)


def test_a_port_that_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is no serial port"):
        open_port(tmp_path / "file", 115200)
    with pytest.raises(UserError, match="cannot open"):
        open_port(tmp_path / "none", 115200)
    with pytest.raises(UserError, match="baud rate 12345"):
        open_port(tmp_path / "file", 12345)


def test_follow_programs_with_the_port_open(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pyocd = FakePyocd(monkeypatch, [_probe("0123")])
    master, slave = pty.openpty()
    pyocd.when_programmed = lambda: os.write(master, b"hello\r\n")
    monkeypatch.setattr(flash_module, "read_port", lambda descriptor: read_port(descriptor, timeout=0.5))
    assert _run(image, tmp_path, "--follow", "--port", os.ttyname(slave)) == 0
    assert "hello\n" in capsys.readouterr().out
    for number in (master, slave):
        os.close(number)
