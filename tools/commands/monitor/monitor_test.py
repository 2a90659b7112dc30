import contextlib
import os
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from tools.commands.console.channel import ChannelClosed
from tools.commands.monitor import monitor as monitor_module
from tools.commands.monitor.decode import FaultDecoder
from tools.commands.monitor.monitor import LinePrinter, main, monitor
from tools.quiet.console import UserError
from tools.quiet.testing import given_file

_ELF, _BOARD = given_file("IMAGE", ".elf"), given_file("IMAGE", "board.json")
_ADDR2LINE = given_file("TOOLCHAIN", "/tools/addr2line")
_NOON = datetime(2026, 1, 2, 12, 0, 0, 345678)


class Console:
    """A board's output in pieces; None is a pause, an exception is raised by reading."""

    name = "a board"

    def __init__(self, *pieces: bytes | Exception | None) -> None:
        self.pieces: Iterator[bytes | Exception | None] = iter(pieces)
        self.closed = False

    def read(self, timeout: float) -> bytes:
        piece = next(self.pieces, KeyboardInterrupt())
        if isinstance(piece, BaseException):
            raise piece
        return piece or b""

    def write(self, data: bytes) -> None:
        pass

    def close(self) -> None:
        self.closed = True


def _shown(*consoles: Console | Exception, reconnect: bool = True) -> str:
    text: list[str] = []
    printer = LinePrinter(None, text.append, lambda: _NOON)
    waiting = iter(consoles)

    def open_it() -> Console:
        console = next(waiting)
        if isinstance(console, Exception):
            raise console
        return console

    with contextlib.suppress(KeyboardInterrupt):
        monitor(open_it, printer, lambda line: text.append(f"{line}\n"), reconnect=reconnect, seconds=float("inf"))
    return "".join(text)


def test_lines_have_the_time_they_came() -> None:
    assert _shown(Console(b"one\r\ntw", b"o\n")) == "-- a board\n12:00:00.345  one\n12:00:00.345  two\n"


def test_a_prompt_is_shown_although_it_is_no_line() -> None:
    shown = _shown(Console(b"> ", None, None, b"answer\n"))
    assert shown == "-- a board\n12:00:00.345  > answer\n"


def test_bytes_that_are_no_text_do_no_harm() -> None:
    assert "\ufffd" in _shown(Console(b"\xff\xfe\n"))


def test_a_board_does_not_control_the_terminal() -> None:
    assert _shown(Console(b"\x1b[2J\tred\x1b[31", b"m\n")).endswith("  \\x1b[2J\tred\\x1b[31m\n")


def test_a_board_that_is_unplugged_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor_module, "_RETRY", 0)
    gone = Console(b"half a li", ChannelClosed("unplugged"))
    shown = _shown(gone, UserError("no port"), UserError("no port"), Console(b"again\n"))
    assert shown.splitlines() == [
        "-- a board",
        "12:00:00.345  half a li",
        "-- the console is gone (unplugged); waiting for it",
        "-- a board",
        "12:00:00.345  again",
    ]
    assert gone.closed


def test_an_emulated_image_that_ends_is_not_waited_for() -> None:
    with pytest.raises(UserError, match="the console is gone: ended"):
        _shown(Console(ChannelClosed("ended")), reconnect=False)


def test_a_fault_is_decoded_to_its_source_line(capsys: pytest.CaptureFixture[str]) -> None:
    run = ["--elf", str(_ELF), "--board", str(_BOARD), "--qemu", os.environ["QEMU"], "--on", "qemu"]
    assert main([*run, "--addr2line", str(_ADDR2LINE)]) == 1
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    fault = next(i for i, line in enumerate(lines) if "FAULT: " in line)
    assert any("undefined instruction" in line for line in lines[fault:])
    assert any("^ in main at firmware/tests/undefined.cpp:" in line for line in lines[fault:])
    assert any("^ called from " in line and "firmware/cortex_m/startup.c:" in line for line in lines[fault:])
    assert "the console is gone: the program ended with status 3" in captured.err


def test_an_address_that_is_no_function(tmp_path: Path) -> None:
    decoder = FaultDecoder(_ELF, _ADDR2LINE)
    assert "0x1ffffff0, which is no function of" in decoder.places(0x1FFFFFF0)[0]
    with pytest.raises(UserError, match="must be GNU addr2line"):
        FaultDecoder(_ELF, tmp_path / "none").places(0)


def test_registers_outside_of_a_fault_are_left_alone() -> None:
    assert FaultDecoder(_ELF, _ADDR2LINE).explain("  pc 0x00000100 lr 0x00000200") == []
