"""Models the peripherals that STM32WB55 and STM32L475 have in common; parameters hold the differences.

Behaviour: RM0434 (STM32WB55) and RM0351 (STM32L47x), by chapter: "Reset and clock control (RCC)", "Power control
(PWR)", "Embedded flash memory (FLASH)", "General-purpose I/Os (GPIO)", "Universal synchronous/asynchronous receiver
transmitter (USART/UART)" and "Low-power universal asynchronous receiver transmitter (LPUART)".
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import unicorn

from boardsim.chip import Chip
from boardsim.memory import Memory
from boardsim.peripheral import Host, Peripheral, torn
from boardsim.serial import BITS, Receiver
from npu.registers import numbered

_MSI_HZ = (
    *(100_000, 200_000, 400_000, 800_000, 1_000_000, 2_000_000),
    *(4_000_000, 8_000_000, 16_000_000, 24_000_000, 32_000_000, 48_000_000),
)
_HSI_HZ = 16_000_000
_LSE_HZ = 32_768
# Start-up times in nanoseconds, of the order that the data sheets give as typical.
_MSI_START, _HSI_START, _HSE_START, _PLL_LOCK, _REGULATOR = 3e3, 2e3, 500e3, 15e3, 20e3
_PAGE_ERASE, _MASS_ERASE, _PROGRAM, _PROGRAM_FAST = 22.0e6, 22.1e6, 82e3, 60e3

MSI, HSI, HSE, PLL = range(4)
_SOURCES = ("MSI", "HSI16", "HSE", "PLL")
_ON = {MSI: 0, HSI: 8, HSE: 16, PLL: 24}
_READY = {MSI: 1, HSI: 10, HSE: 17, PLL: 25}


@dataclass(frozen=True)
class Family:
    """The differences between the chips."""

    #: HPRE and its like -> divider, for codes below 8; 8 to 15 are the usual powers of two.
    ahb_dividers: Mapping[int, int]
    #: Bit of PLLREN, and output divider by the value of PLLR.
    pll_r_enable: int
    pll_r_divider: Callable[[int], int]
    #: Lowest and highest frequency of the PLL's input and of its oscillator.
    pll_input: tuple[float, float]
    pll_vco: tuple[float, float]
    #: Highest flash clock in MHz by wait states, for voltage range 1 and 2.
    wait_states: Mapping[int, tuple[int, ...]]
    #: Highest system clock in MHz in voltage range 1 and 2.
    fastest: Mapping[int, int]
    #: Whether flash and the radio core have dividers of their own (EXTCFGR).
    extended: bool
    #: Bytes of a flash page and of a row of fast programming; banks.
    page: int
    row: int
    banks: int
    #: Whether the core may erase all of the flash at once; if not, it gets a bus error.
    mass_erase: bool
    #: Reset values of RCC_CR, RCC_CFGR and RCC_PLLCFGR.
    cr: int
    cfgr: int
    pllcfgr: int
    #: Manual, for messages.
    manual: str
    #: Kernel clock selection: name of the serial port -> lowest bit of its field in CCIPR.
    serial_select: Mapping[str, int] = field(default_factory=dict)


def ahb_divider(code: int, below_8: Mapping[int, int] | None = None) -> int:
    """Returns what HPRE and its like divide by, with a chip's dividers by the codes below 8."""
    return {8: 2, 9: 4, 10: 8, 11: 16, 12: 64, 13: 128, 14: 256, 15: 512, **(below_8 or {})}.get(code, 1)


def apb_divider(code: int) -> int:
    """Returns what PPRE1 and its like divide by."""
    return 1 if code < 4 else 1 << code - 3


class ClockControl(Peripheral):
    """RCC of any STM32 so far as its register CR goes, at offset 0: oscillators and a PLL, each with a bit that turns
    it on and one that says that it is ready.

    Class attributes:
        SOURCES: names of the clocks' sources; the PLL is the last one.
        ON, READY: bits of CR, by index of SOURCES.
        STATUS: all bits of CR that are read only.
    """

    SOURCES: tuple[str, ...] = ()
    ON: Mapping[int, int] = {}
    READY: Mapping[int, int] = {}
    STATUS = 0

    _pll_hz = 0.0

    def reset(self) -> None:
        super().reset()
        self._pll_hz = 0.0

    def enabled(self, register: int, bit: int) -> bool:
        """Returns whether a peripheral's bit in one of the ENR registers is set."""
        return bool(self.values.get(register, 0) >> bit & 1)

    def is_ready(self, source: int) -> bool:
        """Returns whether an oscillator's ready bit is set."""
        return bool(self.values.get(0, 0) >> self.READY[source] & 1)

    def system_source(self) -> int:
        """Returns the oscillator that the system clock is made of."""
        raise NotImplementedError

    def pll_source(self) -> int:
        """Returns the oscillator that the PLL is set to; any other number for none."""
        raise NotImplementedError

    def start(self, source: int) -> None:
        """Turns on an oscillator; calls got_ready() when it has started."""
        raise NotImplementedError

    def switch(self) -> None:
        """Handles an oscillator that got ready, or another source of the system clock."""
        raise NotImplementedError

    def changed(self) -> None:
        """Handles changed clocks or dividers."""
        raise NotImplementedError

    def write_cr(self, value: int) -> None:
        """Writes CR."""
        before, pll = self.values[0], len(self.SOURCES) - 1
        value = value & ~self.STATUS | before & self.STATUS
        used = {self.system_source()}
        if pll in used:
            used.add(self.pll_source())
        for source, bit in self.ON.items():
            if before >> bit & 1 and not value >> bit & 1 and source in used:
                self.machine.note(f"{self.SOURCES[source]} was turned off while the system clock needs it: it stays on")
                value |= 1 << bit
        self.values[0] = value
        for source, bit in self.ON.items():
            if value >> bit & 1 and not before >> bit & 1:
                self.start(source)
            elif not value >> bit & 1:
                self.values[0] &= ~(1 << self.READY[source])
                if source == pll:
                    self.alarm.cancel()
                    self._pll_hz = 0.0
        self.changed()

    def start_pll(self, hz: float, nanoseconds: float) -> None:
        """Locks the PLL after some time; then its output has a frequency, 0 if it is off."""
        self._pll_hz = hz
        self.alarm.start(nanoseconds, lambda: self.got_ready(len(self.SOURCES) - 1))

    def got_ready(self, source: int) -> None:
        """Marks an oscillator as started, if it was not turned off meanwhile."""
        if self.values[0] >> self.ON[source] & 1:
            self.values[0] |= 1 << self.READY[source]
            self.switch()


class Rcc(ClockControl):
    """Reset and clock control. `hse_hz` is 0 on a board without a crystal."""

    SOURCES = _SOURCES
    ON = _ON
    READY = _READY
    STATUS = sum(1 << bit for bit in _READY.values())

    NAMES = numbered(
        "0x000 CR ICSCR CFGR PLLCFGR PLLSAI1CFGR PLLSAI2CFGR CIER CIFR CICR 0x028 AHB1RSTR AHB2RSTR AHB3RSTR "
        "0x038 APB1RSTR1 APB1RSTR2 APB2RSTR 0x048 AHB1ENR AHB2ENR AHB3ENR 0x058 APB1ENR1 APB1ENR2 APB2ENR "
        "0x068 AHB1SMENR AHB2SMENR AHB3SMENR 0x078 APB1SMENR1 APB1SMENR2 APB2SMENR 0x088 CCIPR 0x090 BDCR CSR CRRCR "
        "HSECR 0x108 EXTCFGR",
        step=4,
    )

    def __init__(self, machine: Host, base: int, family: Family, hse_hz: int) -> None:
        self._family = family
        self._hse_hz = hse_hz
        self.flash: Flash | None = None
        self.power: Power | None = None
        super().__init__(machine, "RCC", base)

    def reset(self) -> None:
        super().reset()
        # PINRSTF and BORRSTF.
        self.values |= {
            0x00: self._family.cr | 1 << _READY[MSI],
            0x08: self._family.cfgr,
            0x0C: self._family.pllcfgr,
            0x94: 0x0C000000,
            0x108: 0x00030000 if self._family.extended else 0,
        }

    # Frequencies.

    def system_source(self) -> int:
        return self.values[8] >> 2 & 3

    def pll_source(self) -> int:
        return (self.values.get(0x0C, 0) & 3) - 1

    def _hz(self, source: int) -> float:
        if source == MSI:
            return _MSI_HZ[min(self.values[0] >> 4 & 15, len(_MSI_HZ) - 1)]
        if source == HSE:
            return self._hse_hz / (2 if self._family.extended and self.values[0] >> 20 & 1 else 1)
        return _HSI_HZ if source == HSI else self._pll_hz

    @property
    def system_hz(self) -> float:
        """Returns SYSCLK."""
        return self._hz(self.system_source())

    @property
    def core_hz(self) -> float:
        """Returns HCLK1, the core's."""
        return self.system_hz / ahb_divider(self.values[8] >> 4 & 15, self._family.ahb_dividers)

    @property
    def flash_hz(self) -> float:
        """Returns HCLK4, the clock of flash and SRAM2; HCLK if there is none."""
        if not self._family.extended:
            return self.core_hz
        return self.system_hz / ahb_divider(self.values.get(0x108, 0) & 15, self._family.ahb_dividers)

    def _bus_hz(self, bus: int) -> float:
        code = self.values[8] >> (8 if bus == 1 else 11) & 7
        return self.core_hz / apb_divider(code)

    def timer_hz(self, bus: int) -> float:
        """Returns the clock of the timers on a bus: twice the bus's where that is divided (RM0434, "Timer clock")."""
        return min(self.core_hz, 2 * self._bus_hz(bus))

    def serial_hz(self, name: str, bus: int) -> float:
        """Returns the kernel clock of a serial port."""
        select = self.values.get(0x88, 0) >> self._family.serial_select[name] & 3
        return (self._bus_hz(bus), self.system_hz, float(_HSI_HZ), float(_LSE_HZ))[select]

    # Registers.

    def write(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self.write_cr(value)
        elif offset == 0x08:
            status = self.values[8] & 0xC | self._family.cfgr & 0x70000
            self.values[8] = value & ~0x7000C | status
            self.switch()
        elif offset == 0x0C:
            if self.values[0] >> _ON[PLL] & 1 and (value ^ self.values.get(0x0C, 0)) & 0x7F73:
                self.machine.note(
                    "RCC_PLLCFGR was written while the PLL is on: the new values are not taken "
                    f'({self._family.manual}, "PLL configuration register")'
                )
                return
            self.values[0x0C] = value
        elif offset == 0x94 and value >> 23 & 1:
            # RMVF clears the reset flags.
            self.values[0x94] = value & 0x007FFFFF & ~(1 << 23)
        elif offset == 0x108 and self._family.extended:
            # SHDHPREF and C2HPREF: the new divider is applied.
            self.values[0x108] = value & 0xFF | 0x30000
            self.changed()
        else:
            super().write(offset, value)

    def start(self, source: int) -> None:
        if source == PLL:
            self._lock_pll()
        elif source == HSE and not self._hse_hz:
            self.machine.note("HSE was turned on, but the board has no crystal: it never gets ready")
        else:
            time = {MSI: _MSI_START, HSI: _HSI_START, HSE: _HSE_START}[source]
            self.machine.clock.after(time, lambda: self.got_ready(source))

    def _lock_pll(self) -> None:
        config = self.values.get(0x0C, 0)
        source = self.pll_source()
        why = None
        if source < 0:
            why = "it has no source (PLLSRC)"
        elif not self.is_ready(source):
            why = f"its source {_SOURCES[source]} was not ready"
        else:
            pre = self._hz(source) / ((config >> 4 & 7) + 1)
            vco = pre * (config >> 8 & 0x7F)
            low, high = self._family.pll_input
            slowest, fastest = self._family.pll_vco
            if not low <= pre <= high:
                why = f"its input of {pre / 1e6:g} MHz is outside {low / 1e6:g} to {high / 1e6:g} MHz (PLLM)"
            elif not slowest <= vco <= fastest:
                why = (
                    f"its oscillator at {vco / 1e6:g} MHz is outside {slowest / 1e6:g} to {fastest / 1e6:g} MHz (PLLN)"
                )
        if why:
            self.machine.note(f'the PLL was turned on, but {why}: it never locks ({self._family.manual}, RCC, "PLLs")')
            return
        enabled = config >> self._family.pll_r_enable & 1
        self.start_pll(vco / self._family.pll_r_divider(config) if enabled else 0.0, _PLL_LOCK)

    def switch(self) -> None:
        # The system clock follows SW once the wanted clock is ready.
        wanted = self.values[8] & 3
        if wanted == self.system_source():
            self.changed()
            return
        if not self.is_ready(wanted):
            self.machine.note(
                f"SYSCLK was switched to {_SOURCES[wanted]} before that was ready: the switch waits for it"
            )
            return
        if wanted == PLL and not self._pll_hz:
            self.machine.lock_up("SYSCLK was switched to the PLL's output R, which is off (PLLREN)")
            return
        self.values[8] = self.values[8] & ~0xC | wanted << 2
        self.changed()

    def changed(self) -> None:
        self.machine.clock.set_hz(int(self.core_hz))
        self.check()

    def check(self) -> None:
        """Checks that flash, regulator and radio core stand the clocks as they are."""
        if self.power is None or self.flash is None:
            return
        family = self._family
        voltage = self.power.range
        system = self.system_hz / 1e6
        if system > family.fastest[voltage]:
            self.machine.lock_up(
                f"the core runs at {system:g} MHz in voltage range {voltage}, "
                f"which allows {family.fastest[voltage]} MHz "
                f'({family.manual}, PWR, "Dynamic voltage scaling management")'
            )
        limits = family.wait_states[voltage]
        states = self.flash.latency
        allowed = limits[min(states, len(limits) - 1)]
        if self.flash_hz / 1e6 > allowed:
            self.machine.lock_up(
                f"flash is read at {self.flash_hz / 1e6:g} MHz with {states} wait states, "
                f"which allow {allowed} MHz in voltage "
                f'range {voltage} ({family.manual}, FLASH, "Read access latency")'
            )
        if family.extended:
            divider = ahb_divider(self.values.get(0x108, 0) >> 4 & 15, family.ahb_dividers)
            radio = self.system_hz / divider / 1e6
            if radio > 32:
                self.machine.note(
                    f'HCLK2, the radio core\'s clock, is {radio:g} MHz; at most 32 (RM0434, RCC, "Clocks")'
                )


class Power(Peripheral):
    """Power control: the voltage range."""

    NAMES = numbered("0x00 CR1 CR2 CR3 CR4 SR1 SR2 SCR CR5 0x80 C2CR1 C2CR3 EXTSCR", step=4) | {
        0x20 + 4 * i: f"P{'UD'[i % 2]}CR{'ABCDEFGH'[i // 2]}" for i in range(16)
    }
    RESET = {0x00: 0x200, 0x08: 0x8000}

    def __init__(self, machine: Host, base: int, rcc: Rcc, clock: tuple[int, int] | None = None) -> None:
        self._rcc = rcc
        self._clock = clock
        super().__init__(machine, "PWR", base)

    def clocked(self) -> bool:
        return self._clock is None or self._rcc.enabled(*self._clock)

    @property
    def range(self) -> int:
        """Returns the voltage range that the regulator has: 1 or 2."""
        # VOSF is set while it rises from range 2 to 1: the voltage is still that of range 2.
        return 1 if self.values[0] >> 9 & 3 == 1 and not self.values.get(0x14, 0) >> 10 & 1 else 2

    def write(self, offset: int, value: int) -> None:
        if offset in (0x10, 0x14):
            return
        before = self.values.get(0, 0) >> 9 & 3
        super().write(offset, value)
        if offset == 0 and value >> 9 & 3 != before:
            if value >> 9 & 3 == 1:
                self.values[0x14] = self.values.get(0x14, 0) | 1 << 10
                self.machine.clock.after(_REGULATOR, self._settled)
            self._rcc.check()

    def _settled(self) -> None:
        self.values[0x14] = self.values.get(0x14, 0) & ~(1 << 10)


# FLASH_SR.
_EOP, _OPERR, _PROGERR, _WRPERR, _PGAERR, _SIZERR, _PGSERR, _MISERR, _FASTERR = (
    1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 9)
)
_OPTVERR, _BSY, _CFGBSY = 1 << 15, 1 << 16, 1 << 18
# FLASH_CR.
_PG, _PER, _MER1, _MER2, _STRT, _FSTPG = (1 << bit for bit in (0, 1, 2, 15, 16, 18))
_OPTLOCK, _LOCK = 1 << 30, 1 << 31
# FLASH_ECCR, and the number of NMI as an interrupt of the chip.
_ECCD, _NMI = 1 << 31, 2 - 16


class Flash(Peripheral):
    """The flash controller: keys, double-word and row programming, page and mass erase, busy and error bits.

    An erased double word is programmed once; another write to it sets PROGERR and leaves it. Operations take their
    time, in which BSY is set; a piece that is being erased or programmed when the power goes has no defined contents,
    and reading it raises NMI until it is erased or programmed with zeros ("Error code correction (ECC)").
    """

    NAMES = numbered(
        "0x00 ACR PDKEYR KEYR OPTKEYR SR CR ECCR 0x20 OPTR PCROP1ASR PCROP1AER WRP1AR WRP1BR PCROP1BSR PCROP1BER "
        "IPCCBR 0x5C C2ACR C2SR C2CR 0x80 SFR SRRVR",
        step=4,
    )

    def __init__(
        self, machine: Host, base: int, memory: Memory, rcc: Rcc, family: Family, options: Mapping[int, int]
    ) -> None:
        self._memory = memory
        self._rcc = rcc
        self._family = family
        self._options = options
        self._half: tuple[int, int] | None = None
        self._row: list[tuple[int, bytes]] = []
        self._torn: list[tuple[int, int]] = []
        # Offsets of double words that ECC can't correct, and hooks on reads of them.
        self._broken: set[int] = set()
        self._hooks: list[int] = []
        super().__init__(machine, "FLASH", base)

    def reset(self) -> None:
        super().reset()
        # OPTVERR is set on an STM32WB55: errata ES0394, "Flash OPTVERR flag is always set after system reset".
        self.values |= {0x00: 0x600, 0x10: _OPTVERR * self._family.extended, 0x14: 0xC0000000, **self._options}
        self._key = 0
        self._option_key = 0
        self._locked_for_good = False
        self._half = None
        self._row.clear()
        self._tear()

    @property
    def latency(self) -> int:
        """Returns wait states."""
        return self.values[0] & 7

    @property
    def secure_start(self) -> int:
        """Returns bytes of flash before the radio core's (SFR.SFSA, RM0434); all of it if there is none."""
        pages = self.values.get(0x80, 0x100) & 0x1FF if self._family.extended else 0x100
        return self._memory.size if pages & 0x100 else pages * 4096

    @property
    def busy(self) -> bool:
        return bool(self.values.get(0x10, 0) & _BSY)

    def _tear(self) -> None:
        """Ends an operation before its time, by loss of power or a reset: its range is neither old nor new."""
        for start, size in self._torn:
            self._memory.data[start : start + size] = torn(start, bytes(self._memory.data[start : start + size]))
            self._broken.update(range(start, start + size, 8))
            for base in (self._memory.base, *self._memory.aliases):
                first, last = base + start, base + start + size - 1
                hook = self.machine.cpu.engine.hook_add(unicorn.UC_HOOK_MEM_READ, self._read, begin=first, end=last)
                self._hooks.append(hook)
        self._torn = []

    def _read(self, _engine: object, _access: int, address: int, _size: int, _value: int, _data: object) -> None:
        """Looks at a read of a double word that was torn."""
        offset = self._memory.offset(address)
        if offset is not None and offset & ~7 in self._broken and not self.values.get(0x18, 0) & _ECCD:
            self.values[0x18] = self.values.get(0x18, 0) & 1 << 24 | _ECCD | offset >> 3
            self.machine.interrupts.set_line(_NMI, True)

    def _mend(self, start: int, size: int) -> None:
        """Forgets double words that have defined contents again."""
        self._broken.difference_update(range(start, start + size, 8))
        if self._hooks and not self._broken:
            for hook in self._hooks:
                self.machine.cpu.engine.hook_del(hook)
            self._hooks.clear()
            self.machine.cpu.retranslate()

    def after_power_loss(self) -> bytes:
        """Returns the contents that flash would have if power went now."""
        data = bytearray(self._memory.data)
        for start, size in self._torn:
            data[start : start + size] = torn(start, bytes(data[start : start + size]))
        return bytes(data)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self.values[0] = value & ~0x1800 | self.values[0] & 0x1800
            self._rcc.check()
        elif offset == 0x08:
            self._unlock(value)
        elif offset == 0x0C:
            self._unlock_options(value)
        elif offset == 0x10:
            self.values[0x10] = self.values.get(0x10, 0) & ~(value & 0xC3FB)
        elif offset == 0x14:
            self._write_cr(value)
        elif offset == 0x18:
            # ECCCIE is written; ECCC and ECCD are cleared by ones.
            self.values[0x18] = (self.values.get(0x18, 0) & ~(value & 3 << 30 | 1 << 24)) | value & 1 << 24
            if value & _ECCD:
                self.machine.interrupts.set_line(_NMI, False)
        elif offset in (0x20, 0x2C, 0x30) and self.values[0x14] & _OPTLOCK:
            self.machine.note(
                f"{self.register_name(offset)} was written while the option bytes are locked: nothing happened"
            )
        elif offset not in (0x80, 0x84):
            super().write(offset, value)

    def _unlock(self, value: int) -> None:
        # "FLASH program memory unlock": a wrong key locks until the next reset.
        if self._locked_for_good:
            return
        if self._key == 0 and value == 0x45670123:
            self._key = 1
        elif self._key == 1 and value == 0xCDEF89AB:
            self._key = 0
            self.values[0x14] &= ~_LOCK
        else:
            self._locked_for_good = True
            self.machine.note("a wrong key was written to FLASH_KEYR: FLASH_CR stays locked until the next reset")

    def _unlock_options(self, value: int) -> None:
        if self.values[0x14] & _LOCK:
            return
        if self._option_key == 0 and value == 0x08192A3B:
            self._option_key = 1
        elif self._option_key == 1 and value == 0x4C5D6E7F:
            self._option_key = 0
            self.values[0x14] &= ~_OPTLOCK
        else:
            self._locked_for_good = True

    def _error(self, bits: int) -> None:
        self.values[0x10] = self.values.get(0x10, 0) | bits | _OPERR * bool(self.values[0x14] >> 25 & 1)

    def _write_cr(self, value: int) -> None:
        if self.values[0x14] & _LOCK:
            self.machine.note("FLASH_CR was written while it is locked: nothing happened")
            return
        if self.busy:
            self.machine.note("FLASH_CR was written during an operation (BSY): nothing happened")
            return
        start = value & _STRT
        # LOCK and OPTLOCK can only be set.
        self.values[0x14] = value & ~_STRT | self.values[0x14] & _OPTLOCK & value
        if not value & _FSTPG and self._row:
            # "Fast programming": a row that is not complete is not programmed.
            self._row.clear()
            self._error(_FASTERR)
        if not value & (_PG | _FSTPG):
            self._half = None
        if start:
            self._erase(value)

    def _erase(self, value: int) -> None:
        size = self._memory.size
        page = self._family.page
        if value & (_PG | _FSTPG) or not value & (_PER | _MER1 | _MER2):
            self._error(_PGSERR)
            return
        if not value & _PER and not self._family.mass_erase:
            self.machine.note(
                f"a mass erase was begun, which {self._family.manual} does not let this core do "
                '(FLASH, "Flash main memory erase sequences"): it is ignored, with a bus error'
            )
            self.machine.bus_error(self.base + 0x14)
            return
        if value & _PER:
            number = value >> 3 & 0xFF
            bank = value >> 11 & 1 if self._family.banks == 2 else 0
            ranges = [(bank * size // 2 + number * page, page)]
            time = _PAGE_ERASE
        else:
            half = size // self._family.banks
            ranges = [(0, half)] * bool(value & _MER1) + [(half, half)] * bool(
                value & _MER2 and self._family.banks == 2
            )
            time = _MASS_ERASE
        secure = self.secure_start
        if value & _PER and ranges[0][0] >= secure:
            self._error(_WRPERR)
            self.machine.note("a page of the radio core's secure flash was to be erased (SFSA)")
            return
        writable = [(start, min(length, secure - start)) for start, length in ranges if start < secure]
        self._begin(writable, time, lambda: self._blank(writable))

    def _blank(self, ranges: list[tuple[int, int]]) -> None:
        for start, size in ranges:
            self._memory.data[start : start + size] = b"\xff" * size
            self._mend(start, size)

    def _begin(self, ranges: list[tuple[int, int]], nanoseconds: float, action: Callable[[], None]) -> None:
        """Starts an operation on ranges (offset, bytes) that is done after a time."""
        self.values[0x10] = self.values.get(0x10, 0) | _BSY
        self._torn = ranges

        def done() -> None:
            self._torn = []
            action()
            self.values[0x10] &= ~_BSY
            # EOP is set only with EOPIE: "FLASH status register".
            if self.values[0x14] >> 24 & 1:
                self.values[0x10] |= _EOP
            self.machine.code_changed()

        self.alarm.start(nanoseconds, done)

    def written(self, offset: int, size: int, value: int) -> None:
        """Handles a store to flash."""
        control = self.values[0x14]
        errors = self.values.get(0x10, 0) & (_PROGERR | _WRPERR | _PGAERR | _SIZERR | _PGSERR | _MISERR | _FASTERR)
        if control & _LOCK or not control & (_PG | _FSTPG) or errors:
            self._error(_PGSERR)
            self.machine.note(
                f"flash was written at offset {offset:#x} "
                + (
                    "with errors in FLASH_SR"
                    if errors
                    else "without PG in FLASH_CR"
                    if not control & _LOCK
                    else "while it is locked"
                )
                + ": nothing happened"
            )
            return
        if control & _FSTPG and not self._family.mass_erase:
            # "Fast programming": PGSERR unless all was erased at once before.
            self._error(_PGSERR)
            self.machine.note("flash was written by fast programming without a mass erase before: nothing happened")
            return
        if self.busy and not control & _FSTPG:
            self._error(_PGSERR)
            self.machine.note("flash was written during an operation (BSY): nothing happened")
            return
        if size != 4:
            self._error(_SIZERR)
            return
        if self._half is None:
            if offset % 8:
                self._error(_PGAERR)
            else:
                self._half = (offset, value)
            return
        start, low = self._half
        self._half = None
        if offset != start + 4:
            self._error(_PGAERR)
            return
        if start >= self.secure_start:
            self._error(_WRPERR)
            return
        data = low.to_bytes(4, "little") + value.to_bytes(4, "little")
        if control & _FSTPG:
            self._fast(start, data)
        else:
            self._begin([(start, 8)], _PROGRAM, lambda: self.program(start, data))

    def program(self, start: int, data: bytes) -> None:
        """Programs a double word."""
        before = bytes(self._memory.data[start : start + 8])
        # "Standard programming": only over an erased double word, or with zeros.
        if before != b"\xff" * 8 and data != bytes(8):
            self._error(_PROGERR)
            self.machine.note(f"flash at offset {start:#x} was programmed without being erased: it is unchanged")
            return
        self._memory.data[start : start + 8] = data
        self._mend(start, 8)

    def _fast(self, start: int, data: bytes) -> None:
        row = self._family.row
        if self._row and start != self._row[-1][0] + 8 or not self._row and start % row:
            self._row.clear()
            self._error(_PGAERR)
            return
        self._row.append((start, data))
        if len(self._row) * 8 == row:
            content, self._row = self._row, []

            def program() -> None:
                for at, double_word in content:
                    # "Fast programming": the row must have been erased; else the result is undefined.
                    for i, byte in enumerate(double_word):
                        self._memory.data[at + i] &= byte

            self._begin([(content[0][0], row)], _PROGRAM_FAST * row / 8, program)


class ClockTree(Protocol):
    """The part of the RCC that ports and serial ports see."""

    def enabled(self, register: int, bit: int) -> bool:
        """Returns whether a peripheral's bit in one of the ENR registers is set."""

    def serial_hz(self, name: str, bus: int) -> float:
        """Returns the kernel clock of a serial port."""


class Gpio(Peripheral):
    """A port of 16 pins. `inputs` are levels that the outside drives, by pin."""

    NAMES = numbered("0x00 MODER OTYPER OSPEEDR PUPDR IDR ODR BSRR LCKR AFRL AFRH BRR", step=4)

    def __init__(self, machine: Host, port: str, base: int, rcc: ClockTree, clock: tuple[int, int], moder: int) -> None:
        self._rcc = rcc
        self._clock = clock
        self._moder = moder
        self.inputs: dict[int, bool] = {}
        super().__init__(machine, f"GPIO{port}", base)

    def reset(self) -> None:
        super().reset()
        self.values[0] = self._moder

    def clocked(self) -> bool:
        return self._rcc.enabled(*self._clock)

    def level(self, pin: int) -> bool:
        """Returns the level at a pin: what the port or the outside drives, or what a pull-up does."""
        if self.values.get(0, 0) >> 2 * pin & 3 == 1:
            return bool(self.values.get(0x14, 0) >> pin & 1)
        return self.inputs.get(pin, self.values.get(0x0C, 0) >> 2 * pin & 3 == 1)

    def function(self, pin: int) -> int | None:
        """Returns the alternate function that a pin is switched to; None if it is not in that mode."""
        if self.values.get(0, 0) >> 2 * pin & 3 != 2:
            return None
        return self.values.get(0x20 + 4 * (pin // 8), 0) >> 4 * (pin % 8) & 15

    def read(self, offset: int) -> int:
        if offset == 0x10:
            # A pin in analog mode reads as zero.
            return sum(self.level(pin) << pin for pin in range(16) if self.values.get(0, 0) >> 2 * pin & 3 != 3)
        return 0 if offset in (0x18, 0x28) else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x18:
            self.values[0x14] = self.values.get(0x14, 0) & ~(value >> 16) | value & 0xFFFF
        elif offset == 0x28:
            self.values[0x14] = self.values.get(0x14, 0) & ~value
        elif offset != 0x10:
            super().write(offset, value)


@dataclass(frozen=True)
class Pin:
    """A pin that carries a signal: port, number and alternate function."""

    port: str
    number: int
    function: int


class Usart(Peripheral):
    """A serial port: USART, UART or LPUART, asynchronous, 8 data bits.

    Args:
        divider: the factor of the baud rate in BRR: 1, and 256 for an LPUART.
        pins: pins that can carry TX and RX, as the data sheet's table of alternate functions has them.
    """

    NAMES = numbered("0x00 CR1 CR2 CR3 BRR GTPR RTOR RQR ISR ICR RDR TDR PRESC", step=4)
    _ORE, _RXNE, _TC, _TXE = 1 << 3, 1 << 5, 1 << 6, 1 << 7

    def __init__(
        self,
        machine: Host,
        name: str,
        base: int,
        *,
        rcc: ClockTree,
        clock: tuple[int, int],
        bus: int,
        interrupt: int,
        ports: Mapping[str, Gpio],
        tx: tuple[Pin, ...],
        rx: tuple[Pin, ...],
        divider: int = 1,
    ) -> None:
        self._rcc = rcc
        self._clock = clock
        self._bus = bus
        self._interrupt = interrupt
        self._ports = ports
        self._tx = tx
        self._rx = rx
        self._divider = divider
        self._receiver = Receiver(machine.console, machine.clock, lambda: self.baud, self._arrived)
        super().__init__(machine, name, base)

    def reset(self) -> None:
        super().reset()
        self._flags = self._TC | self._TXE
        self._received = 0
        self._next: int | None = None
        self._sending = False
        self._receiver.reset()

    def clocked(self) -> bool:
        return self._rcc.enabled(*self._clock)

    @property
    def _is_console(self) -> bool:
        return self.machine.board.console.get("uart") == self.name

    @property
    def baud(self) -> float:
        """Returns the baud rate by BRR and the kernel clock; 0 if BRR is."""
        divisor = self.values.get(0x0C, 0)
        clock = self._rcc.serial_hz(self.name, self._bus) * self._divider
        if self.values.get(0, 0) >> 15 & 1 and self._divider == 1:
            # Oversampling by 8.
            divisor = divisor & ~0xF | (divisor & 7) << 1
            clock *= 2
        return clock / divisor if divisor else 0.0

    def _routed(self, pins: tuple[Pin, ...]) -> bool:
        return any(self._ports[pin.port].function(pin.number) == pin.function for pin in pins)

    def _update_interrupt(self) -> None:
        control = self.values.get(0, 0)
        level = bool(
            control >> 5 & 1
            and self._flags & (self._RXNE | self._ORE)
            or control >> 6 & 1
            and self._flags & self._TC
            or control >> 7 & 1
            and self._flags & self._TXE
        )
        self.machine.interrupts.set_line(self._interrupt, level)

    def read(self, offset: int) -> int:
        if offset == 0x1C:
            control = self.values.get(0, 0)
            enabled = control & 1
            # TEACK and REACK.
            return self._flags | bool(enabled and control & 8) << 21 | bool(enabled and control & 4) << 22
        if offset == 0x24:
            self._flags &= ~self._RXNE
            self._update_interrupt()
            return self._received
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        control = self.values.get(0, 0)
        if offset == 0x0C and control & 1:
            self.machine.note(f"{self.name}_BRR was written while {self.name} is enabled (UE): nothing happened")
            return
        if offset == 0x28:
            self._send(value & 0xFF)
            return
        if offset == 0x20:
            self._flags &= ~(value & (self._ORE | self._TC))
        elif offset not in (0x1C, 0x24):
            super().write(offset, value)
        if offset == 0x00:
            # UE, RE.
            self._receiver.listen(value & 5 == 5 and self._is_console)
        self._update_interrupt()

    # Sending.

    def _send(self, byte: int) -> None:
        if self.values.get(0, 0) & 9 != 9:
            self.machine.note(f"{self.name}_TDR was written while the transmitter is off (UE, TE): the byte is lost")
            return
        if not self._flags & self._TXE:
            self.machine.note(f"{self.name}_TDR was written before it was empty (TXE): a byte is lost")
        self._flags &= ~(self._TXE | self._TC)
        self._next = byte
        if not self._sending:
            self._shift()

    def _shift(self) -> None:
        """Moves the next byte from TDR to the shift register."""
        assert self._next is not None
        byte, self._next = self._next, None
        self._flags |= self._TXE
        baud = self.baud
        if not baud or self._divider > 1 and self.values[0x0C] < 0x300:
            least = "0x300" if self._divider > 1 else "1"
            self.machine.note(f"{self.name}_BRR is {self.values.get(0x0C, 0):#x}, at least {least}: nothing is sent")
            return
        self._sending = True
        self.machine.clock.after(BITS * 1e9 / baud, lambda: self._sent(byte, baud))
        self._update_interrupt()

    def _sent(self, byte: int, baud: float) -> None:
        if self._is_console:
            if self._routed(self._tx):
                self.machine.console.receive(byte, baud)
            else:
                self.machine.note(f"{self.name} sends, but none of its TX pins is switched to it: nothing arrives")
        if self._next is not None:
            self._shift()
        else:
            self._sending = False
            self._flags |= self._TC
            self._update_interrupt()

    # Receiving.

    def _arrived(self, byte: int) -> None:
        if not self._receiver.listening:
            return
        if not self._routed(self._rx):
            self.machine.note(f"none of the RX pins of {self.name} is switched to it: what is typed does not arrive")
        elif self._flags & self._RXNE:
            self._flags |= self._ORE
            self.machine.note(f"{self.name} received a byte before the last one was read: it is lost (ORE)")
        else:
            self._received = byte
            self._flags |= self._RXNE
        self._update_interrupt()


class Watchdog(Peripheral):
    """The independent watchdog: off until it is started, then it resets the chip unless it is fed in time."""

    NAMES = {0x00: "KR", 0x04: "PR", 0x08: "RLR", 0x0C: "SR", 0x10: "WINR"}
    RESET = {0x08: 0xFFF, 0x10: 0xFFF}
    _LSI_HZ = 32_000

    def reset(self) -> None:
        super().reset()
        self._unlocked = False
        self._running = False

    def read(self, offset: int) -> int:
        return 0 if offset in (0x00, 0x0C) else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self._unlocked = value == 0x5555
            self._running = self._running or value == 0xCCCC
            if value in (0xCCCC, 0xAAAA):
                self._feed()
        elif self._unlocked:
            super().write(offset, value)

    def _feed(self) -> None:
        if self._running:
            divider = 4 << min(self.values.get(0x04, 0), 6)
            ticks = self.values[0x08] + 1
            self.alarm.start(ticks * divider * 1e9 / self._LSI_HZ, self.watchdog_expired)


@dataclass(frozen=True)
class Layout:
    """The addresses and parameters of a chip: "Memory map and register boundary addresses".

    Attributes:
        family: the differences of its peripherals.
        rcc, power, flash: base addresses.
        power_clock: register and bit of RCC that enable the PWR; None if it is always on.
        hse_hz: frequency of the crystal if a board does not give it; 0 is none.
        options: option registers as delivered, by offset in FLASH.
        ports: index and MODER after a reset, of each GPIO port.
        usart1_interrupt: its number.
        usart1_tx, usart1_rx: pins that can carry its signals (data sheet, "Alternate functions").
        identity: DBGMCU_IDCODE ("MCU device ID code").
    """

    family: Family
    rcc: int
    power: int
    flash: int
    power_clock: tuple[int, int] | None
    hse_hz: int
    options: Mapping[int, int]
    ports: Mapping[str, tuple[int, int]]
    usart1_interrupt: int
    usart1_tx: tuple[Pin, ...]
    usart1_rx: tuple[Pin, ...]
    identity: int


class Dbgmcu(Peripheral):
    """The debugger's block, which identifies the chip: "MCU device ID code"."""

    NAMES = {0x00: "IDCODE", 0x04: "CR"}

    def __init__(self, machine: Host, base: int, identity: int) -> None:
        self._identity = identity
        super().__init__(machine, "DBGMCU", base)

    def read(self, offset: int) -> int:
        return self._identity if offset == 0 else super().read(offset)


class Stm32(Chip):
    """The common part of the chips: flash with its alias at 0, clocks, pins, USART1 and watchdog, and how they start.

    A subclass adds its RAM and whatever else it has.

    Args:
        machine: the machine to build into.
        options: `hse_hz`: frequency of the crystal.
    """

    #: MSI at 4 MHz: RCC, "Clocks".
    RESET_CLOCK_HZ = 4_000_000
    #: At most 112 interrupts and 16 exceptions, rounded up to a power of two words (DDI 0403E B3.2.5).
    VECTOR_TABLE_ALIGNMENT = 512
    #: "Boot configuration": the boot loader in system memory is not modelled.
    EMPTY = "flash is empty at {address:#010x}: the chip starts its boot loader instead of an application"
    #: Each chip's.
    LAYOUT: Layout

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        layout = self.LAYOUT
        family = layout.family
        # Both chips have 1 MB, which appear at 0, too ("Boot configuration").
        self.add_flash(0x08000000, 0x100000, aliases=(0,))
        machine.add_peripheral(Watchdog(machine, "IWDG", 0x40003000))
        self.rcc = Rcc(machine, layout.rcc, family, int(options.get("hse_hz", layout.hse_hz)))
        self.power = Power(machine, layout.power, self.rcc, layout.power_clock)
        self.flash = Flash(machine, layout.flash, self.flash_memory, self.rcc, family, layout.options)
        self.rcc.flash, self.rcc.power = self.flash, self.power
        self.ports = {
            port: Gpio(machine, port, 0x48000000 + 0x400 * index, self.rcc, (0x4C, index), moder)
            for port, (index, moder) in layout.ports.items()
        }
        usart1 = Usart(
            machine,
            "USART1",
            0x40013800,
            rcc=self.rcc,
            clock=(0x60, 14),
            bus=2,
            interrupt=layout.usart1_interrupt,
            ports=self.ports,
            tx=layout.usart1_tx,
            rx=layout.usart1_rx,
        )
        for peripheral in (self.rcc, self.power, self.flash, *self.ports.values(), usart1):
            machine.add_peripheral(peripheral)
        machine.add_peripheral(Dbgmcu(machine, 0xE0042000, layout.identity))

    def flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Handles a store to flash or to system memory."""
        if memory is self.flash_memory:
            self.flash.written(offset, size, value)

    def power_lost(self) -> None:
        """Handles the loss of power."""
        self.flash.reset()
