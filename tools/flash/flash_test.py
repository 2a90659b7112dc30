"""What needs no target; simulated_test.py has the rest."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.board.board import read_board
from tools.board.testing import write_board
from tools.flash.flash import hex_chunks, main, openocd_command
from tools.flash.pyocd_tool import choose_probe
from tools.flash.stm32wb55 import read_algorithm
from tools.flash.uf2 import copy_uf2
from tools.flash.usb import explain_missing_probe
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


@pytest.fixture(autouse=True)
def _no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own probes are none of a test's business."""
    from pyocd.core.helpers import ConnectHelper

    monkeypatch.setattr(ConnectHelper, "get_all_connected_probes", lambda **_: [])


def _run(image: Path, tmp_path: Path, *more: str) -> int:
    return main(["--hex", str(image), "--board", str(write_board(tmp_path)), *more])


def _probe(unique_id: str) -> SimpleNamespace:
    return SimpleNamespace(unique_id=unique_id, description="a probe")


def test_without_a_probe_there_is_one_line(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _run(image, tmp_path) == 1
    error = capsys.readouterr().err
    assert error.startswith("flash: error: no ") and error.count("\n") == 1


def test_one_of_several_probes_is_chosen_by_the_start_of_its_id() -> None:
    probes = [_probe("0123"), _probe("04AB")]
    assert choose_probe(probes, "04ab") is probes[1]
    with pytest.raises(UserError, match=r"several debug probes: 0123 .*04AB .*--probe"):
        choose_probe(probes, None)
    with pytest.raises(UserError, match="no debug probe '9'; connected: 0123"):
        choose_probe(probes, "9")


def _usb(folder: Path, vendor: str) -> tuple[Path, Path]:
    device = folder / "devices" / "1-2"
    device.mkdir(parents=True)
    for name, text in (("idVendor", vendor), ("busnum", "1"), ("devnum", "7")):
        (device / name).write_text(text + "\n", encoding="ascii")
    node = folder / "nodes" / "001" / "007"
    node.parent.mkdir(parents=True)
    node.touch(mode=0o000)
    return folder / "devices", folder / "nodes"


def test_a_probe_without_permission_names_the_udev_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Root may open everything.
    monkeypatch.setattr("os.access", lambda *_: False)
    text = explain_missing_probe(*_usb(tmp_path, "0483"))
    assert "no permission to use the ST-LINK at" in text
    assert 'SUBSYSTEM=="usb", ATTR{idVendor}=="0483"' in text
    assert "/etc/udev/rules.d/49-stlinkv2.rules" in text
    assert "\n" not in text


def test_other_usb_devices_are_no_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda *_: False)
    assert explain_missing_probe(*_usb(tmp_path, "046d")).startswith("no debug probe found: connect")


def test_an_image_for_another_board_is_refused(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flash = {"name": "flash", "origin": 0x10000000, "length": 0x1000}
    board = write_board(tmp_path, flash=flash)
    assert main(["--hex", str(image), "--board", str(board)]) == 1
    assert "outside the flash of tiny" in capsys.readouterr().err


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


def test_a_board_without_programmer(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    board = write_board(tmp_path, programmer=None)
    for tool, key in (("pyocd", "pyocd_target"), ("openocd", "openocd_config")):
        assert main(["--hex", str(image), "--board", str(board), "--tool", tool]) == 1
        assert f"has no {key}" in capsys.readouterr().err
    assert main(["--hex", str(image), "--board", str(board), "--tool", "uf2"]) == 1
    assert "has no UF2 boot loader" in capsys.readouterr().err


def test_a_pack_is_for_pyocd(image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert _run(image, tmp_path, "--pack", "chip.pack", "--tool", "openocd") == 1
    assert "--pack is for pyOCD" in capsys.readouterr().err


def test_a_board_whose_debug_port_is_not_simulated(
    image: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tools.flash import simulated_probe

    monkeypatch.delitem(simulated_probe._PORTS, "rp2350")
    board = write_board(tmp_path, core="cortex-m33", simulator={"chip": "rp2350"})
    assert main(["--hex", str(image), "--board", str(board), "--simulate"]) == 1
    assert "the debug port of tiny is not simulated" in capsys.readouterr().err


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


def test_a_file_that_is_no_algorithm(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="build it first"):
        read_algorithm(tmp_path / "none.elf")
    (tmp_path / "text.elf").write_text("text", encoding="utf-8")
    with pytest.raises(UserError, match="is no flash algorithm"):
        read_algorithm(tmp_path / "text.elf")


def _drives(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).mkdir()
        (folder / name / "INFO_UF2.TXT").touch()
    mounts = folder / "mounts"
    lines = [f"/dev/sd{i} {str(folder / name).replace(' ', chr(92) + '040')} vfat" for i, name in enumerate(names)]
    mounts.write_text("\n".join(["proc /proc proc rw", *lines]), encoding="utf-8")
    return mounts


def test_an_image_is_copied_to_the_uf2_drive(tmp_path: Path) -> None:
    image = tmp_path / "image.uf2"
    image.write_bytes(b"UF2\n")
    assert copy_uf2(image, _drives(tmp_path, "RPI RP2350")) == tmp_path / "RPI RP2350"
    assert (tmp_path / "RPI RP2350" / "image.uf2").read_bytes() == b"UF2\n"


def test_no_or_several_uf2_drives(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hold BOOTSEL"):
        copy_uf2(tmp_path / "image.uf2", _drives(tmp_path))
    with pytest.raises(UserError, match="several UF2 drives"):
        copy_uf2(tmp_path / "image.uf2", _drives(tmp_path, "a", "b"))
