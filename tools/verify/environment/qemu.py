"""QEMU as an environment: an image runs on the emulated machine of its board."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.quiet.console import UserError
from tools.verify.environment.hosted import Result, run_hosted

# With -icount shift=6 every instruction advances the emulated clock by 2**6 ns.
_ICOUNT_SHIFT = 6
_NANOSECONDS_PER_INSTRUCTION = 1 << _ICOUNT_SHIFT


def command_line(elf: Path, board: Board, qemu: Path, options: Sequence[str]) -> list[str]:
    """Returns the command line that runs an image on its board's machine.

    Args:
        elf: the image.
        board: the board it was linked for.
        qemu: qemu-system-arm.
        options: words of the image's own command line (firmware/host.h); the first is its name.

    Raises:
        UserError: the board has no emulator.
    """
    if board.emulator is None:
        raise UserError(f"board {board.name} has no emulator; use one whose definition sets emulator_machine")
    semihosting = ",".join(["enable=on", "target=native", *(f"arg={option}" for option in options)])
    return [
        str(qemu.absolute()),
        *board.emulator.options(ElfImage(elf).entry),
        *("-display", "none", "-monitor", "none", "-serial", "stdio"),
        *("-icount", f"shift={_ICOUNT_SHIFT}"),
        *("-semihosting-config", semihosting),
        *("-kernel", str(elf.absolute())),
    ]


@dataclass(frozen=True)
class Qemu:
    """The emulated machine of a board.

    Attributes:
        board: the board that images were linked for.
        qemu: qemu-system-arm.
    """

    board: Board
    qemu: Path

    def run(self, image: Path, inputs: bytes | None = None, timeout: float = 120, model: str = "") -> Result:
        """Runs an image, see Hosted.run()."""
        return run_hosted(
            self, image, lambda options: command_line(image, self.board, self.qemu, options), inputs, timeout, model
        )

    def instructions(self, ticks: int) -> int | None:
        """Instructions in a number of the board's ticks, rounded to the nearest."""
        assert self.board.emulator is not None
        return round(ticks * 1_000_000_000 / self.board.emulator.clock_hz / _NANOSECONDS_PER_INSTRUCTION)
