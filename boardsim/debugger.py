"""Does what a debug probe does to a board: reads and writes memory and registers, halts and steps the core."""

from collections.abc import Callable
from contextlib import AbstractContextManager

import unicorn

from boardsim.bus import Bus
from boardsim.clock import Clock
from boardsim.cpu import Cpu, Stop
from boardsim.memory import BusError, Memory, split

# One access by a debug probe takes so many nanoseconds, in the order of a transfer over USB.
_DEBUG_ACCESS = 10_000


class RunControl:
    """Halting, stepping and breakpoints.

    Args:
        cpu: the core.
        run_one: executes one instruction.

    Attributes:
        halted: whether a debugger or a breakpoint holds the core.
    """

    def __init__(self, cpu: Cpu, run_one: Callable[[], object]) -> None:
        self._cpu = cpu
        self._run_one = run_one
        self._hooks: dict[int, int] = {}
        self.halted = False

    def halt(self) -> None:
        """Halts the core, as a debugger does."""
        self.halted = True
        self._cpu.request_stop(Stop.HALTED)

    def resume(self) -> None:
        """Lets a halted core run at the machine's next run()."""
        self.halted = False
        self._cpu.passed_breakpoint = self._cpu.get("pc")

    def step(self) -> None:
        """Executes one instruction of a halted core; it stays halted."""
        self.resume()
        self._run_one()
        self.halted = True

    def stop_at_breakpoint(self) -> None:
        """Lets a breakpoint hold the core from now on."""
        self.halted = True
        self._cpu.stop = Stop.BREAKPOINT

    def add_breakpoint(self, address: int) -> None:
        """Halts the core before it executes the instruction at an address."""
        address &= ~1
        if address not in self._hooks:
            self._hooks[address] = self._cpu.engine.hook_add(
                unicorn.UC_HOOK_CODE, self._reached, None, begin=address, end=address
            )
            self._cpu.engine.ctl_flush_tb()

    def remove_breakpoint(self, address: int) -> None:
        """Removes what add_breakpoint() added."""
        hook = self._hooks.pop(address & ~1, None)
        if hook is not None:
            self._cpu.engine.hook_del(hook)
            self._cpu.engine.ctl_flush_tb()

    def _reached(self, engine: unicorn.Uc, address: int, _size: int, _data: object) -> None:
        if self._cpu.passed_breakpoint == address:
            self._cpu.passed_breakpoint = -1
            return
        self.stop_at_breakpoint()
        engine.emu_stop()


class Debugger:
    """Accesses what the core reaches by addresses, as a debug probe does.

    Args:
        bus: the memories and peripherals.
        clock: an access takes time.
        by_debugger: a context in which writes to the core's debug registers are a debugger's.
        flash_written: does what a store to flash does: `flash_written(memory, offset, size, value)`.
        code_changed: told that memory has changed.
    """

    def __init__(
        self,
        bus: Bus,
        clock: Clock,
        by_debugger: Callable[[], AbstractContextManager[None]],
        flash_written: Callable[[Memory, int, int, int], None],
        code_changed: Callable[[], None],
    ) -> None:
        self._bus = bus
        self._clock = clock
        self._by_debugger = by_debugger
        self._flash_written = flash_written
        self._code_changed = code_changed

    def read(self, address: int, size: int) -> bytes:
        """Reads memory, or peripheral registers word by word as a debugger's memory access port does.

        Raises:
            BusError: nothing answers there.
        """
        found = self._bus.memories.bytes_at(address, size)
        if found is not None:
            return found
        return b"".join(self.read_register(at, width).to_bytes(width, "little") for at, width in split(address, size))

    def write(self, address: int, data: bytes) -> None:
        """Writes memory, flash as if it had been programmed before, without its controller; registers word by word.

        Raises:
            BusError: nothing answers there.
        """
        place = self._bus.memories.at(address, len(data))
        if place:
            memory, offset = place
            memory.data[offset : offset + len(data)] = data
            self._code_changed()
            return
        for at, width in split(address, len(data)):
            self.write_register(at, width, int.from_bytes(data[at - address : at - address + width], "little"))

    def read_register(self, address: int, size: int = 4) -> int:
        """Reads `size` bytes (1, 2 or 4) of a register or of memory in one bus access of 10 us.

        Raises:
            BusError: nothing answers there.
        """
        found = self._bus.memories.bytes_at(address, size)
        if found is not None:
            return int.from_bytes(found, "little")
        peripheral = self._bus.peripheral_at(address)
        if peripheral is None:
            raise BusError(f"nothing answers at {address:#010x}")
        # This does not interrupt a running core.
        self._clock.pass_time(_DEBUG_ACCESS)
        return peripheral.bus_read(address - peripheral.base, size)

    def write_register(self, address: int, size: int, value: int) -> None:
        """Writes `size` bytes (1, 2 or 4) in one bus access of 10 us. A write to flash goes to the flash controller,
        which programs it if it is unlocked for that; a write to the core's debug registers does what a debugger's does.

        A write to flash goes to the flash controller, which programs it if it is unlocked for that; a write to the
        core's debug registers does what a debugger's does.

        Raises:
            BusError: nothing answers there.
        """
        self._clock.pass_time(_DEBUG_ACCESS)
        place = self._bus.memories.at(address, size)
        if place:
            memory, offset = place
            if memory.writable:
                self.write(address, value.to_bytes(size, "little"))
            else:
                self._flash_written(memory, offset, size, value)
                self._code_changed()
            return
        peripheral = self._bus.peripheral_at(address)
        if peripheral is None:
            raise BusError(f"nothing answers at {address:#010x}")
        with self._by_debugger():
            peripheral.bus_write(address - peripheral.base, size, value)
