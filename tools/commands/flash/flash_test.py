"""Tests that need no target; simulated_test.py has the rest."""

import os
import pty
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board
from tools.artifacts.uf2.uf2 import uf2 as make_uf2
from tools.commands.console.channel import Channel, ChannelClosed, ReturningChannel
from tools.commands.flash import uf2
from tools.commands.flash.flash import follow, main, openocd_command, wait_for_console
from tools.commands.flash.pyocd_tool import choose_probe
from tools.commands.flash.stm32wb55 import read_algorithm
from tools.commands.flash.uf2 import copy_uf2
from tools.commands.flash.usb import explain_missing_probe
from tools.quiet.console import UserError

# 16 bytes at 0x08000000 and 4 at 0x08000100, as Intel HEX.
_HEX = """\
:020000040800F2
:10000000000102030405060708090A0B0C0D0E0F78
:0401000001020304F1
:00000001FF
"""


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.hex"
    path.write_text(_HEX, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def _no_probe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hides the machine's own probes, which are none of a test's business."""
    from pyocd.core.helpers import ConnectHelper

    monkeypatch.setattr(ConnectHelper, "get_all_connected_probes", lambda **_: [])


def _run(image: Path, tmp_path: Path, *more: str) -> int:
    return main(["--hex", str(image), "--board", str(write_board(tmp_path)), *more])


def _probe(unique_id: str) -> SimpleNamespace:
    return SimpleNamespace(unique_id=unique_id, description="a probe")


def test_without_a_probe_there_is_one_line(image, tmp_path, capsys, monkeypatch) -> None:
    assert _run(image, tmp_path) == 1
    error = capsys.readouterr().err
    assert error.startswith("flash: error: no ") and error.count("\n") == 1
    assert _run(image, tmp_path, "--list") == 1
    assert capsys.readouterr().err == error


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


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--simulate", "--tool", "openocd"], "--tool openocd is for a real board; leave it out, or --simulate"),
        (["--simulate", "--probe", "04AB"], "--probe 04AB is for a real board"),
        (["--simulate", "--list"], "--list is for a real board"),
        (["--simulate", "--port", "/dev/ttyACM0", "--follow"], "--port /dev/ttyACM0 is for a real board"),
        (["--port", "/dev/ttyACM0"], "--port /dev/ttyACM0 is where --follow shows the console; add --follow"),
    ],
)
def test_options_that_would_do_nothing(image, tmp_path, options, says, capsys) -> None:
    assert main(["--hex", str(image), "--board", str(write_board(tmp_path)), *options]) == 1
    assert says in capsys.readouterr().err


def test_a_board_whose_debug_port_is_not_simulated(image, tmp_path, capsys, monkeypatch) -> None:
    from tools.commands.flash import simulated_probe

    monkeypatch.setattr(simulated_probe, "chips", lambda: ())
    board = write_board(tmp_path, core="cortex-m33", simulator={"chip": "rp2350"})
    assert main(["--hex", str(image), "--board", str(board), "--simulate"]) == 1
    assert "the debug port of tiny is not simulated" in capsys.readouterr().err


def test_openocd_command(tmp_path: Path) -> None:
    board = read_board(write_board(tmp_path))
    command = openocd_command(Path("/a b/image.hex"), board, "04AB")
    assert command[:5] == ["openocd", "-f", "board/tiny.cfg", "-c", "adapter serial 04AB"]
    assert command[-1] == "program {/a b/image.hex} verify reset exit"


def test_openocd_with_a_probe_of_its_own(tmp_path: Path) -> None:
    programmer = {"openocd_config": "interface/cmsis-dap.cfg target/rp2350.cfg"}
    command = openocd_command(Path("/image.hex"), read_board(write_board(tmp_path, programmer=programmer)), None)
    assert command[1:7] == ["-f", "interface/cmsis-dap.cfg", "-f", "target/rp2350.cfg", "-c", "adapter speed 5000"]


@pytest.mark.parametrize("status", [0, 1])
def test_openocd_programs(image, tmp_path, monkeypatch, capfd, status) -> None:
    stand_in = tmp_path / "openocd"
    stand_in.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@"\nexit {status}\n', encoding="utf-8")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert _run(image, tmp_path, "--tool", "openocd", "--probe", "04AB") == status
    out, error = capfd.readouterr()
    assert f"-f\nboard/tiny.cfg\n-c\nadapter serial 04AB\n-c\nprogram {{{image}}} verify reset exit\n" in out
    assert ("image runs on tiny" in out) == (status == 0)
    assert ("openocd failed; its messages above say why" in error) == (status == 1)


def test_openocd_that_is_not_installed(image, tmp_path, monkeypatch, capsys) -> None:
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


# A block of an image for the RP2350: magic, flags, address, size, number, count, family.
_UF2 = make_uf2(b"\1" * 25600, 0x10000000, 0xE48BFF59)


def _drives(folder: Path, *names: str, board_id: str = "RP2350") -> Path:
    for name in names:
        (folder / name).mkdir(exist_ok=True)
        text = f"UF2 Bootloader v1.0\nModel: A board\nBoard-ID: {board_id}\n"
        (folder / name / "INFO_UF2.TXT").write_text(text, encoding="utf-8")
    mounts = folder / "mounts"
    lines = [f"/dev/sd{i} {str(folder / name).replace(' ', chr(92) + '040')} vfat" for i, name in enumerate(names)]
    mounts.write_text("\n".join(["proc /proc proc rw", *lines]), encoding="utf-8")
    return mounts


@pytest.fixture
def uf2_image(tmp_path: Path) -> Path:
    path = tmp_path / "image.uf2"
    path.write_bytes(_UF2)
    return path


def _run_uf2(image: Path, uf2_image: Path, tmp_path: Path, mounts: Path, *more: str) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uf2, "MOUNTS", mounts)
        return _run(image, tmp_path, "--uf2", str(uf2_image), *more)


@pytest.mark.parametrize("tool", [[], ["--tool", "uf2"]], ids=["found", "chosen"])
def test_an_image_is_copied_to_the_uf2_drive(image, uf2_image, tmp_path, capsys, tool) -> None:
    assert _run_uf2(image, uf2_image, tmp_path, _drives(tmp_path, "RPI RP2350"), *tool) == 0
    assert (tmp_path / "RPI RP2350" / "image.uf2").read_bytes() == _UF2
    assert f"copied to {tmp_path / 'RPI RP2350'}; the board restarts" in capsys.readouterr().out


def test_follow_waits_for_the_port_of_a_board_that_restarts(image, uf2_image, tmp_path, capsys) -> None:
    port = tmp_path / "ttyACM0"
    drives = _drives(tmp_path, "RPI RP2350")

    def board() -> None:
        while not (tmp_path / "RPI RP2350" / "image.uf2").exists():
            time.sleep(0.01)
        time.sleep(0.5)
        far_end, near_end = pty.openpty()
        port.symlink_to(os.ttyname(near_end))
        # Data that was sent before the port was opened is lost.
        for _ in range(20):
            os.write(far_end, b"hello\r\n")
            time.sleep(0.1)
        port.unlink()
        for descriptor in (near_end, far_end):
            os.close(descriptor)

    thread = threading.Thread(target=board)
    thread.start()
    assert _run_uf2(image, uf2_image, tmp_path, drives, "--follow", "--port", str(port)) == 0
    thread.join()
    out, error = capsys.readouterr()
    assert out.index("the board restarts with it") < out.index("hello\n")
    assert "the console is gone" in error


def test_a_port_that_goes_when_the_board_is_reset_is_opened_again(capsys: pytest.CaptureFixture[str]) -> None:
    class Gone:
        name = "a port"

        def read(self, timeout: float) -> bytes:
            raise ChannelClosed("unplugged")

        def close(self) -> None:
            pass

    class Back(Gone):
        data = [b"hel", b"lo\x1b[2J\r\n"]

        def read(self, timeout: float) -> bytes:
            return self.data.pop(0) if self.data else super().read(timeout)

    follow(ReturningChannel(Gone(), Back), simulated=False)
    out, error = capsys.readouterr()
    assert "hello\\x1b[2J\n" in out and "the console is gone: unplugged" in error


def test_a_console_that_does_not_come(tmp_path: Path) -> None:
    def none() -> Channel:
        raise UserError("no port")

    with pytest.raises(UserError, match="no port"):
        wait_for_console(none, seconds=0)


def test_the_progress_of_a_copy(uf2_image: Path, tmp_path: Path) -> None:
    shares: list[float] = []
    copy_uf2(uf2_image, _drives(tmp_path, "a"), shares.append)
    # 51200 bytes by 16 KB.
    assert shares == pytest.approx([0.32, 0.64, 0.96, 1.0])


def test_a_drive_that_goes_with_the_last_block_is_no_error(uf2_image, tmp_path, monkeypatch) -> None:
    mounts = _drives(tmp_path, "a")
    steps = 0

    def gone(_: int) -> None:
        nonlocal steps
        steps += 1
        if steps == 4:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr("os.fsync", gone)
    assert copy_uf2(uf2_image, mounts) == tmp_path / "a"
    steps = 3
    with pytest.raises(UserError, match=r"Input/output error after 16,384 of 51,200 bytes; plug the board in again"):
        copy_uf2(uf2_image, mounts)


def test_a_full_drive(uf2_image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mounts = _drives(tmp_path, "a")
    (tmp_path / "a" / "image.uf2").symlink_to("/dev/full")
    with pytest.raises(UserError, match="No space left on device after 0 of"):
        copy_uf2(uf2_image, mounts)


def test_without_a_drive_and_a_probe_both_ways_are_named(image, uf2_image, tmp_path, capsys) -> None:
    assert _run_uf2(image, uf2_image, tmp_path, _drives(tmp_path)) == 1
    error = capsys.readouterr().err
    assert error.startswith("flash: error: no UF2 drive and no debug probe found: hold BOOTSEL")
    assert error.count("\n") == 1


def test_no_or_several_uf2_drives(uf2_image: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="hold BOOTSEL"):
        copy_uf2(uf2_image, _drives(tmp_path))
    with pytest.raises(UserError, match="several UF2 drives"):
        copy_uf2(uf2_image, _drives(tmp_path, "a", "b"))


def test_the_drive_of_another_board(uf2_image: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"another board's: .*a \(RPI-RP2\), the image is for an RP2350"):
        copy_uf2(uf2_image, _drives(tmp_path, "a", board_id="RPI-RP2"))
    # It does not matter beside the right one.
    (tmp_path / "mounts").unlink()
    mounts = _drives(tmp_path, "b")
    mounts.write_text(f"/dev/sda {tmp_path / 'a'} vfat\n" + mounts.read_text(encoding="utf-8"), encoding="utf-8")
    assert copy_uf2(uf2_image, mounts) == tmp_path / "b"


def test_a_missing_uf2_image(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.uf2: No such file.*build it first"):
        copy_uf2(tmp_path / "none.uf2", _drives(tmp_path, "a"))
