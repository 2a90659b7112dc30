"""Peripherals of the STM32H743, by the chapters of RM0433: "Reset and clock control (RCC)", "Power control (PWR)",
"System configuration controller (SYSCFG)" and "Embedded flash memory (FLASH)". Ports, serial ports and watchdog are
those of boardsim.stm32.
"""

from collections.abc import Callable

from boardsim.memory import Memory
from boardsim.peripheral import FlashOperation, Host, Peripheral
from boardsim.stm32 import ClockControl, ahb_divider, apb_divider
from npu.registers import numbered

_HSI_HZ, _CSI_HZ = 64_000_000, 4_000_000
# Start-up times in nanoseconds, of the order that the data sheet gives as typical.
_HSE_START, _PLL_LOCK, _REGULATOR = 20e3, 50e3, 50e3
# DS12110, "Flash memory characteristics", typical: a sector, a bank, 256 bits.
_ERASE_SECTOR, _ERASE_BANK, _PROGRAM = 1e9, 8e9, 100e3
HSI, CSI, HSE, PLL1 = range(4)
_SOURCES = ("HSI", "CSI", "HSE", "PLL1")
_ON = {HSI: 0, CSI: 7, HSE: 16, PLL1: 24}
_READY = {HSI: 2, CSI: 8, HSE: 17, PLL1: 25}
# DS12110, "General operating conditions": the core's and the buses' highest frequency in MHz by voltage scale.
_FASTEST = {0: (480, 240), 1: (400, 200), 2: (300, 150), 3: (200, 100)}
# FLASH, "FLASH recommended number of wait states and programming delay": highest frequency of the AXI bus in MHz by
# wait states.
_WAIT_STATES = {
    0: (70, 140, 185, 210, 240),
    1: (70, 140, 185, 210, 225),
    2: (55, 110, 165, 225),
    3: (45, 90, 135, 180, 225),
}


class Rcc(ClockControl):
    """Reset and clock control, with PLL1's output P; the other PLLs are not there."""

    SOURCES = _SOURCES
    ON = _ON
    READY = _READY
    # The domains' clocks are ready (14, 15), too.
    STATUS = sum(1 << bit for bit in _READY.values()) | 0xC000
    NAMES = numbered(
        "0x00 CR 0x10 CFGR 0x18 D1CFGR D2CFGR D3CFGR 0x28 PLLCKSELR PLLCFGR PLL1DIVR PLL1FRACR 0x4C D1CCIPR D2CCIP1R "
        "D2CCIP2R D3CCIPR 0xD0 RSR AHB3ENR AHB1ENR AHB2ENR AHB4ENR APB3ENR APB1LENR APB1HENR APB2ENR APB4ENR",
        step=4,
    )
    # HSI is on and ready, and the domains' clocks (14, 15) are.
    RESET = {0x00: 0x0000C005, 0x28: 0x02020200, 0x2C: 0x01FF0000, 0x30: 0x01010280}

    def __init__(self, machine: Host, hse_hz: int) -> None:
        self._hse_hz = hse_hz
        #: Asked whenever clocks change: whether flash and voltage stand them.
        self.check: Callable[[], None] = lambda: None
        super().__init__(machine, "RCC", 0x58024400)

    def system_source(self) -> int:
        return self.values.get(0x10, 0) >> 3 & 7

    def pll_source(self) -> int:
        return self.values[0x28] & 3

    def _hz(self, source: int) -> float:
        if source == HSI:
            return _HSI_HZ / (1 << (self.values[0] >> 3 & 3))
        return (0.0, float(_CSI_HZ), float(self._hse_hz), self._pll_hz)[source]

    @property
    def core_hz(self) -> float:
        """Returns the core's clock."""
        return self._hz(self.system_source()) / ahb_divider(self.values.get(0x18, 0) >> 8 & 15)

    @property
    def bus_hz(self) -> float:
        """Returns the clock of the AXI and AHB buses, and of flash."""
        return self.core_hz / ahb_divider(self.values.get(0x18, 0) & 15)

    def apb_hz(self) -> dict[str, float]:
        """Returns the clocks of the peripherals' buses."""
        d1, d2, d3 = (self.values.get(offset, 0) for offset in (0x18, 0x1C, 0x20))
        codes = {"APB3": d1 >> 4, "APB1": d2 >> 4, "APB2": d2 >> 8, "APB4": d3 >> 4}
        return {name: self.bus_hz / apb_divider(code & 7) for name, code in codes.items()}

    def serial_hz(self, name: str, bus: int) -> float:
        """Returns the kernel clock of USART2 to UART8: D2CCIP2R, USART28SEL."""
        select = self.values.get(0x54, 0) & 7
        return (self.apb_hz()["APB1"], 0.0, 0.0, self._hz(HSI), float(_CSI_HZ), 32_768.0, 0.0, 0.0)[select]

    def write(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self.write_cr(value)
        elif offset == 0x10:
            self.values[0x10] = value & ~0x38 | self.values.get(0x10, 0) & 0x38
            self.switch()
        elif offset in (0x28, 0x2C, 0x30) and self.values[0] >> _ON[PLL1] & 1:
            self.machine.note(f"{self.register_name(offset)} was written while PLL1 is on: nothing happened")
        else:
            super().write(offset, value)
            if offset in (0x18, 0x1C, 0x20):
                self.changed()

    def start(self, source: int) -> None:
        if source == PLL1:
            self._lock_pll()
        elif source == HSE and not self._hse_hz:
            self.machine.note("HSE was turned on, but the board has none: it never gets ready")
        elif source == HSE and not self.values[0] >> 18 & 1:
            self.machine.note("HSE was turned on as a crystal (HSEBYP is 0), but the board feeds a clock: never ready")
        else:
            self.machine.clock.after(_HSE_START, lambda: self.got_ready(source))

    def _lock_pll(self) -> None:
        select, config, dividers = (self.values[offset] for offset in (0x28, 0x2C, 0x30))
        source, pre = self.pll_source(), select >> 4 & 0x3F
        reference = self._hz(source) / pre if source < 3 and pre else 0.0
        vco = reference * ((dividers & 0x1FF) + 1)
        low = 1e6 * (1 << (config >> 2 & 3))
        divider = (dividers >> 9 & 0x7F) + 1
        why = None
        if source == 3 or not pre:
            why = "it has no source (PLLSRC, DIVM1)"
        elif not self.is_ready(source):
            why = f"its source {_SOURCES[source]} was not ready"
        elif not low <= reference <= 2 * low:
            why = f"its input of {reference / 1e6:g} MHz is not in the range that PLL1RGE says"
        elif config >> 1 & 1 or not 192e6 <= vco <= 960e6:
            why = f"its oscillator at {vco / 1e6:g} MHz is outside 192 to 960 MHz (DIVN1, PLL1VCOSEL)"
        elif divider % 2:
            why = f"its output P has an odd divider, {divider} (DIVP1)"
        if why:
            self.machine.note(f'PLL1 was turned on, but {why}: it never locks (RM0433, RCC, "PLLs")')
            return
        self.start_pll(vco / divider if config >> 16 & 1 else 0.0, _PLL_LOCK)

    def switch(self) -> None:
        # The system clock follows SW once the wanted clock is ready.
        config = self.values.get(0x10, 0)
        wanted = config & 7
        if wanted == self.system_source():
            return
        if wanted > PLL1 or not self.is_ready(wanted):
            self.machine.note(f"the system clock was switched to {_SOURCES[wanted & 3]} before that was ready")
            return
        if not self._hz(wanted):
            self.machine.lock_up(f"the system clock was switched to {_SOURCES[wanted]}, which gives none (DIVP1EN)")
            return
        self.values[0x10] = config & ~0x38 | wanted << 3
        self.changed()

    def changed(self) -> None:
        self.machine.clock.set_hz(int(self.core_hz))
        self.check()


class Power(Peripheral):
    """Power control, and the overdrive bit of SYSCFG: the voltage scale."""

    NAMES = {0x00: "CR1", 0x04: "CSR1", 0x08: "CR2", 0x0C: "CR3", 0x10: "CPUCR", 0x18: "D3CR"}
    RESET = {0x00: 0xF000C000, 0x0C: 0x6, 0x18: 0x4000}

    def __init__(self, machine: Host) -> None:
        #: Asked whenever the voltage changes.
        self.check: Callable[[], None] = lambda: None
        super().__init__(machine, "PWR", 0x58024800)

    def reset(self) -> None:
        super().reset()
        self._chosen = False
        self._overdrive = False
        self._scale = 3
        self._wanted = 3

    @property
    def scale(self) -> int:
        """Returns the voltage scale that the regulator has reached."""
        return self._scale

    def read(self, offset: int) -> int:
        if offset == 0x04:
            # ACTVOSRDY as soon as the supply is chosen, ACTVOS.
            return self._chosen << 13 | min(3, 4 - max(1, self._scale)) << 14
        if offset == 0x18:
            return super().read(offset) & ~(1 << 13) | (self._scale == self._wanted) << 13
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x0C:
            if self._chosen and (value ^ self.values[0x0C]) & 7:
                self.machine.note("PWR_CR3 chooses the supply once: nothing happened")
                return
            # BYPASS, LDOEN: one of them.
            self._chosen = value & 3 in (1, 2)
            super().write(offset, value)
        elif offset == 0x18:
            if not self._chosen:
                self.machine.note("PWR_D3CR was written before PWR_CR3 chose the supply: the voltage stays")
                return
            super().write(offset, value)
            self._set()
        elif offset != 0x04:
            super().write(offset, value)

    def overdrive(self, on: bool) -> None:
        """Handles a write of SYSCFG_PWRCR.ODEN."""
        if on and (self._scale != 1 or not self._chosen):
            self.machine.note('SYSCFG_PWRCR.ODEN was set before scale 1 was reached (RM0433, PWR, "VOS0 activation")')
            return
        self._overdrive = on
        self._set()

    def _set(self) -> None:
        # VOS: 3 is scale 1.
        wanted = 4 - max(1, self.values[0x18] >> 14 & 3)
        self._wanted = 0 if wanted == 1 and self._overdrive else wanted
        if self._wanted > self._scale:
            self._scale = self._wanted
        else:
            self.machine.clock.after(_REGULATOR, self._settled)
        self.check()

    def _settled(self) -> None:
        self._scale = self._wanted
        self.check()


class Syscfg(Peripheral):
    """System configuration."""

    NAMES = {0x04: "PMCR", 0x2C: "PWRCR"}

    def __init__(self, machine: Host, rcc: Rcc, power: Power) -> None:
        self._rcc = rcc
        self._power = power
        super().__init__(machine, "SYSCFG", 0x58000400)

    def clocked(self) -> bool:
        return self._rcc.enabled(0xF4, 1)

    def write(self, offset: int, value: int) -> None:
        super().write(offset, value)
        if offset == 0x2C:
            self._power.overdrive(bool(value & 1))


_LOCK, _PG, _SER, _BER, _START = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 7
_BSY, _QW, _PGSERR, _INCERR = 1 << 0, 1 << 2, 1 << 18, 1 << 21


class Flash(Peripheral):
    """The flash controller: two banks with registers of their own, words of 256 bits, sectors of 128 KB."""

    NAMES = numbered(
        "0x000 ACR KEYR1 OPTKEYR CR1 SR1 CCR1 OPTCR OPTSR_CUR OPTSR_PRG 0x104 KEYR2 0x10C CR2 SR2 CCR2", step=4
    )
    # RDP in bits 15:8: level 0.
    RESET = {0x00: 0x37, 0x0C: 0x31, 0x10C: 0x31, 0x18: 1, 0x1C: 0x1BC6AAF0, 0x20: 0x1BC6AAF0}
    _SECTOR, _WORD = 0x20000, 32

    def __init__(self, machine: Host, memory: Memory, rcc: Rcc, power: Power) -> None:
        self._memory = memory
        self._bank_size = memory.size // 2
        self._rcc = rcc
        self._power = power
        #: Each bank's.
        self.operations = (FlashOperation(machine), FlashOperation(machine))
        super().__init__(machine, "FLASH", 0x52002000)
        rcc.check = power.check = self.check

    def reset(self) -> None:
        super().reset()
        self._keys = [0, 0]
        # Each bank has the words of a flash word so far.
        self._buffers: list[dict[int, int]] = [{}, {}]
        for operation in self.operations:
            operation.drop()

    def power_lost(self) -> None:
        """Leaves pieces that are being erased or programmed neither old nor new."""
        for operation in self.operations:
            operation.power_lost()

    def check(self) -> None:
        """Checks that wait states and voltage stand the clocks as they are."""
        scale = self._power.scale
        core, bus = self._rcc.core_hz / 1e6, self._rcc.bus_hz / 1e6
        fastest_core, fastest_bus = _FASTEST[scale]
        if core > fastest_core or bus > fastest_bus:
            self.machine.lock_up(
                f"the core runs at {core:g} MHz and its buses at {bus:g} MHz in voltage scale {scale}, which allows "
                f'{fastest_core} and {fastest_bus} MHz (DS12110, "General operating conditions")'
            )
        # After a reset all run at 64 MHz, whatever the scale.
        fastest_apb = max(fastest_bus / 2, 64)
        for name, hz in self._rcc.apb_hz().items():
            if hz / 1e6 > fastest_apb:
                self.machine.lock_up(f"{name} runs at {hz / 1e6:g} MHz in scale {scale}; at most {fastest_apb:g}")
        states = self.values.get(0, 0x37) & 0xF
        limits = _WAIT_STATES[scale]
        allowed = limits[min(states, len(limits) - 1)]
        if bus > allowed:
            self.machine.lock_up(
                f"flash is read at {bus:g} MHz with {states} wait states, which allow {allowed} MHz in voltage scale "
                f"{scale} (RM0433, FLASH)"
            )

    def read(self, offset: int) -> int:
        if offset in (0x10, 0x110):
            busy = self.operations[offset >> 8].busy
            if busy:
                # A core that feeds the watchdog while it waits does not count as polling; time passes all the same.
                self.machine.clock.skip_to_next_event()
            return super().read(offset) | (_BSY | _QW) * busy
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        bank = offset >> 8 & 1
        register = offset & 0xFF
        if offset == 0x00:
            super().write(offset, value)
            self.check()
        elif register == 0x04:
            self._unlock(bank, value)
        elif register == 0x0C:
            self._write_cr(bank, value)
        elif register == 0x14:
            self.values[offset - 4] = self.values.get(offset - 4, 0) & ~value
        elif register != 0x10 and offset not in (0x1C, 0x20):
            super().write(offset, value)

    def _unlock(self, bank: int, value: int) -> None:
        if value == (0x45670123, 0xCDEF89AB)[self._keys[bank]]:
            self._keys[bank] ^= 1
            if not self._keys[bank]:
                self.values[0x100 * bank + 0x0C] &= ~_LOCK
        else:
            self.machine.note(f"a wrong key was written to FLASH_KEYR{bank + 1}: FLASH_CR{bank + 1} stays locked")

    def _write_cr(self, bank: int, value: int) -> None:
        register = 0x100 * bank + 0x0C
        if self.values[register] & _LOCK:
            self.machine.note(f"FLASH_CR{bank + 1} was written while it is locked: nothing happened")
            return
        self.values[register] = value & ~_START
        if not value & _START:
            return
        base, begin = bank * self._bank_size, self.operations[bank].begin
        if value & _BER:
            begin(self._memory, base, b"\xff" * self._bank_size, _ERASE_BANK)
        elif value & _SER:
            begin(self._memory, base + (value >> 8 & 7) * self._SECTOR, b"\xff" * self._SECTOR, _ERASE_SECTOR)

    def written(self, offset: int, size: int, value: int) -> None:
        """Handles a store to flash."""
        bank = offset // self._bank_size
        control, status = 0x100 * bank + 0x0C, 0x100 * bank + 0x10
        if self.values[control] & _LOCK or not self.values[control] & _PG or size != 4:
            self.values[status] = self.values.get(status, 0) | _PGSERR
            self.machine.note(f"flash was written at offset {offset:#x} without PG, or not by words: nothing happened")
            return
        buffer = self._buffers[bank]
        if buffer and offset // self._WORD != next(iter(buffer)) // self._WORD:
            self.values[status] = self.values.get(status, 0) | _INCERR
            buffer.clear()
        buffer[offset] = value
        if len(buffer) == self._WORD // 4:
            start = min(buffer)
            data = b"".join(buffer[start + 4 * i].to_bytes(4, "little") for i in range(self._WORD // 4))
            buffer.clear()
            before = bytes(self._memory.data[start : start + self._WORD])
            if before != b"\xff" * self._WORD:
                # Its error correction would not fit: "Single write sequence".
                self.machine.note(f"flash at offset {start:#x} was programmed without being erased")
            merged = bytes(old & new for old, new in zip(before, data, strict=True))
            self.operations[bank].begin(self._memory, start, merged, _PROGRAM)
