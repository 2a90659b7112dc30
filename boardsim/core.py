"""The Cortex-M system control space: exceptions, interrupt controller, SysTick, debug and cycle counter.

Registers and behaviour: Armv7-M Architecture Reference Manual (DDI 0403E), chapters B1.5 (exceptions), B3.2 to B3.4
(system control, SysTick, NVIC), C1 (debug); for Cortex-M33 Armv8-M (DDI 0553B). Modelled as far as this project's
firmware and a debugger use it: one stack (MSP), no MPU, no security states. Priorities decide what may preempt.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Protocol

import unicorn

from boardsim.chip import Chip
from boardsim.clock import Alarm
from boardsim.cores import CORES
from boardsim.debugger import RunControl
from boardsim.peripheral import Host, Peripheral
from npu.registers import numbered

HARD_FAULT, MEM_MANAGE, BUS_FAULT, USAGE_FAULT, SV_CALL, PEND_SV, SYS_TICK = 3, 4, 5, 6, 11, 14, 15

#: Bits of CFSR by name (DDI 0403E B3.2.15; STKOF: DDI 0553B).
_CFSR = {
    "IBUSERR": 8,
    "PRECISERR": 9,
    "IMPRECISERR": 10,
    "STKERR": 12,
    "UNDEFINSTR": 16,
    "INVSTATE": 17,
    "INVPC": 18,
    "NOCP": 19,
    "STKOF": 20,
    "UNALIGNED": 24,
    "DIVBYZERO": 25,
}
_BFARVALID = 1 << 15

_MEANING = {
    "IBUSERR": "instruction fetch from {pc:#010x}, where nothing answers",
    "PRECISERR": "access to {address:#010x}, where nothing answers",
    "IMPRECISERR": "a write before it ended in an error of the bus",
    "UNDEFINSTR": "undefined instruction",
    "INVSTATE": "branch to an address without the Thumb bit",
    "INVPC": "invalid return from an exception",
    "NOCP": "FPU instruction while the FPU is off (CPACR)",
    "STKOF": "stack overflow",
    "UNALIGNED": "unaligned access by an instruction that needs alignment",
    "DIVBYZERO": "division by zero",
    "DEBUGEVT": "breakpoint instruction without a debugger",
}

_LOWEST = 256


class CoreHost(Host, Protocol):
    """The part of the machine that the system control space sees, beyond what every peripheral does.

    Attributes:
        run_control: halts, steps and resumes the core.
    """

    run_control: RunControl

    def reset(self, *, halt: bool = False, core_only: bool = False) -> None:
        """Resets core and peripherals, or the core alone, which may be held before its first instruction."""


class _Scs(Peripheral):
    """System control space."""

    NAMES = numbered(
        "0x004 ICTR 0x010 SYST_CSR SYST_RVR SYST_CVR SYST_CALIB 0xD00 CPUID ICSR VTOR AIRCR SCR CCR SHPR1 SHPR2 SHPR3 "
        "SHCSR CFSR HFSR DFSR MMFAR BFAR 0xD80 CCSIDR CSSELR CPACR NSACR 0xD44 ID_PFR1 0xD90 MPU_TYPE 0xDF0 DHCSR "
        "DCRSR DCRDR DEMCR 0xE08 DSCSR 0xF34 FPCCR FPCAR FPDSCR 0xF50 ICIALLU 0xF60 DCISW 0xF40 MVFR0 MVFR1",
        step=4,
    ) | {
        **{0x100 + 4 * i: f"NVIC_ISER{i}" for i in range(8)},
        **{0x180 + 4 * i: f"NVIC_ICER{i}" for i in range(8)},
        **{0x200 + 4 * i: f"NVIC_ISPR{i}" for i in range(8)},
        **{0x280 + 4 * i: f"NVIC_ICPR{i}" for i in range(8)},
        **{0x300 + 4 * i: f"NVIC_IABR{i}" for i in range(8)},
        **{0x400 + 4 * i: f"NVIC_IPR{i}" for i in range(60)},
    }
    # MVFR0 and MVFR1 of a single precision FPU: DDI 0403E B4.7. FPCCR: automatic and lazy state preservation.
    RESET = {0xD14: 0x200, 0xF34: 0xC0000000, 0xF40: 0x10110021, 0xF44: 0x11000011}
    # An Armv8-M core with the security extension has these in its secure state: ID_PFR1, DSCSR.CDS (DDI 0553B).
    _SECURE = {0xD44: 0x210, 0xE08: 1 << 16}
    # Armv6-M has no registers of the faults nor of an FPU (DDI 0419E B3.2). CCR: stack alignment, and unaligned
    # accesses fault.
    _NOT_IN_V6 = (0xD18, 0xD28, 0xD2C, 0xD34, 0xD38, 0xD88, 0xF34, 0xF38, 0xF3C, 0xF40, 0xF44)
    _CCR_V6 = 0x208
    # A reset of the system leaves what the debugger set: DDI 0403E C1.6.
    _DEBUG = (0xDF0, 0xDF8, 0xDFC)

    def __init__(self, machine: CoreHost, system: SystemControl) -> None:
        self.system = system
        super().__init__(machine, "SCB", 0xE000E000, 0x1000)

    def reset(self) -> None:
        kept = {offset: self.values[offset] for offset in self._DEBUG if offset in self.values}
        super().reset()
        if CORES[self.machine.board.core].is_armv8:
            self.values |= self._SECURE
        if CORES[self.machine.board.core].is_armv6:
            self.values = {0xD14: self._CCR_V6}
        self.values |= kept
        self.system.reset()

    def peek(self, offset: int) -> int:
        return 0 if offset in (0xD28, 0xD2C, 0xD30) else super().peek(offset)

    def read(self, offset: int) -> int:
        system = self.system
        if offset in (0x010, 0x018):
            return system.systick.read(offset)
        group, index = offset & ~0x7F, (offset & 0x7F) // 4
        if group in (0x100, 0x180):
            return system.bits(system.enabled, index)
        if group in (0x200, 0x280):
            return system.bits(system.pending, index)
        if group == 0x300:
            return system.bits(set(system.active), index)
        if offset == 0xD80:
            # 16 KB of data in four ways and lines of 32 bytes (DDI 0489).
            return 127 << 13 | 3 << 3 | 1 if system.core.is_cached else 0
        if offset == 0xD00:
            return CORES[self.machine.board.core].cpuid
        if offset == 0xD04:
            pending = max((n for n in system.pending if n in system.enabled or n < 16), default=0)
            return (system.active[-1] if system.active else 0) | pending << 12
        if offset == 0xD0C:
            return 0xFA050000
        if offset == 0xDF0:
            return system.debug_status()
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        system = self.system
        if system.core.is_armv6 and offset in self._NOT_IN_V6:
            return
        if offset in (0x010, 0x014, 0x018):
            super().write(offset, value)
            system.systick.write(offset, value)
            return
        group, index = offset & ~0x7F, (offset & 0x7F) // 4
        if 0x100 <= offset < 0x300:
            numbers = {16 + 32 * index + bit for bit in range(32) if value >> bit & 1}
            if group == 0x100:
                system.enabled |= numbers
            elif group == 0x180:
                system.enabled -= numbers
            elif group == 0x200:
                system.pending |= numbers
            elif group == 0x280:
                # A line that is still high makes its interrupt pending again: DDI 0403E B3.4.1.
                system.pending -= numbers - system.lines
            self.machine.cpu.check_interrupts()
        elif offset == 0xD04:
            for bit, number, add in (
                (28, PEND_SV, True),
                (27, PEND_SV, False),
                (26, SYS_TICK, True),
                (25, SYS_TICK, False),
            ):
                if value >> bit & 1:
                    (system.pending.add if add else system.pending.discard)(number)
            self.machine.cpu.check_interrupts()
        elif offset == 0xD08:
            system.set_vector_table(value)
            self.values[offset] = value & ~0x7F
        elif offset == 0xD0C:
            if value >> 16 == 0x05FA and value & 5:
                system.request_reset(core_only=system.chip.SYSRESETREQ_IS_CORE_ONLY)
        elif offset in (0xD28, 0xD2C, 0xD30):
            # Write one to clear.
            self.values[offset] = self.values.get(offset, 0) & ~value
        elif offset == 0xD88:
            super().write(offset, value)
            system.fpu_switched(value >> 20 & 0xF == 0xF)
        elif offset == 0xDF0:
            system.write_dhcsr(value)
        elif offset == 0xDF4:
            system.transfer_register(value)
        elif offset not in (0x004, 0x01C, 0xD00, 0xD44, 0xD80, 0xD90, 0xE08, 0xF40, 0xF44):
            super().write(offset, value)


class _Dwt(Peripheral):
    """Data watchpoint and trace unit: the cycle counter (DDI 0403E C1.8)."""

    NAMES = {0x000: "CTRL", 0x004: "CYCCNT", 0xFB0: "LAR"}
    # Four comparators, as in the Cortex-M4 and M33; they do nothing here.
    RESET = {0x000: 0x40000000}
    # Armv6-M has two, and no counter of cycles (DDI 0419E C1.8).
    _RESET_V6 = 0x20000000

    def __init__(self, machine: CoreHost, system: SystemControl) -> None:
        self._start = 0
        self._system = system
        super().__init__(machine, "DWT", 0xE0001000, 0x1000)

    def reset(self) -> None:
        super().reset()
        if self._system.core.is_armv6:
            self.values[0] = self._RESET_V6

    def _runs(self) -> bool:
        return bool(self.values[0] & 1) and bool(self._system.scs.values.get(0xDFC, 0) >> 24 & 1)

    def read(self, offset: int) -> int:
        if offset == 4 and self._runs():
            return self.values.get(4, 0) + self.machine.clock.cycles - self._start & 0xFFFFFFFF
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        core = self._system.core
        if core.is_armv6:
            return
        # A write by software, but not by a debugger, is ignored until the key was written (DDI 0489).
        locked = core.is_cached and self.values.get(0xFB0, 0) != 0xC5ACCE55
        if locked and offset != 0xFB0 and not self._system.debugging:
            return
        count = self.read(4)
        if offset == 0:
            value = value & 0x0FFFFFFF | self.RESET[0]
        super().write(offset, value)
        if offset != 4:
            self.values[4] = count
        self._start = self.machine.clock.cycles


class _Fpb(Peripheral):
    """Flash patch and breakpoint unit, used for breakpoints: DDI 0403E C1.11, for Armv8-M DDI 0553B (FPBv2); of Armv6-M
    the breakpoint unit: DDI 0419E C1.9.
    """

    NAMES = {0x000: "CTRL", **{8 + 4 * i: f"COMP{i}" for i in range(8)}}

    def __init__(self, machine: CoreHost) -> None:
        core = CORES[machine.board.core]
        self._version2 = core.is_armv8
        self._comparators = 4 if core.is_armv6 else 6
        self._run_control = machine.run_control
        super().__init__(machine, "FP", 0xE0002000, 0x1000)

    def reset(self) -> None:
        # A system reset leaves the debugger's breakpoints.
        if not self.values:
            super().reset()

    def read(self, offset: int) -> int:
        if offset == 0:
            return self.values.get(0, 0) & 1 | self._comparators << 4 | (0x10000000 if self._version2 else 0)
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == 0 and not value & 2:
            return
        before = self._addresses()
        super().write(offset, value)
        after = self._addresses()
        for address in before - after:
            self._run_control.remove_breakpoint(address)
        for address in after - before:
            self._run_control.add_breakpoint(address)

    def _addresses(self) -> set[int]:
        if not self.values.get(0, 0) & 1:
            return set()
        addresses = set()
        for index in range(self._comparators):
            value = self.values.get(8 + 4 * index, 0)
            if not value & 1:
                continue
            if self._version2:
                addresses.add(value & ~1)
            else:
                # REPLACE: 1 is the lower half-word, 2 the upper, 3 both.
                where = value >> 30
                addresses |= {(value & 0x1FFFFFFC) + 2 * half for half in (0, 1) if where >> half & 1}
        return addresses


class _SysTick:
    """The system timer: DDI 0403E B3.3."""

    def __init__(self, machine: CoreHost, system: SystemControl) -> None:
        self._machine = machine
        self._system = system
        self._alarm = Alarm(machine.clock)
        self.reset()

    def reset(self) -> None:
        self._alarm.cancel()
        self._control = 0
        self._reload = 0
        # Core cycles at which the counter was at the reload value.
        self._start = 0
        self._flag_from = 0

    def _period(self) -> int:
        """Returns core cycles per round."""
        return (self._reload + 1) * (1 if self._control & 4 else 8)

    def read(self, offset: int) -> int:
        if not self._control & 1 or not self._reload:
            return self._control if offset == 0x10 else 0
        elapsed = self._machine.clock.cycles - self._start
        if offset == 0x18:
            return self._reload - elapsed % self._period() // (self._period() // (self._reload + 1))
        rounds = elapsed // self._period()
        flag = rounds > self._flag_from
        self._flag_from = rounds
        return self._control | flag << 16

    def write(self, offset: int, value: int) -> None:
        if offset == 0x10:
            started = value & 1 and not self._control & 1
            self._control = value & 7
            if not started:
                return
        elif offset == 0x14:
            self._reload = value & 0xFFFFFF
            return
        self._start = self._machine.clock.cycles
        self._flag_from = 0
        self._schedule()

    def _schedule(self) -> None:
        self._alarm.cancel()
        if self._control & 3 == 3 and self._reload:
            cycles = self._period() - (self._machine.clock.cycles - self._start) % self._period()
            self._alarm.start(cycles * 1e9 / self._machine.clock.hz, self._expired)

    def _expired(self) -> None:
        if self._control & 3 == 3:
            self._system.pending.add(SYS_TICK)
            self._machine.cpu.check_interrupts()
            self._schedule()


class SystemControl:
    """Exceptions and their state.

    Args:
        machine: the machine.
        chip: the kind of chip that the core is in.

    Attributes:
        enabled, pending: exception numbers; interrupt n of the chip is 16 + n.
        active: exception numbers, the innermost last.
        lines: interrupts whose level is high.
    """

    def __init__(self, machine: CoreHost, chip: type[Chip]) -> None:
        self.machine = machine
        self.chip = chip
        self.core = CORES[machine.board.core]
        self.enabled: set[int] = set()
        self.pending: set[int] = set()
        self.active: list[int] = []
        self.lines: set[int] = set()
        self.reset_requested = False
        self._core_only = False
        self._debugger = False
        self._was_reset = True
        self.systick = _SysTick(machine, self)
        self._fpu_guard: int | None = None
        self.scs = _Scs(machine, self)
        self._dwt = _Dwt(machine, self)
        self._fpb = _Fpb(machine)

    @property
    def blocks(self) -> tuple[Peripheral, ...]:
        """Returns the peripherals to map."""
        return (self.scs, self._dwt, self._fpb)

    def reset(self) -> None:
        """Handles a reset of the system control space; registers are reset by then."""
        self.enabled.clear()
        self.pending.clear()
        self.active.clear()
        self.lines.clear()
        self.systick.reset()
        self.reset_requested = False
        self._was_reset = True
        self.fpu_switched(False)

    def power_on(self) -> None:
        """Drops what a debugger set, which is lost with power."""
        self.scs.values.clear()
        for offset in list(self._fpb.values):
            if offset:
                self._fpb.write(offset, 0)

    # FPU.

    def fpu_switched(self, on: bool) -> None:
        """Looks for the FPU's instructions while CPACR has it off: the engine's FPU is always on."""
        if self.core.is_armv6:
            return
        if on and self._fpu_guard is not None:
            self.machine.cpu.engine.hook_del(self._fpu_guard)
            self._fpu_guard = None
            self.machine.cpu.retranslate()
        elif not on and self._fpu_guard is None:
            self._fpu_guard = self.machine.cpu.engine.hook_add(unicorn.UC_HOOK_CODE, self._check_fpu)
            self.machine.cpu.retranslate()

    def _check_fpu(self, _engine: object, address: int, size: int, _data: object) -> None:
        # DDI 0403E A5.3, "32-bit Thumb instruction encoding": coprocessor instructions are 111x 11xx, their number in
        # bits 11:8.
        if size != 4 or self._fpu_guard is None:
            return
        place = self.machine.memories.at(address, 4)
        if place is None:
            return
        memory, offset = place
        if memory.data[offset + 1] & 0xEC == 0xEC and memory.data[offset + 3] & 0x0E == 0x0A:
            self.machine.cpu.raise_exception(17)

    def has_coprocessor(self, number: int) -> bool:
        """Returns whether a coprocessor may be used: CPACR."""
        return self.scs.values.get(0xD88, 0) >> 2 * number & 3 != 0

    # Exceptions.

    def bits(self, numbers: set[int], index: int) -> int:
        """Returns a word of the NVIC's bit arrays."""
        return sum(1 << number - 16 - 32 * index for number in numbers if 16 + 32 * index <= number < 48 + 32 * index)

    def set_line(self, interrupt: int, level: bool) -> None:
        """Raises or lowers a peripheral's interrupt line."""
        number = 16 + interrupt
        if level:
            self.lines.add(number)
            if number not in self.active:
                self.pending.add(number)
            self.machine.cpu.check_interrupts()
        else:
            self.lines.discard(number)

    def _priority(self, number: int) -> int:
        if number == HARD_FAULT:
            return -1
        if number == 2:
            return -2
        base = 0xD18 + (number & ~3) - 4 if number < 16 else 0x400 + (number - 16 & ~3)
        return self.scs.values.get(base, 0) >> 8 * (number & 3) & 0xFF

    def _execution_priority(self) -> int:
        priority = min((self._priority(number) for number in self.active), default=_LOWEST)
        basepri = self.machine.cpu.get("basepri")
        if basepri:
            priority = min(priority, basepri)
        if self.machine.cpu.get("primask") & 1:
            priority = min(priority, 0)
        if self.machine.cpu.get("faultmask") & 1:
            priority = min(priority, -1)
        return priority

    def _ready(self) -> list[int]:
        return [number for number in self.pending if number < 16 or number in self.enabled]

    def wakes(self) -> bool:
        """Returns whether something ends WFI: a pending interrupt that would preempt if PRIMASK were clear (DDI 0403E
        B1.5.19).
        """
        active = min((self._priority(number) for number in self.active), default=_LOWEST)
        return any(self._priority(number) < active for number in self._ready()) or self.reset_requested

    def take_pending(self) -> None:
        """Does what is due between two instructions: a reset, or entry to the most urgent pending exception."""
        if self.reset_requested:
            self.machine.reset(halt=self._halts_after_reset(), core_only=self._core_only)
            return
        ready = self._ready()
        if not ready:
            return
        number = min(ready, key=lambda n: (self._priority(n), n))
        if self._priority(number) < self._execution_priority():
            self.pending.discard(number)
            self._enter(number, self.machine.cpu.get("pc") & ~1)

    def supervisor_call(self, pc: int) -> None:
        """Takes an SVC; `pc` is that of the next instruction."""
        if self._priority(SV_CALL) < self._execution_priority():
            self._enter(SV_CALL, pc)
        else:
            self._escalate(pc, "SVC while its exception is masked")

    def fault(self, kind: str, pc: int, address: int | None = None, meaning: str = "") -> None:
        """Takes a fault.

        Args:
            kind: name of its bit in CFSR, or DEBUGEVT.
            pc: the instruction that caused it.
            address: the address of the access.
            meaning: the cause, if it is not the bit's.
        """
        meaning = meaning or _MEANING[kind].format(pc=pc, address=address or 0)
        meaning += "" if address is None else self.chip.ADDRESS_MAP.missing(address)
        self.machine.note(f"fault at pc {pc:#010x}: {meaning}")
        values = self.scs.values
        if kind == "DEBUGEVT":
            values[0xD2C] = values.get(0xD2C, 0) | 1 << 31
            self._hard_fault(pc, meaning)
            return
        if self.core.is_armv6:
            # There is no other fault, and no register that tells which it was (DDI 0419E B1.5.4).
            self._hard_fault(pc, meaning)
            return
        bit = _CFSR[kind]
        values[0xD28] = values.get(0xD28, 0) | 1 << bit
        if address is not None:
            values[0xD28] |= _BFARVALID
            values[0xD38] = address
        number, enable = (BUS_FAULT, 17) if bit < 16 else (USAGE_FAULT, 18)
        if values.get(0xD24, 0) >> enable & 1 and self._priority(number) < self._execution_priority():
            self._enter(number, pc)
        else:
            self._escalate(pc, meaning)

    def _escalate(self, pc: int, meaning: str) -> None:
        if not self.core.is_armv6:
            self.scs.values[0xD2C] = self.scs.values.get(0xD2C, 0) | 1 << 30
        self._hard_fault(pc, meaning)

    def _hard_fault(self, pc: int, meaning: str) -> None:
        if self._execution_priority() <= -1:
            self.machine.lock_up(f"in the fault handler at pc {pc:#010x}: {meaning}")
        else:
            self._enter(HARD_FAULT, pc)

    def set_vector_table(self, address: int) -> None:
        """Handles a write to VTOR."""
        alignment = self.chip.VECTOR_TABLE_ALIGNMENT
        if address % alignment:
            self.machine.note(
                f"VTOR was set to {address:#010x}, which is no multiple of {alignment}: "
                "the vectors are not where the core looks"
            )

    def _word(self, address: int) -> int | None:
        found = self.machine.memories.bytes_at(address, 4)
        return None if found is None else int.from_bytes(found, "little")

    def _enter(self, number: int, return_address: int) -> None:
        """Enters an exception: DDI 0403E B1.5.6."""
        machine = self.machine
        xpsr = machine.cpu.get("xpsr")
        floating = bool(machine.cpu.get("control") & 4)
        size = 0x68 if floating else 0x20
        stack = machine.cpu.get("sp")
        padded = stack & 4
        frame = (stack - size) & ~7
        words = [machine.cpu.get(name) for name in ("r0", "r1", "r2", "r3", "r12", "lr")]
        words += [return_address, xpsr & ~(1 << 9) | bool(padded) << 9]
        if floating:
            words += [machine.cpu.get(f"s{i}") for i in range(16)] + [machine.cpu.get("fpscr"), 0]
        place = machine.memories.at(frame, size)
        if place is None or not place[0].writable:
            # A derived BusFault; as the handlers share HardFault's priority here, entry goes on without the frame.
            if not self.core.is_armv6:
                self.scs.values[0xD28] = self.scs.values.get(0xD28, 0) | 1 << _CFSR["STKERR"]
            machine.note(f"the stack pointer {stack:#010x} leaves no room in RAM for an exception frame")
        else:
            memory, offset = place
            memory.data[offset : offset + size] = b"".join(word.to_bytes(4, "little") for word in words)
        machine.cpu.set("sp", frame)
        return_code = (0xFFFFFFF1 if self.active else 0xFFFFFFF9) & ~(0x10 if floating else 0)
        machine.cpu.set("lr", return_code)
        table = self.scs.values.get(0xD08, self.chip.VECTOR_TABLE)
        vector = self._word(table + 4 * number)
        self.active.append(number)
        if vector is None:
            machine.lock_up(f"exception {number}: no vector table at {table:#010x} (VTOR)")
            return
        if not vector & 1:
            machine.lock_up(
                f"exception {number}: its vector at {table + 4 * number:#010x}, {vector:#010x}, lacks the Thumb bit"
            )
            return
        machine.cpu.set("control", machine.cpu.get("control") & ~6)
        # Flags stay, the If-Then state does not.
        machine.cpu.set("xpsr", xpsr & 0xF80F0000 | 1 << 24 | number)
        machine.cpu.set("pc", vector)

    def exception_return(self, pc: int) -> bool:
        """Returns from an exception by loading 0xFFFFFFxx into the pc (DDI 0403E B1.5.8); False if none is active."""
        if not self.active:
            return False
        machine = self.machine
        floating = not pc & 0x10
        size = 0x68 if floating else 0x20
        frame = machine.cpu.get("sp")
        place = machine.memories.at(frame, size)
        if place is None:
            machine.lock_up(f"return from exception {self.active[-1]}: no frame at {frame:#010x}")
            return True
        memory, offset = place
        raw = bytes(memory.data[offset : offset + size])
        words = [int.from_bytes(raw[i : i + 4], "little") for i in range(0, size, 4)]
        number = self.active.pop()
        if number in self.lines:
            self.pending.add(number)
        for name, word in zip(("r0", "r1", "r2", "r3", "r12", "lr"), words, strict=False):
            machine.cpu.set(name, word)
        if floating:
            for i in range(16):
                machine.cpu.set(f"s{i}", words[8 + i])
            machine.cpu.set("fpscr", words[24])
        machine.cpu.set("sp", frame + size + (4 if words[7] >> 9 & 1 else 0))
        machine.cpu.set("xpsr", words[7] & ~(1 << 9 | 0x1FF) | (self.active[-1] if self.active else 0) | 1 << 24)
        machine.cpu.set("control", machine.cpu.get("control") & ~4 | floating << 2)
        machine.cpu.set("pc", words[6])
        return True

    # Debug.

    @contextlib.contextmanager
    def by_debugger(self) -> Iterator[None]:
        """Makes register writes inside the debugger's."""
        self._debugger = True
        try:
            yield
        finally:
            self._debugger = False

    @property
    def debugging(self) -> bool:
        """Returns whether the register that is being written is written by the debugger."""
        return self._debugger

    @property
    def debug_enabled(self) -> bool:
        """Returns DHCSR.C_DEBUGEN."""
        return bool(self.scs.values.get(0xDF0, 0) & 1)

    def _halts_after_reset(self) -> bool:
        # DEMCR.VC_CORERESET.
        return self.debug_enabled and bool(self.scs.values.get(0xDFC, 0) & 1)

    def request_reset(self, *, core_only: bool = False) -> None:
        """Requests a reset by AIRCR.SYSRESETREQ, by the core after the current instruction, by a debugger at once, or
        by a watchdog.

        Args:
            core_only: whether the peripherals go on as they are.
        """
        if self._debugger:
            self.machine.reset(halt=self._halts_after_reset(), core_only=core_only)
        else:
            self.reset_requested = True
            self._core_only = core_only
            self.machine.cpu.check_interrupts()

    def debug_status(self) -> int:
        """Returns DHCSR as read: C_ bits, S_REGRDY, S_HALT, S_SLEEP, S_LOCKUP, S_RESET_ST (cleared by reading)."""
        machine = self.machine
        status = self.scs.values.get(0xDF0, 0) & 0xF | 1 << 16 | 1 << 24
        # Halting ends a lockup: DDI 0403E C1.6.2, S_LOCKUP.
        halted = machine.run_control.halted
        status |= halted << 17 | (machine.cpu.locked_up and not halted) << 19 | self._was_reset << 25
        self._was_reset = False
        return status

    def write_dhcsr(self, value: int) -> None:
        """Halts, steps and runs: DDI 0403E C1.6.2. Only a debugger can set C_DEBUGEN."""
        if value >> 16 != 0xA05F or not self._debugger:
            return
        machine = self.machine
        self.scs.values[0xDF0] = value & 0xF
        if not value & 1:
            if machine.run_control.halted:
                machine.run_control.resume()
        elif value & 2:
            if not machine.run_control.halted:
                machine.run_control.halt()
                self.scs.values[0xD30] = self.scs.values.get(0xD30, 0) | 1
        elif machine.run_control.halted:
            if value & 4:
                machine.run_control.step()
                self.scs.values[0xDF0] |= 2
                self.scs.values[0xD30] = self.scs.values.get(0xD30, 0) | 1
            else:
                machine.run_control.resume()

    def transfer_register(self, value: int) -> None:
        """Moves a core register to DCRDR or back by DCRSR (DDI 0403E C1.6.3)."""
        machine = self.machine
        select, write = value & 0x7F, bool(value >> 16 & 1)
        if select == 20:
            names = ("primask", "basepri", "faultmask", "control")
            if write:
                for i, name in enumerate(names):
                    machine.cpu.set(name, self.scs.values.get(0xDF8, 0) >> 8 * i & 0xFF)
            else:
                self.scs.values[0xDF8] = sum((machine.cpu.get(name) & 0xFF) << 8 * i for i, name in enumerate(names))
            return
        fixed = {13: "sp", 14: "lr", 15: "pc", 16: "xpsr", 17: "msp", 18: "psp", 33: "fpscr"}
        chosen = f"r{select}" if select < 13 else f"s{select - 64}" if 64 <= select < 96 else fixed.get(select)
        if chosen is None:
            return
        if chosen == "msp":
            # The engine banks the current stack pointer in r13.
            chosen = "sp"
        if write:
            machine.cpu.set(chosen, self.scs.values.get(0xDF8, 0))
        else:
            value = machine.cpu.get(chosen)
            self.scs.values[0xDF8] = value & ~1 if chosen == "pc" else value
