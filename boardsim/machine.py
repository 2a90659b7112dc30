"""A simulated microcontroller board that runs the very image that is flashed.

    from tools.artifacts.board.board import read_board
    from tools.artifacts.elf_image.elf_image import ElfImage
    from boardsim.boards import simulated
    from boardsim.cpu import Stop

    machine = simulated(read_board(Path("board.json")))
    machine.load_elf(ElfImage(Path("image.elf")))  # programs flash, as a debug probe would have
    machine.console.on_output = print          # bytes as a terminal at the board's baud rate receives them
    machine.reset()
    stop = machine.run(instructions=10_000_000)
    assert stop is Stop.IDLE, machine.explain()

The core is Unicorn's (boardsim.cpu); everything around it (system control space, clocks, flash controller, pins, serial
ports) is in this package, with the behaviour that the reference manuals describe, so that a mistake in start-up code
shows here as it does on the board. Modules build on those before them: cpu, memory, clock and serial; peripheral; chip
and bus; debugger; core; machine. The chips (boardsim/chips) know of peripherals alone, and boardsim.boards gives a
machine its chip.
"""

import ctypes
from collections.abc import Callable, Iterable

import unicorn

from boardsim.alignment import AlignmentCheck
from boardsim.bus import Bus
from boardsim.chip import Chip
from boardsim.clock import Clock
from boardsim.core import SystemControl
from boardsim.cpu import Cpu, Ending, Stop
from boardsim.debugger import Debugger, RunControl
from boardsim.memory import BusError, Memories, Memory
from boardsim.peripheral import Peripheral
from boardsim.serial import Terminal
from tools.artifacts.board.board import Board
from tools.artifacts.elf_image.elf_image import ElfImage
from tools.quiet.console import UserError

# Simulated nanoseconds without an interrupt after which the core counts as asleep for good, though events go on.
_LONGEST_SLEEP = 1e9
_FETCH_ERRORS = (unicorn.UC_ERR_FETCH_UNMAPPED, unicorn.UC_ERR_FETCH_PROT)
_UNALIGNED = (unicorn.UC_ERR_READ_UNALIGNED, unicorn.UC_ERR_WRITE_UNALIGNED, unicorn.UC_ERR_FETCH_UNALIGNED)


class Machine:
    """A board: core, memories and peripherals of a chip. Chips see it as a boardsim.peripheral.Host.

    Args:
        board: the board.
        chip: the model of its chip.
        options: the chip's options (`simulator` in the board's definition).

    Attributes:
        board: the board.
        cpu: the core: registers, and how many instructions it has executed.
        clock: simulated time.
        bus: the memories and peripherals that the core reaches, and its accesses.
        memories: the bus's memories.
        console: the terminal at the other end of the console's wires (boardsim.serial.Terminal).
        run_control: halts and steps the core, as a debugger does.
        debugger: reads and writes memory and registers, as a debugger does.
        chip: the chip's model.
        notes: mistakes of the firmware, one sentence each, in order and without repetition.
    """

    def __init__(self, board: Board, chip: type[Chip], options: dict[str, str]) -> None:
        self.board = board
        self.notes: list[str] = []
        self._until: Callable[[], bool] | None = None
        self._write_failed = False
        self.cpu = Cpu(board.core)
        self.clock = Clock(lambda: self.cpu.instructions, self.cpu.limit)
        self.bus = Bus(self.cpu, self.clock, self._flash_written)
        self.memories: Memories = self.bus.memories
        self.console = Terminal(self.note, int(board.console.get("baud", "115200")))
        self.run_control = RunControl(self.cpu, lambda: self.run(instructions=1))
        self.system = SystemControl(self, chip)
        self.debugger = Debugger(self.bus, self.clock, self.system.by_debugger, self._flash_written, self.code_changed)
        self._alignment = AlignmentCheck(self.cpu, self.memories)
        for block in self.system.blocks:
            self.add_peripheral(block)
        self.chip = chip(self, options)
        self.reset()
        # A machine starts with empty flash, which is no mistake of a firmware.
        self.notes.clear()

    # A chip and its peripherals call these.

    @property
    def interrupts(self) -> SystemControl:
        """Returns the interrupt controller."""
        return self.system

    def add_memory(
        self, name: str, base: int, size: int, *, aliases: Iterable[int] = (), writable: bool = True
    ) -> Memory:
        """Maps RAM (writable) or flash (written through chip.flash_written()) at `base` and every alias; returns it."""
        return self.bus.add_memory(name, base, size, aliases=aliases, writable=writable)

    def add_peripheral(self, peripheral: Peripheral) -> None:
        """Maps a peripheral's registers."""
        self.bus.add_peripheral(peripheral)

    def note(self, text: str) -> None:
        """Keeps a sentence about a mistake of the firmware; once."""
        if text not in self.notes:
            self.notes.append(text)

    def lock_up(self, why: str) -> None:
        """Locks up the core, which cannot go on: DDI 0403E B1.5.15, "Unrecoverable exception cases"."""
        self.note(f"lockup: {why}")
        self.cpu.locked_up = True
        self.cpu.request_stop(Stop.LOCKUP)

    def bus_error(self, address: int) -> None:
        """Ends the write that a peripheral was given in an error. It reaches the core, for which the write is over by
        then, as an imprecise BusFault (DDI 0403E B1.5.14).

        Raises:
            BusError: the write was a debugger's.
        """
        if not self.cpu.running:
            raise BusError(f"the write to {address:#010x} ended in an error")
        self._write_failed = True
        self.cpu.request_stop(None)

    def code_changed(self) -> None:
        """Forgets translated instructions, before the next is executed; for whoever changes memory that has code."""
        self.cpu.retranslate()
        self._alignment.forget()

    def _flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        self.chip.flash_written(memory, offset, size, value)

    # Whoever has the board calls these.

    def explain(self) -> str:
        """Returns the notes, one a line, or that there are none."""
        return "\n".join(self.notes) or "nothing wrong was seen"

    def load_elf(self, image: ElfImage) -> None:
        """Programs the loadable segments of an image into flash, without the flash controller, or into RAM.

        Raises:
            UserError: the image has nothing to load, or bytes where the board has no memory.
        """
        if not image.segments:
            raise UserError(f"image {image.path} has nothing to load; pass the .elf of a torch_firmware target")
        for address, data in image.segments:
            try:
                self.debugger.write(address, data)
            except BusError as error:
                raise UserError(
                    f"image {image.path}: {len(data)} bytes at {address:#010x}, where {self.board.name} has no memory; "
                    "is the image for this board?"
                ) from error

    def power_cycle(self) -> None:
        """Takes the power away and brings it back: RAM has random contents, a flash operation that was going on is
        torn.
        """
        self.chip.power_lost()
        for memory in self.memories:
            if memory.writable:
                # Any pattern that is no zero; the same in every run.
                ctypes.memset(memory.data, 0xA7, memory.size)
        self.run_control.halted = False
        self.system.power_on()
        self.reset()

    def reset(self, *, halt: bool = False, core_only: bool = False) -> None:
        """Resets core and peripherals; the core starts from the chip's boot ROM or vector table at the next run().

        Args:
            halt: whether the core is held before its first instruction.
            core_only: whether the peripherals go on as they are.
        """
        self.bus.finish_stores()
        if not core_only:
            self.clock.forget_events()
        self.bus.forget_polls(values=True)
        self.cpu.reset()
        self.run_control.halted = halt
        for peripheral in self.system.blocks if core_only else self.bus.peripherals:
            peripheral.reset()
        if not core_only:
            self.console.reset()
            self.clock.set_hz(self.chip.RESET_CLOCK_HZ)
        self.code_changed()
        start = self.chip.boot()
        if start is None:
            self.cpu.locked_up = True
            return
        stack, entry = start
        self.cpu.set("sp", stack & ~3)
        self.cpu.set("pc", entry)
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
        if self.cpu.locked_up:
            return Stop.LOCKUP
        if self.run_control.halted:
            return Stop.HALTED
        end = float("inf") if instructions is None else self.cpu.instructions + instructions
        self._until = self.bus.until = until
        self.cpu.stop = None
        self.bus.forget_polls()
        self.clock.end_at(end)
        try:
            while self.cpu.stop is None:
                self.clock.run_events()
                self.system.take_pending()
                if self.cpu.stop is None:
                    ahead = self._alignment.update()
                    self._emulate(1 if instructions == 1 else min(ahead, self.clock.instructions_ahead()))
                if self.cpu.stop is None and self.cpu.instructions >= end:
                    self.cpu.stop = Stop.INSTRUCTIONS
        finally:
            self._until = self.bus.until = None
            self.clock.end_at(float("inf"))
        return self.cpu.stop

    def _emulate(self, limit: int) -> None:
        """Executes instructions until the engine stops, and turns what stopped it into exceptions or cpu.stop."""
        self._write_failed = False
        ending = self.cpu.emulate(limit)
        self.bus.finish_stores()
        if ending.error is not None:
            self._handle_error(ending, ending.error)
        elif ending.interrupt is not None:
            self._handle_interrupt(ending.interrupt, ending.pc)
        elif self._write_failed:
            self.system.fault("IMPRECISERR", ending.pc)
        elif ending.asleep and self.cpu.stop is None:
            self._sleep()

    def _sleep(self) -> None:
        until = self.clock.nanoseconds + _LONGEST_SLEEP
        while not self.system.wakes():
            if self.clock.nanoseconds > until or not self.clock.skip_to_next_event():
                self.cpu.stop = Stop.SLEEP
                return
            if self._until is not None and self._until():
                self.cpu.stop = Stop.UNTIL
                return

    def _handle_error(self, ending: Ending, error: unicorn.UcError) -> None:
        pc = ending.pc
        if error.errno == unicorn.UC_ERR_FETCH_UNMAPPED and pc >= 0xF0000000 and self.system.exception_return(pc):
            return
        if error.errno in _FETCH_ERRORS:
            self.system.fault("IBUSERR", pc)
        elif ending.unmapped is not None:
            self.system.fault("PRECISERR", pc, ending.unmapped)
        elif error.errno == unicorn.UC_ERR_INSN_INVALID:
            self.system.fault("UNDEFINSTR", pc)
        elif error.errno in _UNALIGNED:
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
                self.run_control.stop_at_breakpoint()
            else:
                self.system.fault("DEBUGEVT", pc)
        elif number == 8:
            self.system.exception_return(pc)
        elif number == 17:
            self.system.fault("NOCP", pc, meaning=self._absent_coprocessor(pc))
        elif number == 18:
            self.system.fault("INVSTATE", pc)
        elif number == 19:
            self.system.fault("STKOF", pc)
        else:
            # 1: undefined; 3 and 4: aborts that the hooks did not see, which are alignment.
            self.system.fault("UNALIGNED" if number in (3, 4) else "UNDEFINSTR", pc)

    def _absent_coprocessor(self, pc: int) -> str:
        """Reports which coprocessor other than the FPU an instruction is for (DDI 0553B C2.2); else nothing."""
        found = self.memories.bytes_at(pc, 4) or bytes(4)
        number = found[3] & 0xF
        if found[1] & 0xEC != 0xEC or number in (10, 11):
            return ""
        state = "the simulator does not have" if self.system.has_coprocessor(number) else "is off (CPACR)"
        return f"instruction of coprocessor {number}, which {state}"

    def _coprocessor(self, pc: int) -> bool:
        """Lets the chip execute an instruction of a coprocessor of its own, which the engine takes for undefined."""
        found = self.memories.bytes_at(pc, 4)
        if found is None:
            return False
        first, second = (int.from_bytes(found[at : at + 2], "little") for at in (0, 2))
        # DDI 0553B C2.2: coprocessors by their number in bits 11:8; 10 and 11 are the FPU.
        number = second >> 8 & 0xF
        if first & 0xEC00 != 0xEC00 or number > 7 or not self.system.has_coprocessor(number):
            return False
        if not self.chip.coprocessor(first, second):
            return False
        self.cpu.skip(4)
        return True
