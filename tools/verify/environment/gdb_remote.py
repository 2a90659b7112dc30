"""A client of GDB's remote serial protocol, as far as an emulator needs it: breakpoints, registers and memory.

GDB's manual, appendix E "GDB Remote Serial Protocol": packets `$DATA#SUM`, each acknowledged with `+`.
"""

from __future__ import annotations

import contextlib
import socket
import time
from pathlib import Path

# Bytes of memory in a packet: QEMU's have at most 4096 characters, two for a byte.
_CHUNK = 1536


class GdbError(Exception):
    """The other side refused a command, or sent something else."""


class GdbRemote:
    """A connection to an emulator that waits for a debugger.

    Args:
      path: its Unix socket, which may come to be a little later.
      timeout: seconds to wait for that.

    Attributes:
      stopped_by_watch: whether the core stopped before an access that is watched.

    Raises:
      GdbError: nobody listens there.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        end = time.monotonic() + timeout
        while True:
            try:
                self._socket.connect(str(path))
                break
            except OSError as error:
                if time.monotonic() > end:
                    self._socket.close()
                    raise GdbError(f"no emulator listens at {path}: {error.strerror}") from error
                time.sleep(0.01)
        self._received = b""
        self.stopped_by_watch = False
        # Sent along with the next packet.
        self._acknowledge = b""
        # Single registers of a core can only be read after its description.
        self._ask("qSupported:xmlRegisters=arm")
        self._ask("qXfer:features:read:target.xml:0,ffb")

    def __enter__(self) -> GdbRemote:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends the emulator, which would otherwise stay stopped, and the connection."""
        with contextlib.suppress(OSError):
            self._send("k")
        self._socket.close()

    def _send(self, text: str) -> None:
        data = text.encode()
        self._socket.sendall(b"%s$%s#%02x" % (self._acknowledge, data, sum(data) & 0xFF))
        self._acknowledge = b""

    def _receive(self) -> str:
        """Returns the next packet; empty if the other side has gone."""
        while True:
            start = self._received.find(b"$")
            end = self._received.find(b"#", start)
            if start >= 0 and 0 <= end <= len(self._received) - 3:
                packet = self._received[start + 1 : end]
                self._received = self._received[end + 3 :]
                self._acknowledge = b"+"
                return packet.decode("latin-1")
            try:
                data = self._socket.recv(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return ""
            self._received += data

    def _ask(self, text: str) -> str:
        self._send(text)
        return self._receive()

    def _expect(self, answer: str, text: str) -> None:
        got = self._ask(text)
        if got != answer:
            raise GdbError(f"the emulator answered {got!r} to {text.split(',')[0]!r}")

    def _bytes(self, text: str) -> bytes:
        got = self._ask(text)
        try:
            return bytes.fromhex(got)
        except ValueError as error:
            raise GdbError(f"the emulator answered {got!r} to {text!r}") from error

    def add_breakpoint(self, address: int) -> None:
        """Stops before the Thumb instruction at an address."""
        self._expect("OK", f"Z0,{address:x},2")

    def watch(self, address: int, watched: bool) -> None:
        """Stops before reads of a word, or no longer."""
        self._expect("OK", f"{'Z' if watched else 'z'}3,{address:x},4")

    def resume(self) -> bool:
        """Goes on until a breakpoint or watched access. Returns False if the program ended instead."""
        return self._go("c")

    def step(self) -> bool:
        """Executes an instruction, unless it makes a watched access. Returns False if the program ended instead."""
        return self._go("s")

    def _go(self, how: str) -> bool:
        self._send(how)
        while True:
            packet = self._receive()
            if packet[:1] in ("T", "S"):
                self.stopped_by_watch = "watch:" in packet
                return True
            # Anything else but the program's output is its end.
            if not packet.startswith("O"):
                return False

    def register(self, index: int) -> int:
        """Returns a register: r0 to r12, sp, lr, pc."""
        return int.from_bytes(self._bytes(f"p{index:x}"), "little")

    def set_register(self, index: int, value: int) -> None:
        self._expect("OK", f"P{index:x}={value.to_bytes(4, 'little').hex()}")

    def read(self, address: int, length: int) -> bytes:
        """Reads bytes of memory; raises GdbError for invalid addresses."""
        parts = []
        for start in range(address, address + length, _CHUNK):
            size = min(_CHUNK, address + length - start)
            part = self._bytes(f"m{start:x},{size:x}")
            if len(part) != size:
                raise GdbError(f"there is no memory at 0x{start:x}")
            parts.append(part)
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Writes bytes to memory; raises GdbError for invalid addresses."""
        for start in range(0, len(data), _CHUNK):
            part = data[start : start + _CHUNK]
            self._expect("OK", f"M{address + start:x},{len(part):x}:{part.hex()}")
