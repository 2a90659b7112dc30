"""The gdb server of a simulated board, spoken to as gdb does (GDB manual, "Remote Serial Protocol")."""

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from tools.artifacts.board.board import read_board
from tools.artifacts.board.testing import write_board
from tools.commands.gdb.gdb import find_gdb, gdb_command, main, openocd_server
from tools.quiet.console import UserError
from tools.quiet.testing import given_file

# The start of flash.
_FLASH = {"nucleo_wb55rg": 0x08000000, "pico2_w": 0x10000000}


def _elf(board: str) -> Path:
    return given_file("IMAGES", f"{board}.image.elf")


def _definition(board: str) -> Path:
    return given_file("BOARDS", f"{board}/board.json")


class Remote:
    """A client of the protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("localhost", port), timeout=60)
        self._data = b""

    def ask(self, packet: str) -> str:
        data = packet.encode()
        self._socket.sendall(b"$" + data + b"#%02x" % (sum(data) & 0xFF))
        while not (match := re.search(rb"\$([^#]*)#..", self._data)):
            received = self._socket.recv(4096)
            assert received, "the server closed the connection"
            self._data += received
        self._data = self._data[match.end() :]
        self._socket.sendall(b"+")
        return match[1].decode("latin1")

    def close(self) -> None:
        self._socket.close()


@pytest.fixture(params=sorted(_FLASH))
def board(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def remote(board: str) -> Iterator[Remote]:
    command = [sys.executable, "-m", "tools.quiet.start", "gdb", "tools.commands.gdb", "--simulate"]
    command += ["--elf", str(_elf(board)), "--board", str(_definition(board))]
    command += ["--algorithm", os.environ["ALGORITHM"], "--server-only", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            match = re.fullmatch(rf"gdb server for {board} on port (\d+)\n", line)
            assert match, line
            remote = Remote(int(match[1]))
            yield remote
            remote.close()
        finally:
            server.kill()


def _address(elf: Path, name: str) -> int:
    with elf.open("rb") as file:
        (symbol,) = ELFFile(file).get_section_by_name(".symtab").get_symbol_by_name(name)
        return symbol["st_value"] & ~1


def test_the_image_is_debugged_over_the_probe(remote: Remote, board: str) -> None:
    elf, flash = _elf(board), _FLASH[board]
    remote.ask("qSupported:multiprocess+;swbreak+")
    assert remote.ask("?")[0] in "ST"
    with elf.open("rb") as file:
        (text,) = [segment.data() for segment in ELFFile(file).iter_segments() if segment["p_paddr"] == flash]
    assert bytes.fromhex(remote.ask(f"m{flash:x},8")) == text[:8]
    # Run from reset to main.
    assert b"halted" in bytes.fromhex(remote.ask("qRcmd," + b"reset halt".hex()))
    main_address = _address(elf, "main")
    assert remote.ask(f"Z1,{main_address:x},2") == "OK"
    assert remote.ask("c")[0] in "ST"
    registers = bytes.fromhex(remote.ask("g"))
    assert int.from_bytes(registers[4 * 15 : 4 * 16], "little") == main_address


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--gdb", "no-such-gdb"], "--gdb no-such-gdb is no program that can be started; name another, or leave it"),
        (["--gdb", "/dev/null"], "--gdb /dev/null is no program that can be started"),
        (["--server-only", "--port", "99999"], "--port 99999 is no TCP port; with pyocd: 0 to 65535"),
        (["--server-only", "--tool", "openocd", "--port", "0"], "--port 0 is no TCP port; with openocd: 1 to 65535"),
        (["--server-only", "--simulate", "--tool", "openocd"], "--tool openocd is for a real board; leave it out"),
        (["--server-only", "--simulate", "--probe", "04AB"], "--probe 04AB is for a real board; leave it out"),
    ],
)
def test_options_that_cannot_be(options: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--elf", str(_elf("pico2_w")), "--board", str(_definition("pico2_w")), *options]) == 1
    assert f"gdb: error: {says}" in capsys.readouterr().err


def test_a_port_that_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("localhost", 0)) as other:
        port = other.getsockname()[1]
        arguments = ["--elf", str(_elf("pico2_w")), "--board", str(_definition("pico2_w"))]
        assert main([*arguments, "--simulate", "--server-only", "--port", str(port)]) == 1
    assert f"gdb: error: port {port} is taken" in capsys.readouterr().err


def test_the_command_lines() -> None:
    assert gdb_command("gdb", Path("a.elf"), 5) == ["gdb", "-q", "-ex", "target extended-remote localhost:5", "a.elf"]


def test_openocd_serves_at_the_same_port(tmp_path: Path) -> None:
    command = openocd_server(read_board(write_board(tmp_path)), "04AB", 3333)
    assert command == ["openocd", "-f", "board/tiny.cfg", "-c", "adapter serial 04AB", "-c", "gdb_port 3333"]


def test_openocd_that_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    stand_in = tmp_path / "openocd"
    stand_in.write_text('#!/bin/sh\necho "Error: no device found" >&2\nexit 1\n', encoding="utf-8")
    stand_in.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    board = write_board(tmp_path)
    assert main(["--elf", str(_elf("pico2_w")), "--board", str(board), "--tool", "openocd", "--server-only"]) == 1
    assert "openocd ended: Error: no device found" in capsys.readouterr().err


def test_gdb_on_openocds_server(tmp_path, monkeypatch, capfd) -> None:
    for name, text in (("openocd", "exec sleep 100"), ("gdb-multiarch", 'printf "%s\\n" "$@"')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    elf = _elf("pico2_w")
    arguments = ["--elf", str(elf), "--board", str(write_board(tmp_path)), "--tool", "openocd"]
    assert main([*arguments, "--gdb", str(tmp_path / "gdb-multiarch")]) == 0
    assert f"target extended-remote localhost:3333\n{elf}\n" in capfd.readouterr().out


def test_without_a_gdb_for_arm(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="install gdb-multiarch"):
        find_gdb(None)
    assert main(["--elf", str(_elf("pico2_w")), "--board", str(_definition("pico2_w"))]) == 1
    assert capsys.readouterr().err.startswith("gdb: error: no gdb for Arm is on the PATH")
    # A gdb without support for Arm is not enough.
    (tmp_path / "gdb").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (tmp_path / "gdb").chmod(0o755)
    with pytest.raises(UserError, match="install gdb-multiarch"):
        find_gdb(None)
    (tmp_path / "gdb-multiarch").touch(mode=0o755)
    assert find_gdb(None) == str(tmp_path / "gdb-multiarch")
