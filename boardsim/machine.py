"""A simulated microcontroller board that runs the very image that is flashed.

    from tools.artifacts.board.board import read_board
    from boardsim.machine import Machine, Stop

    machine = Machine(read_board(Path("board.json")))
    machine.load_elf(Path("image.elf"))        # programs flash, as a debug probe would have
    machine.console.on_output = print          # bytes as a terminal at the board's baud rate receives them
    machine.reset()
    stop = machine.run(instructions=10_000_000)
    assert stop is Stop.IDLE, machine.explain()

The core is Unicorn's; everything around it (system control space, clocks, flash controller, pins, serial ports) is in
this package, with the behaviour that the reference manuals describe, so that a mistake in start-up code shows here as
it does on the board. Time is counted in core cycles, one per instruction, and jumps ahead while the core does nothing
but poll or sleep.
"""

from __future__ import annotations

import ctypes
import enum
import heapq
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import unicorn
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from unicorn import arm_const

from boardsim.alignment import AlignmentCheck
from boardsim.core import SystemControl
from boardsim.peripheral import Peripheral
from boardsim.serial import Terminal
from tools.artifacts.board.board import Board
from tools.quiet.console import UserError

# Reads of registers that return the same value again, without a write in between, until time jumps to the next event
# ...
_POLLS_UNTIL_SKIP = 4
# ... and, where there is no event ahead, until the core counts as waiting for something that cannot come by itself.
_POLLS_UNTIL_IDLE = 2000
# Simulated nanoseconds without an interrupt after which the core counts as asleep for good, though events go on.
_LONGEST_SLEEP = 1e9
# Nanoseconds of one access by a debug probe, of the order of a transfer over USB.
_DEBUG_ACCESS = 10_000
# No instruction is ever executed there, so emulation never ends by itself.
_NOWHERE = 0xFFFFFFFE
# Unicorn maps memory in pages. STM32 peripherals are 1 KB apart, and between them nothing answers.
_PAGE = 0x400
# Instructions that the engine is told to execute where there is no limit.
_FOREVER = 1 << 40
_FETCH_ERRORS = (unicorn.UC_ERR_FETCH_UNMAPPED, unicorn.UC_ERR_FETCH_PROT)

_REGISTERS = {
    **{f"r{i}": getattr(arm_const, f"UC_ARM_REG_R{i}") for i in range(13)},
    "sp": arm_const.UC_ARM_REG_SP,
    "lr": arm_const.UC_ARM_REG_LR,
    "pc": arm_const.UC_ARM_REG_PC,
    "xpsr": arm_const.UC_ARM_REG_XPSR,
    "msp": arm_const.UC_ARM_REG_MSP,
    "psp": arm_const.UC_ARM_REG_PSP,
    "primask": arm_const.UC_ARM_REG_PRIMASK,
    "basepri": arm_const.UC_ARM_REG_BASEPRI,
    "faultmask": arm_const.UC_ARM_REG_FAULTMASK,
    "control": arm_const.UC_ARM_REG_CONTROL,
    "fpscr": arm_const.UC_ARM_REG_FPSCR,
    **{f"s{i}": getattr(arm_const, f"UC_ARM_REG_S{i}") for i in range(32)},
}

_CPU = {
    "cortex-m4": arm_const.UC_CPU_ARM_CORTEX_M4,
    "cortex-m33": arm_const.UC_CPU_ARM_CORTEX_M33,
}


class Stop(enum.Enum):
    """Why Machine.run() returned."""

    #: The number of instructions was reached.
    INSTRUCTIONS = "the number of instructions was reached"
    #: `until` returned True.
    UNTIL = "the condition was met"
    #: The core polls registers that nothing but the outside world can change, such as a receiver without input.
    IDLE = "the core waits for what only the outside can bring"
    #: The core sleeps (WFI) and no interrupt can come.
    SLEEP = "the core sleeps for good"
    #: A breakpoint instruction or a breakpoint of the debugger; the core is halted.
    BREAKPOINT = "a breakpoint was reached"
    #: The debugger halted the core.
    HALTED = "the core is halted"
    #: A fault that the core could not handle; machine.notes says which.
    LOCKUP = "the core locked up"


class BusError(Exception):
    """A debugger's access to an address where nothing answers."""


class Access(NamedTuple):
    """One access to a peripheral register by the core."""

    instructions: int
    pc: int
    write: bool
    address: int
    name: str
    size: int
    value: int


@dataclass
class Memory:
    """RAM or flash. `aliases` are further addresses of the same bytes."""

    name: str
    base: int
    data: ctypes.Array
    writable: bool
    aliases: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return len(self.data)

    def offset(self, address: int) -> int | None:
        """Where in `data` an address is, by the base or an alias; None if it is elsewhere."""
        for base in (self.base, *self.aliases):
            if base <= address < base + self.size:
                return address - base
        return None


class Machine:
    """A board: core, memories and peripherals of the chip that its definition names (`simulator` in board()).

    Args:
        board: the board.

    Raises:
        UserError: there is no model of the board's chip.

    Attributes:
        board: the board.
        console: the terminal at the other end of the console's wires (boardsim.serial.Terminal).
        notes: what is wrong with what the firmware did, one sentence each, in order and without repetition.
        trace: whether accesses are kept.
        accesses: every access of the core to a peripheral, as Access.
        halted: whether a debugger or a breakpoint holds the core.
        last_polled: the register that the core read last of those it polls.
        locked_up: whether the core met a fault that it cannot handle.
    """

    def __init__(self, board: Board) -> None:
        from boardsim.chips import CHIPS

        name = (board.simulator or {}).get("chip", "")
        if name not in CHIPS:
            what = f"chip '{name}', which there is no simulator of" if name else "no chip to simulate"
            raise UserError(
                f"board {board.name} names {what}; set `simulator` in its definition to one of: "
                + ", ".join(sorted(CHIPS))
            )
        self.board = board
        self.notes: list[str] = []
        self.trace = False
        self.accesses: list[Access] = []
        self.halted = False
        self.memories: list[Memory] = []
        self.peripherals: list[Peripheral] = []
        self.console = Terminal(self, int(board.console.get("baud", "115200")))
        self.breakpoints: set[int] = set()

        self._skipped = 0
        self._clock_hz = 1
        self._clock_since = (0, 0.0)  # cycles, nanoseconds
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_number = itertools.count()
        self._budget_end: float = float("inf")
        self._until: Callable[[], bool] | None = None
        self._stop: Stop | None = None
        self._polled: dict[int, int] = {}
        self.last_polled = ""
        self._polls = 0
        self._executed = 0
        self._breakpoint_hooks: dict[int, int] = {}
        self._passed_breakpoint = -1
        self._flash_undo: list[Callable[[], None]] = []
        self._unmapped: tuple[int, int] | None = None
        self._interrupt: int | None = None
        self._write_failed = False
        self._stale = False
        self._running = False
        self.locked_up = False

        self.engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.engine.ctl_set_cpu_model(_CPU[board.core])
        self.engine.ctl_set_page_size(_PAGE)
        self._counter, self._count_limit = _engine_counter(self.engine)
        self.system = SystemControl(self)
        for block in self.system.blocks:
            self.add_peripheral(block)
        self.chip = CHIPS[name](self, dict(board.simulator or {}))
        self._alignment = AlignmentCheck(self)
        self._install_hooks()
        self.reset()
        # That the machine starts with empty flash is no mistake of a firmware.
        self.notes.clear()

    # Building: what the chip model calls.

    def add_memory(
        self, name: str, base: int, size: int, *, aliases: Iterable[int] = (), writable: bool = True
    ) -> Memory:
        """Maps RAM (writable) or flash (written through chip.flash_written()) at `base` and every alias; returns it."""
        memory = Memory(name, base, (ctypes.c_ubyte * size)(), writable, tuple(aliases))
        for address in (base, *memory.aliases):
            # Flash is writable to the engine, too: what a write does is up to the flash controller, see _flash_write.
            self.engine.mem_map_ptr(address, size, unicorn.UC_PROT_ALL, ctypes.addressof(memory.data))
            if not writable:
                self.engine.hook_add(
                    unicorn.UC_HOOK_MEM_WRITE, self._flash_write, memory, begin=address, end=address + size - 1
                )
        self.memories.append(memory)
        return memory

    def add_peripheral(self, peripheral: Peripheral) -> None:
        """Maps a peripheral's registers."""
        self.peripherals.append(peripheral)
        size = -(-peripheral.size // _PAGE) * _PAGE
        self.engine.mmio_map(peripheral.base, size, self._mmio_read, peripheral, self._mmio_write, peripheral)

    # Time.

    @property
    def instructions(self) -> int:
        """Instructions executed since the machine was made."""
        # While the engine runs, its counter includes the current instruction.
        return self._executed + (self._counter.value - 1 if self._running else 0)

    @property
    def cycles(self) -> int:
        """Core cycles since the machine was made: one per instruction, and those that were skipped while nothing
        happened.
        """
        return self.instructions + self._skipped

    @property
    def nanoseconds(self) -> float:
        """Simulated time."""
        cycles, since = self._clock_since
        return since + (self.cycles - cycles) * 1e9 / self._clock_hz

    @property
    def clock_hz(self) -> int:
        """The core's clock."""
        return self._clock_hz

    def set_clock(self, hz: int) -> None:
        """The core runs at `hz` from now on."""
        self._clock_since = (self.cycles, self.nanoseconds)
        self._clock_hz = hz
        self._plan()

    def after(self, nanoseconds: float, action: Callable[[], None]) -> None:
        """Calls `action` when that much time has passed."""
        heapq.heappush(self._events, (self.nanoseconds + nanoseconds, next(self._event_number), action))
        self._plan()

    def _plan(self) -> None:
        """Ends emulation in time for the next event and the end of the budget."""
        if self._running:
            self._count_limit.value = min(self._count_limit.value, self._counter.value - 1 + self._instructions_ahead())

    def _instructions_ahead(self) -> int:
        """Instructions that may be executed until something else has to be looked at; at least one."""
        ahead = self._budget_end - self.instructions
        if self._events:
            ahead = min(ahead, (self._events[0][0] - self.nanoseconds) * self._clock_hz / 1e9)
        return max(1, int(min(ahead, _FOREVER)))

    def _run_events(self) -> None:
        now = self.nanoseconds
        while self._events and self._events[0][0] <= now:
            _, _, action = heapq.heappop(self._events)
            action()
        self._plan()

    def _skip_to_next_event(self) -> bool:
        """Jumps to the next event. Returns False if there is none."""
        if not self._events:
            return False
        cycles = (self._events[0][0] - self.nanoseconds) * self._clock_hz / 1e9
        self._skipped += max(0, int(cycles) + 1)
        self._run_events()
        return True

    # Messages.

    def note(self, text: str) -> None:
        """Keeps a sentence about a mistake of the firmware; once."""
        if text not in self.notes:
            self.notes.append(text)

    def explain(self) -> str:
        """The notes, one a line, or that there are none."""
        return "\n".join(self.notes) or "nothing wrong was seen"

    # Programs.

    def load_elf(self, path: Path) -> None:
        """Programs the loadable segments of an image into flash, without the flash controller, or into RAM.

        Raises:
            UserError: the file is missing, no ELF, or has bytes where the board has no memory.
        """
        for address, data in elf_segments(path):
            try:
                self.write(address, data)
            except BusError as error:
                raise UserError(
                    f"image {path}: {len(data)} bytes at {address:#010x}, where {self.board.name} has no memory; "
                    "is the image for this board?"
                ) from error

    # Debugger: memory.

    def memory_at(self, address: int, size: int = 1) -> tuple[Memory, int] | None:
        """The memory that holds `size` bytes at an address, and where in it; None if it is not memory."""
        for memory in self.memories:
            offset = memory.offset(address)
            if offset is not None and offset + size <= memory.size:
                return memory, offset
        return None

    def _peripheral_at(self, address: int) -> Peripheral | None:
        return next((p for p in self.peripherals if p.base <= address < p.base + p.size), None)

    def read(self, address: int, size: int) -> bytes:
        """Reads memory, or peripheral registers word by word as a debugger's memory access port does.

        Raises:
            BusError: nothing answers there.
        """
        place = self.memory_at(address, size)
        if place:
            memory, offset = place
            return bytes(memory.data[offset : offset + size])
        return b"".join(self.read_register(at, width).to_bytes(width, "little") for at, width in _split(address, size))

    def write(self, address: int, data: bytes) -> None:
        """Writes memory; flash without its controller, as if it had been programmed before. For registers word by word.

        Raises:
            BusError: nothing answers there.
        """
        place = self.memory_at(address, len(data))
        if place:
            memory, offset = place
            memory.data[offset : offset + len(data)] = data
            self.code_changed()
            return
        for at, width in _split(address, len(data)):
            self.write_register(at, width, int.from_bytes(data[at - address : at - address + width], "little"))

    def _debug_access(self) -> None:
        """The time of an access through a debug probe passes; the core's own, if it runs, is not interrupted."""
        self._skipped += int(_DEBUG_ACCESS * self._clock_hz / 1e9)
        self._run_events()

    def read_register(self, address: int, size: int = 4) -> int:
        """One bus read of `size` bytes (1, 2 or 4) by the debugger: of a register or of memory. It takes 10 us.

        Raises:
            BusError: nothing answers there.
        """
        place = self.memory_at(address, size)
        if place:
            return int.from_bytes(self.read(address, size), "little")
        peripheral = self._peripheral_at(address)
        if peripheral is None:
            raise BusError(f"nothing answers at {address:#010x}")
        self._debug_access()
        return peripheral.bus_read(address - peripheral.base, size)

    def write_register(self, address: int, size: int, value: int) -> None:
        """One bus write of `size` bytes (1, 2 or 4) by the debugger. It takes 10 us.

        A write to flash goes to the flash controller, which programs it if it is unlocked for that; a write to the
        core's debug registers does what a debugger's does.

        Raises:
            BusError: nothing answers there.
        """
        self._debug_access()
        place = self.memory_at(address, size)
        if place:
            memory, offset = place
            if memory.writable:
                self.write(address, value.to_bytes(size, "little"))
            else:
                self.chip.flash_written(memory, offset, size, value)
                self.code_changed()
            return
        peripheral = self._peripheral_at(address)
        if peripheral is None:
            raise BusError(f"nothing answers at {address:#010x}")
        with self.system.by_debugger():
            peripheral.bus_write(address - peripheral.base, size, value)

    def code_changed(self) -> None:
        """Forgets translated instructions; for whoever changes memory from outside the core."""
        self.engine.ctl_flush_tb()
        self._alignment.forget()

    # Debugger: core.

    def get(self, register: str) -> int:
        """A core register: r0 to r12, sp, lr, pc, xpsr, msp, psp, primask, basepri, faultmask, control, fpscr, s0 to
        s31.
        """
        return self.engine.reg_read(_REGISTERS[register])

    def set(self, register: str, value: int) -> None:
        """Sets a core register, see get()."""
        if register == "pc":
            self._passed_breakpoint = -1
            self.locked_up = False
            # Setting pc in the engine takes the Thumb bit from bit 0.
            value |= 1
        self.engine.reg_write(_REGISTERS[register], value)

    def halt(self) -> None:
        """Halts the core, as a debugger does."""
        self.halted = True
        self._request_stop(Stop.HALTED)

    def resume(self) -> None:
        """Lets a halted core run at the next run()."""
        self.halted = False
        self._passed_breakpoint = self.get("pc")

    def step(self) -> None:
        """Executes one instruction of a halted core; it stays halted."""
        self.resume()
        self.run(instructions=1)
        self.halted = True

    def add_breakpoint(self, address: int) -> None:
        """Halts the core before it executes the instruction at an address."""
        address &= ~1
        if address not in self._breakpoint_hooks:
            self._breakpoint_hooks[address] = self.engine.hook_add(
                unicorn.UC_HOOK_CODE, self._breakpoint, None, begin=address, end=address
            )
            self.engine.ctl_flush_tb()

    def remove_breakpoint(self, address: int) -> None:
        """Removes what add_breakpoint() added."""
        hook = self._breakpoint_hooks.pop(address & ~1, None)
        if hook is not None:
            self.engine.hook_del(hook)
            self.engine.ctl_flush_tb()

    def power_cycle(self) -> None:
        """Takes the power away and brings it back: RAM has random contents, a flash operation that was going on is
        torn.
        """
        self.chip.power_lost()
        for memory in self.memories:
            if memory.writable:
                # Any pattern that is no zero; the same in every run.
                ctypes.memset(memory.data, 0xA7, memory.size)
        self.halted = False
        self.system.power_on()
        self.reset()

    def reset(self, *, halt: bool = False, core_only: bool = False) -> None:
        """Resets core and peripherals; the core starts from the chip's boot ROM or vector table at the next run().

        Args:
            halt: whether the core is held before its first instruction.
            core_only: whether the peripherals go on as they are.
        """
        self._apply_flash_undo()
        if not core_only:
            self._events.clear()
        self._polled.clear()
        self._polls = 0
        self.locked_up = False
        self._passed_breakpoint = -1
        self.halted = halt
        for peripheral in self.system.blocks if core_only else self.peripherals:
            peripheral.reset()
        if not core_only:
            self.console.reset()
            self.set_clock(self.chip.RESET_CLOCK_HZ)
        self.code_changed()
        for register in _REGISTERS:
            if register not in ("xpsr", "pc", "sp"):
                self.engine.reg_write(_REGISTERS[register], 0)
        self.engine.reg_write(arm_const.UC_ARM_REG_XPSR, 0x01000000)
        self.engine.reg_write(arm_const.UC_ARM_REG_LR, 0xFFFFFFFF)
        start = self.chip.boot()
        if start is None:
            self.locked_up = True
            return
        stack, entry = start
        self.engine.reg_write(arm_const.UC_ARM_REG_SP, stack & ~3)
        self.set("pc", entry)
        if not entry & 1:
            # DDI 0403E B1.5.5: EPSR.T is bit 0 of the reset vector; the first instruction is then a UsageFault.
            self.note(f"the reset vector, {entry:#010x}, lacks bit 0: the core has no Arm instructions, only Thumb")
            self.system.fault("INVSTATE", entry)

    # Running.

    def run(self, instructions: int | None = None, until: Callable[[], bool] | None = None) -> Stop:
        """Runs the core until something stops it.

        Args:
            instructions: the most instructions to execute.
            until: stops when it returns True; asked after every event and every access to a peripheral.
        """
        if self.locked_up:
            return Stop.LOCKUP
        if self.halted:
            return Stop.HALTED
        self._budget_end = float("inf") if instructions is None else self.instructions + instructions
        self._until = until
        self._stop = None
        self._polls = 0
        self._plan()
        try:
            while self._stop is None:
                self._run_events()
                self.system.take_pending()
                if self._stop is None:
                    self._emulate(single=instructions == 1, ahead=self._alignment.update())
                if self._stop is None and self.instructions >= self._budget_end:
                    self._stop = Stop.INSTRUCTIONS
        finally:
            self._budget_end = float("inf")
            self._until = None
            self._plan()
        return self._stop

    def _request_stop(self, reason: Stop | None) -> None:
        """Ends emulation after the current instruction; None only to look at interrupts."""
        if reason is not None:
            self._stop = reason
        # The engine's own way to stop from inside an access leaves the pc behind; its count of instructions does not.
        self._count_limit.value = self._counter.value

    def retranslate(self) -> None:
        """For hooks that were added or removed: code that was translated before must not run any more."""
        self._stale = True
        self._request_stop(None)

    def bus_error(self, address: int) -> None:
        """For peripherals: the write that they were given ends in an error, which reaches the core, for which the write
        is over by then, as an imprecise BusFault (DDI 0403E B1.5.14).

        Raises:
            BusError: the write was a debugger's.
        """
        if not self._running:
            raise BusError(f"the write to {address:#010x} ended in an error")
        self._write_failed = True
        self._request_stop(None)

    def engine_exception(self, number: int) -> None:
        """Raises an exception of the engine instead of the current instruction, from a hook on instructions."""
        self._interrupt = number
        self.engine.emu_stop()

    def lock_up(self, why: str) -> None:
        """The core cannot go on: DDI 0403E B1.5.15, "Unrecoverable exception cases"."""
        self.note(f"lockup: {why}")
        self.locked_up = True
        self._request_stop(Stop.LOCKUP)

    def check_interrupts(self) -> None:
        """For peripherals: an interrupt may have become pending."""
        self._request_stop(None)

    def _emulate(self, *, single: bool, ahead: int) -> None:
        """Executes instructions until the engine stops, and turns what stopped it into exceptions or `_stop`.

        Args:
            single: whether it is one instruction.
            ahead: the most, of more.
        """
        self._unmapped = None
        self._interrupt = None
        self._write_failed = False
        if self._stale:
            self.engine.ctl_flush_tb()
            self._stale = False
        error = None
        limit = 1 if single else min(ahead, self._instructions_ahead())
        self._counter.value = 1
        self._running = True
        try:
            self.engine.emu_start(self.get("pc") | 1, _NOWHERE, count=limit)
        except unicorn.UcError as caught:
            error = caught
        finally:
            self._running = False
        self._apply_flash_undo()
        pc = self.get("pc") & ~1
        asleep = error is None and self._interrupt is None and self._counter.value <= self._count_limit.value
        asleep = asleep and self._stop is not Stop.BREAKPOINT
        # WFI, SVC and a branch to nowhere were executed; what else stops the engine was about to be.
        done = asleep or self._interrupt == 2 or error is not None and error.errno in _FETCH_ERRORS
        self._executed += self._counter.value - (not done)
        if error is not None:
            self._handle_error(error, pc)
        elif self._interrupt is not None:
            self._handle_interrupt(self._interrupt, pc)
        elif self._write_failed:
            self.system.fault("IMPRECISERR", pc)
        elif asleep and self._stop is None:
            self._sleep()

    def _sleep(self) -> None:
        until = self.nanoseconds + _LONGEST_SLEEP
        while not self.system.wakes():
            if self.nanoseconds > until or not self._skip_to_next_event():
                self._stop = Stop.SLEEP
                return
            if self._until is not None and self._until():
                self._stop = Stop.UNTIL
                return

    def _handle_error(self, error: unicorn.UcError, pc: int) -> None:
        if error.errno == unicorn.UC_ERR_FETCH_UNMAPPED and pc >= 0xF0000000 and self.system.exception_return(pc):
            return
        if error.errno in _FETCH_ERRORS:
            self.system.fault("IBUSERR", pc)
        elif self._unmapped is not None:
            address, _ = self._unmapped
            self.system.fault("PRECISERR", pc, address)
        elif error.errno == unicorn.UC_ERR_INSN_INVALID:
            self.system.fault("UNDEFINSTR", pc)
        elif error.errno in (
            unicorn.UC_ERR_READ_UNALIGNED,
            unicorn.UC_ERR_WRITE_UNALIGNED,
            unicorn.UC_ERR_FETCH_UNALIGNED,
        ):
            self.system.fault("UNALIGNED", pc)
        else:
            raise error

    def _handle_interrupt(self, number: int, pc: int) -> None:
        """Exceptions of the engine by QEMU's numbers."""
        if number in (1, 17) and self._coprocessor(pc):
            return
        if number == 2:
            self.system.supervisor_call(pc)
        elif number == 7:
            if self.system.debug_enabled:
                self.halted = True
                self._stop = Stop.BREAKPOINT
            else:
                self.system.fault("DEBUGEVT", pc)
        elif number == 8:
            self.system.exception_return(pc)
        elif number == 17:
            self.system.fault("NOCP", pc)
        elif number == 18:
            self.system.fault("INVSTATE", pc)
        elif number == 19:
            self.system.fault("STKOF", pc)
        else:
            # 1: undefined; 3 and 4: aborts that the hooks did not see, which are alignment.
            self.system.fault("UNALIGNED" if number in (3, 4) else "UNDEFINSTR", pc)

    def _coprocessor(self, pc: int) -> bool:
        """Lets the chip execute an instruction of a coprocessor of its own, which the engine takes for undefined."""
        place = self.memory_at(pc, 4)
        if place is None:
            return False
        memory, offset = place
        first, second = (int.from_bytes(bytes(memory.data[offset + at : offset + at + 2]), "little") for at in (0, 2))
        # DDI 0553B C2.2: coprocessors by their number in bits 11:8; 10 and 11 are the FPU.
        number = second >> 8 & 0xF
        if first & 0xEC00 != 0xEC00 or number > 7 or self.system.scs.values.get(0xD88, 0) >> 2 * number & 3 == 0:
            return False
        if not self.chip.coprocessor(first, second):
            return False
        self._executed += 1
        self.set("pc", pc + 4)
        return True

    # Hooks of the engine.

    def _install_hooks(self) -> None:
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self._engine_interrupt)
        self.engine.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED | unicorn.UC_HOOK_MEM_PROT, self._no_memory)

    def _engine_interrupt(self, engine: unicorn.Uc, number: int, _data: object) -> None:
        self._interrupt = number
        engine.emu_stop()

    def _no_memory(
        self, _engine: unicorn.Uc, _access: int, address: int, size: int, _value: int, _data: object
    ) -> bool:
        self._unmapped = (address, size)
        return False

    def _breakpoint(self, engine: unicorn.Uc, address: int, _size: int, _data: object) -> None:
        if self._passed_breakpoint == address:
            self._passed_breakpoint = -1
            return
        self.halted = True
        self._stop = Stop.BREAKPOINT
        engine.emu_stop()

    def _flash_write(
        self, _engine: unicorn.Uc, _access: int, address: int, size: int, value: int, memory: Memory
    ) -> None:
        """Before the engine stores to flash: keeps what was there, for the controller to decide what becomes of it."""
        self._apply_flash_undo()
        offset = memory.offset(address)
        assert offset is not None
        before = bytes(memory.data[offset : offset + size])

        def undo() -> None:
            memory.data[offset : offset + size] = before
            self.chip.flash_written(memory, offset, size, value & ((1 << 8 * size) - 1))

        self._flash_undo.append(undo)

    def _apply_flash_undo(self) -> None:
        while self._flash_undo:
            self._flash_undo.pop(0)()

    def _mmio_read(self, _engine: unicorn.Uc, offset: int, size: int, peripheral: Peripheral) -> int:
        if self._flash_undo:
            self._apply_flash_undo()
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

    def _mmio_write(self, _engine: unicorn.Uc, offset: int, size: int, value: int, peripheral: Peripheral) -> None:
        if self._flash_undo:
            self._apply_flash_undo()
        self._polls = 0
        self._polled.clear()
        value &= (1 << 8 * size) - 1
        self._accessed(True, peripheral, offset, size, value)
        peripheral.bus_write(offset, size, value)

    def _poll(self) -> None:
        self._polls += 1
        if self._polls >= _POLLS_UNTIL_SKIP and self._skip_to_next_event():
            self._polls = 0
        elif self._polls >= _POLLS_UNTIL_IDLE:
            self._request_stop(Stop.IDLE)

    def _accessed(self, write: bool, peripheral: Peripheral, offset: int, size: int, value: int) -> None:
        if self.trace:
            self.accesses.append(
                Access(
                    self.instructions,
                    self.get("pc"),
                    write,
                    peripheral.base + offset,
                    peripheral.register_name(offset),
                    size,
                    value,
                )
            )
        if self._until is not None and self._until():
            self._request_stop(Stop.UNTIL)


_counter_offset: int | None = None


def _engine_counter(engine: unicorn.Uc) -> tuple[ctypes.c_uint64, ctypes.c_uint64]:
    """The engine's count of instructions since emu_start(), the current one included, and the count it stops after.

    Unicorn counts in C but has no call to ask for it, and a hook in Python is called ten times slower than a block of
    instructions takes. So the two words are looked for once in the engine's own structure, after a run whose count is
    known.
    """
    global _counter_offset
    if _counter_offset is None:
        scratch = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        scratch.mem_map(0, 0x1000)
        # b .
        scratch.mem_write(0, b"\xfe\xe7")
        marker = 0x5A5A
        scratch.emu_start(1, _NOWHERE, count=marker)
        pattern = (marker + 1).to_bytes(8, "little") + marker.to_bytes(8, "little")
        _counter_offset = ctypes.string_at(scratch._uch.value, 0x1000).find(pattern)
        if _counter_offset < 0:
            raise RuntimeError(
                f"unicorn {unicorn.__version__} keeps its count of instructions elsewhere; see _engine_counter()"
            )
    address = engine._uch.value + _counter_offset
    return ctypes.c_uint64.from_address(address), ctypes.c_uint64.from_address(address + 8)


def elf_segments(path: Path) -> list[tuple[int, bytes]]:
    """What an image puts into memory: addresses (physical, where initial values lie) and bytes.

    Raises:
        UserError: the file is missing, no ELF or has nothing to load.
    """
    try:
        with path.open("rb") as file:
            segments = [
                (segment["p_paddr"], segment.data())
                for segment in ELFFile(file).iter_segments()
                if segment["p_type"] == "PT_LOAD" and segment["p_filesz"]
            ]
    except OSError as error:
        raise UserError(f"image {path}: {error.strerror}; build it first") from error
    except ELFError as error:
        raise UserError(f"image {path} is no ELF file ({error}); pass the .elf of a torch_firmware target") from error
    if not segments:
        raise UserError(f"image {path} has nothing to load; pass the .elf of a torch_firmware target")
    return segments


def _split(address: int, size: int) -> Iterable[tuple[int, int]]:
    """Aligned accesses of 4 bytes, and of 1 byte at the ends, that cover a range."""
    end = address + size
    while address < end:
        width = 4 if address % 4 == 0 and end - address >= 4 else 1
        yield address, width
        address += width
