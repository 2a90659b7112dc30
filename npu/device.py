"""An Ethos-U as its driver sees it: registers, and a run of the command stream when CMD says so.

Register numbers and bits: `ethosu.vela.ethos_u55_regs` in the wheel of ethos-u-vela, and for U85
`ethos_u85_interface.hpp` in its source distribution. They are the same as far as they are modelled.
"""

import struct

from npu import ethos_u55, ethos_u85
from npu.engine import Engine, Operation
from npu.fault import NpuFault
from npu.memory import Memory

_ID, _STATUS, _CMD, _RESET, _QBASE, _QSIZE, _PROT, _CONFIG = 0x00, 0x04, 0x08, 0x0C, 0x10, 0x20, 0x24, 0x28
_BASEP = 0x80
_REGIONS = 8
_RUN, _CLEAR_INTERRUPT = 1, 2
_INTERRUPT, _BUS_ERROR, _COMMAND_ERROR, _END = 1 << 1, 1 << 2, 1 << 4, 1 << 5

# Arm's number of the product and the version of the architecture that Vela compiles for, by product.
_ARCHITECTURES = {0: 0x10060000, 1: 0x10060000, 2: 0x20000000}


def engine_of(accelerator: str, memory: Memory) -> tuple[int, Engine]:
    """Returns what register CONFIG of an NPU holds, and the engine that executes its commands.

    Args:
      accelerator: its configuration, such as `ethos-u55-128`.
      memory: what it reads and writes.
    """
    if accelerator in ethos_u85.CONFIGURATIONS:
        large = ethos_u85.CONFIGURATIONS[accelerator]
        return large.config, ethos_u85.EthosU85(large, memory)
    small = ethos_u55.CONFIGURATIONS[accelerator]
    return small.config, ethos_u55.EthosU55(small, memory)


class Device:
    """The NPU of a board.

    Args:
      accelerator: its configuration, such as `ethos-u55-128`.
      memory: the memory that it reads and writes.

    Attributes:
      faults: causes that ended a run early, one sentence each.
      operations: the operations of all runs.
    """

    def __init__(self, accelerator: str, memory: Memory) -> None:
        self._memory = memory
        self._config, self._engine = engine_of(accelerator, memory)
        self._registers: dict[int, int] = {}
        self._status = 0
        self.faults: list[str] = []
        self.operations: list[Operation] = []

    def read(self, offset: int) -> int:
        """Returns a register's 32 bits."""
        if offset == _ID:
            return _ARCHITECTURES[self._config >> 28]
        if offset == _STATUS:
            return self._status
        if offset == _CONFIG:
            return self._config
        return self._registers.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Sets a register, with what that does."""
        if offset == _RESET:
            self._registers = {_PROT: value & 3}
            self._status = 0
        elif offset == _CMD:
            if value & _CLEAR_INTERRUPT:
                self._status &= ~_INTERRUPT
            if value & _RUN:
                self._status = _INTERRUPT | self._run()
        else:
            self._registers[offset] = value

    def _address(self, offset: int) -> int:
        return self._registers.get(offset, 0) | self._registers.get(offset + 4, 0) << 32

    def _run(self) -> int:
        """Executes the command stream; returns the bits of STATUS that say how it ended."""
        try:
            size = self._registers.get(_QSIZE, 0)
            words = struct.unpack(f"<{size // 4}I", self._memory.read(self._address(_QBASE), size // 4 * 4).tobytes())
            bases = {region: self._address(_BASEP + 8 * region) for region in range(_REGIONS)}
            self.operations += self._engine.run(words, bases)
        except NpuFault as fault:
            self.faults.append(str(fault))
            return _BUS_ERROR if "bus error" in str(fault) else _COMMAND_ERROR
        return _END
