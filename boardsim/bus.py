"""The memories, flash behind its controller and peripherals that the core reaches by addresses, and its accesses."""

import ctypes
from collections.abc import Callable, Iterable
from typing import NamedTuple

import unicorn

from boardsim.clock import Clock
from boardsim.cpu import PAGE, Cpu, Stop
from boardsim.memory import Memories, Memory
from boardsim.peripheral import Peripheral

# So many reads of registers with the same value, without a write in between, let time jump to the next event ...
_POLLS_UNTIL_SKIP = 4
# ... and, where there is no event ahead, so many let the core count as waiting for something that cannot come by
# itself.
_POLLS_UNTIL_IDLE = 2000


class Access(NamedTuple):
    """One access to a peripheral register by the core."""

    instructions: int
    pc: int
    write: bool
    address: int
    name: str
    size: int
    value: int


class Bus:
    """Memories and peripherals at their addresses.

    Args:
        cpu: the core that reaches them.
        clock: jumps to the next event while the core does nothing but poll.
        flash_written: does what a store to flash does: `flash_written(memory, offset, size, value)`.

    Attributes:
        memories, peripherals: what was mapped.
        trace: whether accesses are kept.
        accesses: every access of the core to a peripheral, as Access.
        last_polled: the register that the core read last of those it polls.
        until: asked after every access to a peripheral; the core stops when it returns True.
    """

    def __init__(self, cpu: Cpu, clock: Clock, flash_written: Callable[[Memory, int, int, int], None]) -> None:
        self._cpu = cpu
        self._clock = clock
        self._flash_written = flash_written
        self.memories = Memories()
        self.peripherals: list[Peripheral] = []
        self.trace = False
        self.accesses: list[Access] = []
        self.last_polled = ""
        self.until: Callable[[], bool] | None = None
        self._polled: dict[int, int] = {}
        self._polls = 0
        self._stores: list[Callable[[], None]] = []

    def add_memory(
        self, name: str, base: int, size: int, *, aliases: Iterable[int] = (), writable: bool = True
    ) -> Memory:
        """Maps RAM (writable) or flash at `base` and every alias; returns it."""
        memory = Memory(name, base, (ctypes.c_ubyte * size)(), writable, tuple(aliases))
        engine = self._cpu.engine
        for address in (base, *memory.aliases):
            # Flash is writable to the engine, too: what a write does is up to the flash controller, see _store.
            engine.mem_map_ptr(address, size, unicorn.UC_PROT_ALL, ctypes.addressof(memory.data))
            if not writable:
                engine.hook_add(unicorn.UC_HOOK_MEM_WRITE, self._store, memory, begin=address, end=address + size - 1)
        self.memories.append(memory)
        return memory

    def add_peripheral(self, peripheral: Peripheral) -> None:
        """Maps a peripheral's registers."""
        self.peripherals.append(peripheral)
        size = -(-peripheral.size // PAGE) * PAGE
        self._cpu.engine.mmio_map(peripheral.base, size, self._read, peripheral, self._write, peripheral)

    def peripheral_at(self, address: int) -> Peripheral | None:
        """Returns the peripheral that has an address; None if there is none."""
        return next((p for p in self.peripherals if p.base <= address < p.base + p.size), None)

    def forget_polls(self, *, values: bool = False) -> None:
        """Ends the core's counting as polling.

        Args:
            values: whether what it has read is forgotten, too.
        """
        self._polls = 0
        if values:
            self._polled.clear()

    def finish_stores(self) -> None:
        """Does to flash what stores that the engine has executed do to it."""
        while self._stores:
            self._stores.pop(0)()

    def _store(self, _engine: unicorn.Uc, _access: int, address: int, size: int, value: int, memory: Memory) -> None:
        """Keeps what was in flash before the engine stores there; the controller decides what becomes of it."""
        self.finish_stores()
        offset = memory.offset(address)
        assert offset is not None
        before = bytes(memory.data[offset : offset + size])

        def undo() -> None:
            memory.data[offset : offset + size] = before
            self._flash_written(memory, offset, size, value & ((1 << 8 * size) - 1))

        self._stores.append(undo)

    def _read(self, _engine: unicorn.Uc, offset: int, size: int, peripheral: Peripheral) -> int:
        if self._stores:
            self.finish_stores()
        address = peripheral.base + offset
        value = peripheral.bus_read(offset, size)
        if self._polled.get(address) == value:
            self.last_polled = peripheral.register_name(offset)
            self._poll()
        else:
            self._polled[address] = value
            self._polls = 0
        self._accessed(False, peripheral, offset, size, value)
        return value

    def _write(self, _engine: unicorn.Uc, offset: int, size: int, value: int, peripheral: Peripheral) -> None:
        if self._stores:
            self.finish_stores()
        self.forget_polls(values=True)
        value &= (1 << 8 * size) - 1
        self._accessed(True, peripheral, offset, size, value)
        peripheral.bus_write(offset, size, value)

    def _poll(self) -> None:
        self._polls += 1
        if self._polls >= _POLLS_UNTIL_SKIP and self._clock.skip_to_next_event():
            self._polls = 0
        elif self._polls >= _POLLS_UNTIL_IDLE:
            self._cpu.request_stop(Stop.IDLE)

    def _accessed(self, write: bool, peripheral: Peripheral, offset: int, size: int, value: int) -> None:
        if self.trace:
            self.accesses.append(
                Access(
                    self._cpu.instructions,
                    self._cpu.get("pc"),
                    write,
                    peripheral.base + offset,
                    peripheral.register_name(offset),
                    size,
                    value,
                )
            )
        if self.until is not None and self.until():
            self._cpu.request_stop(Stop.UNTIL)
