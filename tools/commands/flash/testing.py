"""Simulated boards for tests of the whole flash command, from the files in BOARDS, IMAGES and ALGORITHM."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from intelhex import IntelHex

from boardsim.boards import simulated
from boardsim.machine import Machine
from tools.artifacts.board.board import read_board
from tools.artifacts.intel_hex.reader import read_intel_hex
from tools.commands.flash import simulated_probe
from tools.commands.flash.flash import main
from tools.quiet.testing import given_file


@contextmanager
def simulated_probes_alone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Hides the machine's own probes, which are none of a test's business."""
    from pyocd.core.helpers import ConnectHelper

    find = simulated_probe.SimulatedProbe.get_all_connected_probes
    monkeypatch.setattr(ConnectHelper, "get_all_connected_probes", lambda **_: find())
    yield
    simulated_probe.disconnect_all()


@dataclass(frozen=True)
class BoardUnderTest:
    """A board, and how its flash is programmed.

    Attributes:
        name: of the board.
        flash: where its flash begins.
        sector: bytes that are erased at once.
        page: bytes that are programmed at once.
        last_sector: number of the last one.
        options: of the command, for this board.
    """

    name: str
    flash: int
    sector: int
    page: int
    last_sector: int
    options: tuple[str, ...] = ()

    @property
    def definition(self) -> Path:
        """Returns board.json."""
        return given_file("BOARDS", f"{self.name}/board.json")

    @property
    def image(self) -> Path:
        """Returns an image that prints PASS, as Intel HEX."""
        return given_file("IMAGES", f"{self.name}.image.hex")

    @property
    def uf2(self) -> Path:
        """Returns the same as UF2."""
        return given_file("IMAGES", f"{self.name}.image.uf2")

    def machine(self) -> Machine:
        """Returns a board as it comes from the factory."""
        return simulated(read_board(self.definition))

    def run(self, *more: str, image: Path | None = None) -> int:
        """Runs the command; returns its exit status."""
        return main(["--hex", str(image or self.image), "--board", str(self.definition), *self.options, *more])

    def holds(self, machine: Machine, image: Path | None = None) -> bool:
        """Returns whether flash holds an image."""
        chunks = read_intel_hex(image or self.image)
        return all(machine.debugger.read(address, len(data)) == data for address, data in chunks)

    def put(self, machine: Machine, image: Path) -> None:
        """Writes an image into flash, as if it had been there before."""
        for address, data in read_intel_hex(image):
            machine.debugger.write(address, data)

    def small(self, folder: Path, seed: int, sectors: int = 3, used: int | None = None) -> Path:
        """Makes an image of arbitrary bytes, of some sectors and a part; it has no image block, so an RP2350 does not
        start it.

        Args:
            seed: distinguishes images; the second sector is the same in all of them.
            used: bytes at the start of each sector that are not blank; all if not given.
        """
        size = self.sector
        data = bytearray((i * 7 + i // 256 * seed + seed) & 0xFF for i in range(sectors * size + 24))
        if sectors > 1:
            data[size : 2 * size] = bytes(i % 251 for i in range(size))
        # Stack pointer, reset vector, and an endless loop at its address: b .
        data[:8] = (0x20030000).to_bytes(4, "little") + (self.flash + 0x11).to_bytes(4, "little")
        data[0x10:0x12] = b"\xfe\xe7"
        for start in range(0, len(data), size):
            if used is not None:
                end = min(start + size, len(data))
                data[start + used : end] = b"\xff" * max(0, end - start - used)
        image = IntelHex()
        image.frombytes(bytes(data), offset=self.flash)
        path = folder / f"small{seed}.hex"
        image.write_hex_file(str(path))
        return path


def nucleo() -> BoardUnderTest:
    """Describes the NUCLEO-WB55RG, on this project's flash algorithm."""
    return BoardUnderTest(
        "nucleo_wb55rg", 0x08000000, 4096, 4096, 127, ("--algorithm", str(given_file("ALGORITHM", ".elf")))
    )


def pico() -> BoardUnderTest:
    """Returns a Pico 2 W, with pyOCD's built-in target, whose algorithm calls the boot ROM."""
    return BoardUnderTest("pico2_w", 0x10000000, 4096, 256, 1023, ("--tool", "pyocd"))


def first_pico() -> BoardUnderTest:
    """Describes the Pico, on pyOCD's built-in target; its debug port shares the wire with others."""
    return BoardUnderTest("pico", 0x10000000, 4096, 256, 511, ("--tool", "pyocd"))


def nordic() -> BoardUnderTest:
    """Describes the nRF52840 DK, on pyOCD's built-in target and algorithm."""
    return BoardUnderTest("nrf52840_dk", 0x00000000, 4096, 4096, 255, ("--tool", "pyocd"))


def nucleo_144() -> BoardUnderTest:
    """Describes the NUCLEO-H743ZI, on pyOCD's built-in target and algorithm."""
    return BoardUnderTest("nucleo_h743zi", 0x08000000, 0x20000, 1024, 15, ("--tool", "pyocd"))


def discovery() -> BoardUnderTest:
    """Describes the B-L475E-IOT01A, on pyOCD's built-in target and algorithm."""
    return BoardUnderTest("b_l475e_iot01a", 0x08000000, 2048, 2048, 511)
