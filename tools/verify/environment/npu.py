"""Runs QEMU with a modelled NPU: the same image as on a board, whose driver finds an Ethos-U behind its registers.

QEMU's machines have no such device. So QEMU stops at the two functions of firmware/ethos_u/driver.h that access a
register, and //npu answers in its place, working on the emulated core's memory.
"""

import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from npu.device import Device
from npu.engine import Operation
from npu.fault import NpuFault
from npu.memory import Bytes
from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.verify.environment.gdb_remote import GdbError, GdbRemote
from tools.verify.environment.hosted import EmulationError, Result, run_hosted
from tools.verify.environment.qemu import Qemu, command_line

_WRITE, _READ = "ethos_u_write", "ethos_u_read"
_LR, _PC = 14, 15
_CONNECT_SECONDS = 30
# The register that board_ticks() of the machine mps3-an547 reads, and the index of the read that begins an execution:
# loading has three, one at its start and the two of board_ticks_since().
_COUNTER = 0x58100008
_BEGIN = 4
# A core that computes beside the NPU is not counted: stepping takes its time.
_MOST_INSTRUCTIONS = 100_000
# The instructions of either function that accesses a register: the access and the return.
_INSTRUCTIONS_OF_ACCESS = 2


class _CoreMemory:
    """The emulated core's memory as the NPU sees it."""

    def __init__(self, gdb: GdbRemote, image: ElfImage, board: Board) -> None:
        self._gdb = gdb
        # Constant memory is not requested from QEMU.
        self._constant = [(start, data) for start, data in image.segments if board.flash.contains(start)]

    def read(self, address: int, length: int) -> Bytes:
        for start, data in self._constant:
            if start <= address and address + length <= start + len(data):
                return np.frombuffer(data, np.uint8, length, address - start)
        try:
            return np.frombuffer(self._gdb.read(address, length), np.uint8)
        except GdbError as error:
            raise NpuFault(f"bus error: the NPU reads {length} bytes at 0x{address:x}: {error}") from error

    def write(self, address: int, data: Bytes) -> None:
        for start, constant in self._constant:
            if start < address + len(data) and address < start + len(constant):
                raise NpuFault(f"bus error: the NPU writes {len(data)} bytes at 0x{address:x}, into the image")
        try:
            self._gdb.write(address, data.tobytes())
        except GdbError as error:
            raise NpuFault(f"bus error: the NPU writes {len(data)} bytes at 0x{address:x}: {error}") from error


class _Attached(threading.Thread):
    """Answers for the NPU until the emulator ends.

    Attributes:
      device: the NPU, once the emulator is connected.
      instructions: of the core's first execution, if they are counted and few.
      runs: the NPU's operations each time that it was started.
      error: the error that ended it early; the emulator was ended then, because it would wait forever.
    """

    def __init__(self, path: Path, image: ElfImage, board: Board, accelerator: str, counts: bool) -> None:
        super().__init__(daemon=True)
        self._counts = counts
        self._places: dict[int, str] = {}
        self.instructions: int | None = None
        self.runs: list[list[Operation]] = []
        self._path = path
        self._image = image
        self._board = board
        self._accelerator = accelerator
        self.device: Device | None = None
        self.error: Exception | None = None

    def run(self) -> None:
        try:
            with GdbRemote(self._path, _CONNECT_SECONDS) as gdb:
                self._serve(gdb)
        except Exception as error:  # Whatever it is, it belongs to the thread that waits for the emulator.
            self.error = error

    def _serve(self, gdb: GdbRemote) -> None:
        self.device = Device(self._accelerator, _CoreMemory(gdb, self._image, self._board))
        for name in (_WRITE, _READ):
            address = self._image.address(name)
            # An image without delegates has no driver.
            if address is not None:
                self._places[address & ~1] = name
                gdb.add_breakpoint(address & ~1)
        if self._counts and not self._count(gdb, self.device):
            return
        while gdb.resume():
            self._answer(gdb, self.device)

    def _answer(self, gdb: GdbRemote, device: Device) -> bool:
        """Performs the function that the core is about to enter. Returns False if it is none of the driver's."""
        function = self._places.get(gdb.register(_PC))
        if function is None:
            return False
        offset = gdb.register(1)
        if function == _WRITE:
            done = len(device.operations)
            device.write(offset, gdb.register(2))
            if len(device.operations) > done:
                self.runs.append(device.operations[done:])
        else:
            gdb.set_register(0, device.read(offset))
        gdb.set_register(_PC, gdb.register(_LR) & ~1)
        return True

    def _count(self, gdb: GdbRemote, device: Device) -> bool:
        """Counts the instructions between the two reads of the time around an execution.

        The emulator's own count is not to be trusted where it stops. Returns False if the program ended.
        """
        gdb.watch(_COUNTER, True)
        reads = 0
        while reads < _BEGIN:
            if not gdb.resume():
                return False
            if gdb.stopped_by_watch:
                reads += 1
                gdb.watch(_COUNTER, False)
                if not gdb.step():
                    return False
                gdb.watch(_COUNTER, True)
            else:
                self._answer(gdb, device)
        instructions = accesses = 0
        while instructions < _MOST_INSTRUCTIONS:
            if self._answer(gdb, device):
                instructions += _INSTRUCTIONS_OF_ACCESS
                accesses += 1
                continue
            if not gdb.step():
                return False
            if gdb.stopped_by_watch:
                # Otherwise something else was counted, such as the copy of an input.
                assert accesses or not self._places, "an execution without an access to the NPU's registers"
                self.instructions = instructions
                break
            instructions += 1
        gdb.watch(_COUNTER, False)
        return True


@contextmanager
def attached_npu(image: Path, board: Board, counts: bool = False) -> Iterator[tuple[_Attached, list[str]]]:
    """Yields a model of a board's NPU, and the options by which QEMU, started with them, runs an image with it.

    Args:
        counts: see QemuWithNpu.
    """
    assert board.npu is not None
    with tempfile.TemporaryDirectory(prefix="npu-") as folder:
        path = Path(folder) / "gdb"
        attached = _Attached(path, ElfImage(image), board, board.npu, counts)
        attached.start()
        yield attached, ["-S", "-chardev", f"socket,id=npu,path={path},server=on,wait=off", "-gdb", "chardev:npu"]


@dataclass(frozen=True)
class QemuWithNpu(Qemu):
    """The emulated machine of a board that has an Ethos-U.

    Attributes:
        counts: whether to count the core's instructions of the first execution, step by step; more than a hundred
          thousand are not counted.
        runs: the NPU's operations each time that it was started in the last run().
    """

    counts: bool = False
    runs: list[list[Operation]] = field(default_factory=list, compare=False)

    def run(self, image: Path, inputs: bytes | None = None, timeout: float = 120, model: str = "") -> Result:
        """Runs an image, see Hosted.run(); the NPU's errors are part of the error."""
        with attached_npu(image, self.board, self.counts) as (attached, debugger):

            def command(options: Sequence[str]) -> list[str]:
                return [*command_line(image, self.board, self.qemu, options), *debugger]

            try:
                result = run_hosted(self, image, command, inputs, timeout, model)
                self.runs[:] = attached.runs
                return replace(result, execute=attached.instructions)
            except EmulationError as error:
                attached.join(_CONNECT_SECONDS)
                if attached.error is not None and not isinstance(attached.error, GdbError):
                    raise attached.error from error
                faults = attached.device.faults if attached.device else []
                reasons = "; ".join([*faults, *([str(attached.error)] if attached.error else [])])
                if not reasons:
                    raise
                raise EmulationError(error.name, f"{error.reason}; the NPU: {reasons}", error.console) from error

    def instructions(self, ticks: int) -> None:
        """Returns None, because time continues in QEMU while the model answers."""
