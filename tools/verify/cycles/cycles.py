"""QEMU as an environment that estimates cycles: of the blocks that it executed, by the tables of timing.py."""

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tools.artifacts.board.board import Board
from tools.quiet.console import UserError
from tools.verify.cycles.disassembly import Instruction, disassemble
from tools.verify.cycles.executed import LOGGED, Executed, read_log
from tools.verify.cycles.timing import Timing, timing_of
from tools.verify.environment.hosted import Result, run_hosted
from tools.verify.environment.qemu import Qemu, command_line

#: What the numbers hold for, for people.
MEANING = "estimated for memory without wait states, no caches and no interrupts"

# A stretch is the time between two reads less that between the second and a third one; none of them is exact to more
# than a tick.
_READS = 3
_TICKS = 2


@dataclass(frozen=True)
class _Part:
    instructions: int
    cycles: int


def _sum(executed: Executed, image: dict[int, Instruction], timing: Timing) -> list[_Part]:
    """Returns instructions and cycles of each executed part."""
    parts = []
    for part in executed.parts:
        instructions = cycles = 0
        for (name, next_name), count in part.items():
            addresses, target = executed.blocks[name], executed.blocks[next_name][:1]
            if count and addresses:
                block = [image.get(address) or Instruction(address, 2, "nop") for address in addresses]
                taken = target != () and target[0] != block[-1].end
                instructions += count * len(block)
                cycles += count * timing.cycles(block, taken, image.get(target[0]) if taken else None)
        parts.append(_Part(instructions, cycles))
    return parts


@dataclass(frozen=True)
class QemuWithCycles(Qemu):
    """The emulated machine of a board whose core has a Timing.

    Attributes:
        objdump: the Arm GNU toolchain's objdump.
        timing: the core's timing.
    """

    objdump: Path
    timing: Timing
    _parts: list[_Part] = field(default_factory=list, compare=False, repr=False)

    def run(self, image: Path, inputs: bytes | None = None, timeout: float = 120, model: str = "") -> Result:
        """Runs an image, see Hosted.run()."""
        with tempfile.TemporaryDirectory(prefix="executed-") as folder, ThreadPoolExecutor(1) as threads:
            log = Path(folder) / "log"
            os.mkfifo(log)
            # Kept open for writing until QEMU has ended, so that the reader waits for QEMU's output.
            writer = os.open(log, os.O_RDWR)
            with log.open("rb") as lines:
                executed = threads.submit(read_log, lines)

                def command(options: Sequence[str]) -> list[str]:
                    return [*command_line(image, self.board, self.qemu, options), "-d", LOGGED, "-D", str(log)]

                try:
                    result = run_hosted(self, image, command, inputs, timeout, model)
                finally:
                    os.close(writer)
                self._parts[:] = _sum(executed.result(), disassemble(image, self.objdump), self.timing)
        return result

    def estimate(self, counts: Sequence[int]) -> list[int]:
        """Estimates the cycles of the last measurements of the last image.

        Args:
            counts: the instructions of each measured stretch, in order.

        Raises:
            UserError: QEMU's log has other instructions.
        """
        # Applications read the time again behind the last stretch, some once, some as of one stretch more.
        for end in range(len(self._parts), _READS * len(counts), -1):
            starts = range(end - _READS * len(counts), end, _READS)
            stretches = [(self._parts[start], self._parts[start + 1]) for start in starts]
            if all(
                abs(run.instructions - reading.instructions - count) <= self._tolerance
                for count, (run, reading) in zip(counts, stretches, strict=True)
            ):
                return [run.cycles - reading.cycles for run, reading in stretches]
        raise UserError(
            f"the log of {self.qemu} does not have the {', '.join(f'{count:,}' for count in counts)} instructions that "
            "the image counted, so its cycles are unknown; use QEMU 7.2, or the one that the build fetches"
        )

    @property
    def _tolerance(self) -> int:
        return 1 + (self.instructions(_TICKS) or 0)


def qemu_with_cycles(board: Board, qemu: Path, objdump: Path | None) -> Qemu:
    """Returns the emulated machine of a board: a QemuWithCycles, if objdump is given and the cycles of its core are
    known.
    """
    timing = timing_of(board.core)
    return QemuWithCycles(board, qemu, objdump, timing) if objdump and timing else Qemu(board, qemu)
