"""QEMU as an environment that estimates cycles: of the blocks that it executed, by the tables of timing.py."""

import os
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
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


# Instructions that were executed one after the other, by their addresses; the address of what was executed next, None
# if it is not known; and how often that was.
Block = tuple[Sequence[int], int | None, int]


@dataclass(frozen=True)
class Part:
    """Instructions and estimated cycles between two reads of the time."""

    instructions: int
    cycles: int


def sum_blocks(blocks: Iterable[Block], image: Mapping[int, Instruction], timing: Timing) -> Part:
    """Returns instructions and cycles of executed blocks, by the instructions of an image."""
    instructions = cycles = 0
    for addresses, following, count in blocks:
        if count and addresses:
            block = [image.get(address) or Instruction(address, 2, "nop") for address in addresses]
            taken = following is not None and following != block[-1].end
            instructions += count * len(block)
            cycles += count * timing.cycles(block, taken, image.get(following) if taken and following else None)
    return Part(instructions, cycles)


def _blocks(executed: Executed, part: Counter[tuple[bytes, bytes]]) -> Iterator[Block]:
    for (name, following), count in part.items():
        yield executed.blocks[name], next(iter(executed.blocks[following]), None), count


def estimate_stretches(parts: Sequence[Part], counts: Sequence[int], tolerance: int) -> list[int] | None:
    """Estimates the cycles of the last measured stretches that were executed.

    Args:
        parts: what was executed between reads of the time.
        counts: the instructions of each stretch as the image measured it, in order.
        tolerance: instructions that a count may differ by.

    Returns:
        The cycles of each stretch; None if the last parts are not those stretches.
    """
    # Applications read the time again behind the last stretch, some once, some as of one stretch more.
    for end in range(len(parts), _READS * len(counts), -1):
        starts = range(end - _READS * len(counts), end, _READS)
        stretches = [(parts[start], parts[start + 1]) for start in starts]
        if all(
            abs(run.instructions - reading.instructions - count) <= tolerance
            for count, (run, reading) in zip(counts, stretches, strict=True)
        ):
            return [run.cycles - reading.cycles for run, reading in stretches]
    return None


@dataclass(frozen=True)
class QemuWithCycles(Qemu):
    """The emulated machine of a board whose core has a Timing.

    Attributes:
        objdump: the Arm GNU toolchain's objdump.
        timing: the core's timing.
    """

    objdump: Path
    timing: Timing
    _parts: list[Part] = field(default_factory=list, compare=False, repr=False)

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
                content, log_content = disassemble(image, self.objdump), executed.result()
                self._parts[:] = [
                    sum_blocks(_blocks(log_content, part), content, self.timing) for part in log_content.parts
                ]
        return result

    def estimate(self, counts: Sequence[int]) -> list[int]:
        """Estimates the cycles of the last measurements of the last image.

        Args:
            counts: the instructions of each measured stretch, in order.

        Raises:
            UserError: QEMU's log has other instructions.
        """
        estimate = estimate_stretches(self._parts, counts, 1 + (self.instructions(_TICKS) or 0))
        if estimate is not None:
            return estimate
        raise UserError(
            f"the log of {self.qemu} does not have the {', '.join(f'{count:,}' for count in counts)} instructions that "
            "the image counted, so its cycles are unknown; use QEMU 7.2, or the one that the build fetches"
        )


def qemu_with_cycles(board: Board, qemu: Path, objdump: Path | None) -> Qemu:
    """Returns the emulated machine of a board: a QemuWithCycles, if objdump is given and the cycles of its core are
    known.
    """
    timing = timing_of(board.core)
    return QemuWithCycles(board, qemu, objdump, timing) if objdump and timing else Qemu(board, qemu)
