"""The engine that executes instructions, which is Unicorn's: core registers, the count of instructions, and how a run
of them ended.
"""

import contextlib
import ctypes
import enum
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType

import unicorn
from unicorn import arm_const

from boardsim.cores import CORES

# No instruction is ever executed there, so emulation never ends by itself.
_NOWHERE = 0xFFFFFFFE
# Unicorn maps memory in pages. STM32 peripherals are 1 KB apart, and between them nothing answers.
PAGE = 0x400
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


class Stop(enum.Enum):
    """The reason for which a machine's run() returned."""

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


@dataclass(frozen=True)
class Ending:
    """The cause that ended a run of instructions.

    Attributes:
        pc: the instruction that ended it, or the next one.
        error: the engine's error, None if there was none.
        unmapped: the address of an access that nothing answered.
        interrupt: the engine's exception, by QEMU's number.
        asleep: whether it was WFI.
    """

    pc: int
    error: unicorn.UcError | None
    unmapped: int | None
    interrupt: int | None
    asleep: bool


class Cpu:
    """A core without its surroundings.

    Args:
        core: its name, of those that there is a model of.

    Attributes:
        engine: Unicorn's, to map memory and to hook code.
        stop: the reason to return from run(); None while it goes on.
        locked_up: whether the core met a fault that it cannot handle.
        passed_breakpoint: the breakpoint that execution starts at, and so does not stop at; -1 for none.
    """

    def __init__(self, core: str) -> None:
        self.engine = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self.engine.ctl_set_cpu_model(CORES[core].unicorn)
        self.engine.ctl_set_page_size(PAGE)
        self.stop: Stop | None = None
        self.locked_up = False
        self.passed_breakpoint = -1
        self._counter, self._count_limit = _engine_counter(self.engine)
        self._executed = 0
        self._running = False
        self._stale = False
        self._unmapped: int | None = None
        self._interrupt: int | None = None
        self.engine.hook_add(unicorn.UC_HOOK_INTR, self._engine_interrupt)
        self.engine.hook_add(unicorn.UC_HOOK_MEM_UNMAPPED | unicorn.UC_HOOK_MEM_PROT, self._no_memory)

    # Registers.

    def get(self, register: str) -> int:
        """Returns a core register: r0 to r12, sp, lr, pc, xpsr, msp, psp, primask, basepri, faultmask, control, fpscr,
        s0 to s31.
        """
        return self.engine.reg_read(_REGISTERS[register])

    def set(self, register: str, value: int) -> None:
        """Sets a core register, see get()."""
        if register == "pc":
            self.passed_breakpoint = -1
            self.locked_up = False
            # Setting pc in the engine takes the Thumb bit from bit 0.
            value |= 1
        self.engine.reg_write(_REGISTERS[register], value)

    def reset(self) -> None:
        """Sets registers and state as after a reset; the boot sets sp and pc."""
        self.locked_up = False
        self.passed_breakpoint = -1
        for register in _REGISTERS:
            if register not in ("xpsr", "pc", "sp"):
                self.engine.reg_write(_REGISTERS[register], 0)
        self.engine.reg_write(arm_const.UC_ARM_REG_XPSR, 0x01000000)
        self.engine.reg_write(arm_const.UC_ARM_REG_LR, 0xFFFFFFFF)

    # Running.

    @property
    def instructions(self) -> int:
        """Instructions executed since the machine was made."""
        # Returns the instructions executed since the machine was made.
        return self._executed + (self._counter.value - 1 if self._running else 0)

    @property
    def running(self) -> bool:
        """Returns whether an instruction is being executed."""
        return self._running

    def limit(self, instructions: int) -> None:
        """Limits the instructions that are still to be executed, of those that run now."""
        if self._running:
            self._count_limit.value = min(self._count_limit.value, self._counter.value - 1 + instructions)

    def request_stop(self, reason: Stop | None) -> None:
        """Ends emulation after the current instruction; None only to look at interrupts."""
        if reason is not None:
            self.stop = reason
        # The engine's own way to stop from inside an access leaves the pc behind; its count of instructions does not.
        self._count_limit.value = self._counter.value

    def check_interrupts(self) -> None:
        """Looks at interrupts after the current instruction; one may have become pending."""
        self.request_stop(None)

    def raise_exception(self, number: int) -> None:
        """Raises an exception of the engine instead of the current instruction, from a hook on instructions."""
        self._interrupt = number
        self.engine.emu_stop()

    def retranslate(self) -> None:
        """Forgets translated code after hooks were added or removed."""
        self._stale = True
        self.request_stop(None)

    def skip(self, size: int) -> None:
        """Counts an instruction of `size` bytes that the engine lacks and that was executed elsewhere."""
        self._executed += 1
        self.set("pc", (self.get("pc") & ~1) + size)

    def emulate(self, limit: int) -> Ending:
        """Executes at most `limit` instructions."""
        self._unmapped = None
        self._interrupt = None
        if self._stale:
            self.engine.ctl_flush_tb()
            self._stale = False
        error = None
        self._counter.value = 1
        self._running = True
        with _interrupts_held(self.engine.emu_stop):
            try:
                self.engine.emu_start(self.get("pc") | 1, _NOWHERE, count=limit)
            except unicorn.UcError as caught:
                error = caught
            finally:
                self._running = False
        pc = self.get("pc") & ~1
        asleep = error is None and self._interrupt is None and self._counter.value <= self._count_limit.value
        asleep = asleep and self.stop is not Stop.BREAKPOINT
        # WFI, SVC and a branch to nowhere were executed; any other cause stopped the engine before the instruction.
        done = asleep or self._interrupt == 2 or error is not None and error.errno in _FETCH_ERRORS
        self._executed += self._counter.value - (not done)
        return Ending(pc, error, self._unmapped, self._interrupt, asleep)

    def _engine_interrupt(self, engine: unicorn.Uc, number: int, _data: object) -> None:
        self._interrupt = number
        engine.emu_stop()

    def _no_memory(
        self, _engine: unicorn.Uc, _access: int, address: int, _size: int, _value: int, _data: object
    ) -> bool:
        self._unmapped = address
        return False


@contextlib.contextmanager
def _interrupts_held(stop: Callable[[], None]) -> Iterator[None]:
    """Lets Ctrl-C call `stop`, and take effect when the body has ended.

    The engine calls Python through ctypes, which prints an exception between its own lines and ours with a traceback,
    and loses it.
    """
    handler = signal.getsignal(signal.SIGINT)
    if not callable(handler) or threading.current_thread() is not threading.main_thread():
        yield
        return
    held: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append((number, frame))
        stop()

    signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if held:
        handler(*held[0])


_counter_offset: int | None = None


def _engine_counter(engine: unicorn.Uc) -> tuple[ctypes.c_uint64, ctypes.c_uint64]:
    """Returns the engine's count of instructions since emu_start(), the current one included, and the count it stops
    after.

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
