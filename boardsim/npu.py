"""Models an Ethos-U of a chip: //npu behind its registers, on the memories that it reaches."""

from collections.abc import Callable, Sequence

import numpy as np

from boardsim.memory import Memory
from boardsim.peripheral import Host, Peripheral
from npu.device import Device
from npu.fault import NpuFault
from npu.memory import Bytes

_STATUS = 0x04
# STATUS: the interrupt is raised.
_RAISED = 1 << 1


class _Reached:
    """The memory that an NPU reads and writes."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        self._memories = memories

    def _find(self, address: int, length: int, does: str) -> tuple[Memory, int]:
        for memory in self._memories:
            offset = memory.offset(address)
            if offset is not None and offset + length <= memory.size and (memory.writable or does == "reads"):
                return memory, offset
        raise NpuFault(f"bus error: the NPU {does} {length} bytes at 0x{address:x}, where it has no such memory")

    def read(self, address: int, length: int) -> Bytes:
        memory, offset = self._find(address, length, "reads")
        return np.frombuffer(memory.data, np.uint8, length, offset).copy()

    def write(self, address: int, data: Bytes) -> None:
        memory, offset = self._find(address, len(data), "writes")
        memory.data[offset : offset + len(data)] = data.tobytes()


class EthosU(Peripheral):
    """The NPU, which does at once what it is started for.

    Args:
        machine: the machine that it is part of.
        base: address of its registers.
        accelerator: its configuration, such as `ethos-u55-256`.
        interrupt: number of its interrupt.
        memories: the memories that it reaches.
        enabled: whether its clock is on.
    """

    def __init__(
        self,
        machine: Host,
        base: int,
        *,
        accelerator: str,
        interrupt: int,
        memories: Sequence[Memory],
        enabled: Callable[[], bool],
    ) -> None:
        self._accelerator = accelerator
        self._reached = _Reached(memories)
        self._interrupt = interrupt
        self._enabled = enabled
        super().__init__(machine, "NPU", base, 0x1000)

    def reset(self) -> None:
        super().reset()
        self.device = Device(self._accelerator, self._reached)
        self._faults = 0

    def clocked(self) -> bool:
        return self._enabled()

    def read(self, offset: int) -> int:
        return self.device.read(offset)

    def peek(self, offset: int) -> int:
        return self.device.read(offset)

    def write(self, offset: int, value: int) -> None:
        self.device.write(offset, value)
        for fault in self.device.faults[self._faults :]:
            self.machine.note(f"the NPU stopped: {fault}")
        self._faults = len(self.device.faults)
        self.machine.interrupts.set_line(self._interrupt, bool(self.device.read(_STATUS) & _RAISED))
