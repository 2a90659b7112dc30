import argparse
import os
import pty
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools.artifacts.board.board import Board, read_board
from tools.artifacts.board.testing import write_board
from tools.commands.console.channel import ChannelClosed, SerialChannel
from tools.commands.console.options import add_arguments, open_channel
from tools.commands.console.ports import find_port
from tools.quiet.console import UserError


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return read_board(write_board(tmp_path))


def _port(device: str, vid: int | None = 0x0483, serial_number: str | None = "0123") -> SimpleNamespace:
    return SimpleNamespace(device=device, vid=vid, serial_number=serial_number, description="a port")


def test_the_port_of_the_only_probe_is_found(board: Board) -> None:
    ports = [_port("/dev/ttyS0", None, None), _port("/dev/ttyACM1"), _port("/dev/ttyUSB0", 0x1234, "9")]
    assert find_port(board, ports=ports) == Path("/dev/ttyACM1")


def test_one_of_several_ports_is_chosen_by_its_serial_number(board: Board) -> None:
    ports = [_port("/dev/ttyACM0"), _port("/dev/ttyACM1", serial_number="04AB")]
    assert find_port(board, "04ab", ports) == Path("/dev/ttyACM1")
    with pytest.raises(UserError, match=r"several serial ports: /dev/ttyACM0 .*0123.*--port or --probe"):
        find_port(board, ports=ports)


def test_without_a_port_it_says_what_there_is(board: Board) -> None:
    with pytest.raises(UserError, match=r"ports: /dev/ttyS0\): connect tiny's USB cable, .*; --simulate needs no"):
        find_port(board, ports=[_port("/dev/ttyS0", None)])
    with pytest.raises(UserError, match=r"with serial number 99 found \(ports: none\)"):
        find_port(board, "99", ports=[])


@pytest.fixture
def line() -> Iterator[tuple[int, Path]]:
    """Yields a serial line: descriptor of its far end, and the port."""
    master, slave = pty.openpty()
    yield master, Path(os.ttyname(slave))
    for descriptor in (master, slave):
        os.close(descriptor)


def test_bytes_pass_as_they_are(line: tuple[int, Path]) -> None:
    far_end, port = line
    channel = SerialChannel(port, 115200)
    every = bytes(range(256))
    os.write(far_end, every)
    received = b""
    while len(received) < 256:
        received += channel.read(5)
    assert received == every
    assert channel.read(0.01) == b""
    channel.write(every)
    sent = b""
    while len(sent) < 256:
        sent += os.read(far_end, 256)
    assert sent == every
    channel.close()


def _options(*options: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["--elf", "a.elf", "--board", "board.json", *options])


def test_simulate_is_the_simulator(capsys: pytest.CaptureFixture[str]) -> None:
    assert _options("--simulate").on == _options("--on", "simulator").on == "simulator"
    with pytest.raises(SystemExit):
        _options("--simulate", "--on", "port")
    assert "argument --on: not allowed with argument --simulate" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (
            ["--simulate", "--port", "/dev/ttyACM0"],
            "--port /dev/ttyACM0 is for a real board; leave it out, or --on sim",
        ),
        (["--on", "qemu", "--probe", "04AB"], "--probe 04AB is for a real board; leave it out, or --on qemu"),
        (["--on", "qemu"], "board tiny has no emulator; use --on simulator or --on port"),
    ],
)
def test_options_that_contradict_each_other(board: Board, options: list[str], says: str) -> None:
    with pytest.raises(UserError, match=says):
        open_channel(_options(*options), board)


def test_a_port_that_is_unplugged(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = pty.openpty()
    channel = SerialChannel(Path(os.ttyname(slave)), 115200)
    os.close(slave)
    os.close(master)
    with pytest.raises(ChannelClosed):
        channel.read(1)
    with pytest.raises(ChannelClosed):
        channel.write(b"x")


def test_a_port_that_cannot_be_opened(tmp_path: Path, line: tuple[int, Path]) -> None:
    with pytest.raises(UserError, match=r"none: No such port; connect the board"):
        SerialChannel(tmp_path / "none", 115200)
    (tmp_path / "file").touch()
    with pytest.raises(UserError, match="is no serial port .*; leave --port out to take the board's, or name another"):
        SerialChannel(tmp_path / "file", 115200)
    channel = SerialChannel(line[1], 115200)
    with pytest.raises(UserError, match="is in use: close the other program"):
        SerialChannel(line[1], 115200)
    channel.close()
