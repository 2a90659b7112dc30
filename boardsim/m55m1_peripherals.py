"""Peripherals of Nuvoton's M55M1, by the chapters of its Technical Reference Manual and the descriptions of registers
that come with its board support package.
"""

from collections import deque

from boardsim.peripheral import Host, Peripheral
from boardsim.serial import BITS, Receiver
from npu.registers import numbered

_HIRC_HZ = 12_000_000
#: "Power Manager", PLSEL: the fastest core clock of each level.
_LEVELS = (220_000_000, 200_000_000, 12_000_000)
#: "Flash Memory Controller", CYCCTL: the fastest clock of each number of cycles; from eight on there is no limit.
_FLASH_HZ = (0, 27_000_000, 54_000_000, 81_000_000, 108_000_000, 135_000_000, 162_000_000, 192_000_000)
# A power level changes, and a PLL locks, in some microseconds; the exact times hardly matter.
_LEVEL_TIME, _LOCK_TIME = 20e3, 205e3


class Lock(Peripheral):
    """SYS: the key of write-protected registers, and the functions of pins."""

    NAMES = {0x100: "REGLCTL", **{0x300 + 4 * i: f"GP{'ABCDEFGHIJ'[i // 4]}_MFP{i % 4}" for i in range(40)}}
    _KEY = (0x59, 0x16, 0x88)

    def __init__(self, machine: Host) -> None:
        self._keys: tuple[int, ...] = ()
        super().__init__(machine, "SYS", 0x40000000, 0x1000)

    def reset(self) -> None:
        super().reset()
        self._keys = ()

    @property
    def open(self) -> bool:
        """Returns whether protected registers can be written."""
        return self._keys == self._KEY

    def function(self, port: str, pin: int) -> int:
        """Returns what a pin is switched to."""
        return self.values.get(0x300 + 0x10 * (ord(port) - ord("A")) + pin // 4 * 4, 0) >> 8 * (pin % 4) & 0x1F

    def read(self, offset: int) -> int:
        return int(self.open) if offset == 0x100 else super().read(offset)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x100:
            keys = (*self._keys, value & 0xFF)
            self._keys = keys if keys == self._KEY[: len(keys)] else ()
        else:
            super().write(offset, value)


class Protected(Peripheral):
    """A block whose registers are write-protected, but for some.

    Class attributes:
        FREE: offsets of those that are not.
    """

    FREE: frozenset[int] = frozenset()

    def __init__(self, machine: Host, name: str, base: int, lock: Lock) -> None:
        self._lock = lock
        super().__init__(machine, name, base, 0x1000)

    def write(self, offset: int, value: int) -> None:
        if offset in self.NAMES and offset not in self.FREE and not self._lock.open:
            self.machine.note(
                f"{self.register_name(offset)} was written while it is protected (SYS_REGLCTL): nothing happened"
            )
        else:
            self.change(offset, value)

    def change(self, offset: int, value: int) -> None:
        """Writes a register that is not protected at present."""
        super().write(offset, value)


class Power(Protected):
    """PMC: the core's voltage."""

    NAMES = {0x10: "PLCTL", 0x14: "PLSTS"}
    #: Level 1.
    RESET = {0x10: 1}

    def __init__(self, machine: Host, lock: Lock) -> None:
        self._level = 1
        super().__init__(machine, "PMC", 0x40002000, lock)

    def reset(self) -> None:
        super().reset()
        self._level = 1
        self._busy = False

    @property
    def limit_hz(self) -> int:
        """Returns the fastest core clock at the present voltage."""
        return _LEVELS[self._level]

    def read(self, offset: int) -> int:
        return super().read(offset) | (self._busy << 31 if offset in (0x10, 0x14) else 0)

    def change(self, offset: int, value: int) -> None:
        if offset != 0x10:
            return
        if self._busy:
            self.machine.note("PMC_PLCTL was written while it is busy: nothing happened")
            return
        self._busy = True
        level = min(value & 3, len(_LEVELS) - 1)
        self.values[0x10] = level

        def done() -> None:
            self._busy, self._level = False, level

        self.alarm.start(_LEVEL_TIME, done)


class Flash(Protected):
    """FMC: how many cycles a read of flash takes. Erasing and programming are not modelled."""

    NAMES = {0x4C: "CYCCTL"}
    RESET = {0x4C: 1}

    def __init__(self, machine: Host, lock: Lock) -> None:
        super().__init__(machine, "FMC", 0x40044000, lock)

    @property
    def limit_hz(self) -> float:
        """Returns the fastest clock that flash is read at."""
        cycles = self.values[0x4C] & 0xF
        return _FLASH_HZ[cycles] if cycles < len(_FLASH_HZ) else float("inf")


class Clocks(Protected):
    """CLK: oscillators, APLL0, the core's clock, and clocks of modules."""

    NAMES = numbered(
        "0x000 SRCCTL STATUS 0x018 APLL0CTL APLL0SEL 0x244 GPIOCTL 0x28C NPUCTL 0x2E0 UARTCTL 0x400 SCLKSEL "
        "0x460 UARTSEL0 0x500 SCLKDIV 0x508 HCLKDIV PCLKDIV 0x53C UARTDIV0",
        step=4,
    )
    #: HIRC is on.
    RESET = {0x00: 1 << 3}
    FREE = frozenset((0x244, 0x28C, 0x2E0, 0x500, 0x508, 0x50C, 0x53C))
    _HIRC, _HIRC48, _APLL0 = 1 << 3, 1 << 5, 1 << 6

    def __init__(self, machine: Host, lock: Lock, power: Power, flash: Flash) -> None:
        self._power = power
        self._flash = flash
        super().__init__(machine, "CLK", 0x40001000, lock)

    def reset(self) -> None:
        super().reset()
        self._locked = False
        self._switched = True

    def enabled(self, offset: int, bit: int) -> bool:
        """Returns whether a module's clock is on."""
        return bool(self.values.get(offset, 0) >> bit & 1)

    @property
    def uart0_hz(self) -> float:
        """Returns the clock of UART0; 0 if its source is none that is modelled."""
        source = _HIRC_HZ if self.values.get(0x460, 0) & 7 == 1 else 0
        return source / ((self.values.get(0x53C, 0) & 0xF) + 1)

    def read(self, offset: int) -> int:
        if offset == 0x04:
            on = self.values.get(0x00, 0) & (self._HIRC | self._HIRC48)
            return on | self._APLL0 * self._locked | self._switched << 8
        return super().read(offset)

    def change(self, offset: int, value: int) -> None:
        if offset == 0x04:
            return
        running = self.values.get(0x00, 0) & self._APLL0
        if offset in (0x18, 0x1C) and running:
            self.machine.note(f"{self.register_name(offset)} was written while APLL0 is on: nothing happened")
            return
        if offset == 0x00 and self.values.get(0x400, 0) & 7 == 4:
            # "This bit is write ignore when SCLKSEL is set to APLL0."
            value |= running
        super().change(offset, value)
        if offset == 0x00:
            self._source(running)
        elif offset in (0x400, 0x500):
            self._switch()

    def _source(self, running: int) -> None:
        on = self.values[0x00] & self._APLL0
        if on == running:
            return
        self.alarm.cancel()
        self._locked = False
        if not on:
            return
        control, select = self.values.get(0x18, 0), self.values.get(0x1C, 0) & 3
        reference = _HIRC_HZ / ((control >> 9 & 0x1F) + 1)
        loop = 2 * reference * ((control & 0x1FF) + 2)
        if select != 2 or self.values[0x00] & (self._HIRC | self._HIRC48) != self._HIRC | self._HIRC48:
            self.machine.note("APLL0 is turned on while not both that its source 2 may be run: it never locks")
        elif not (4e6 <= reference <= 8e6 and 200e6 <= loop <= 500e6):
            self.machine.note(
                f"APLL0 is turned on with a reference of {reference / 1e6:g} MHz and a loop of {loop / 1e6:g} MHz, "
                "which are to be 4 to 8 and 200 to 500 MHz: it never locks"
            )
        else:
            self.alarm.start(_LOCK_TIME, self._lock_pll)

    def _lock_pll(self) -> None:
        self._locked = True

    def _switch(self) -> None:
        select = self.values.get(0x400, 0) & 7
        if select == 4:
            control = self.values.get(0x18, 0)
            hz = 2 * _HIRC_HZ / ((control >> 9 & 0x1F) + 1) * ((control & 0x1FF) + 2) / (1, 2, 2, 4)[control >> 14 & 3]
            self._switched = self._locked
        else:
            hz = _HIRC_HZ
            self._switched = select == 0
        if not self._switched:
            self.machine.lock_up(f"CLK_SCLKSEL names source {select}, which stands still")
            return
        hz = round(hz / ((self.values.get(0x500, 0) & 0xF) + 1))
        for limit, what in ((self._power.limit_hz, "voltage"), (self._flash.limit_hz, "cycles of flash")):
            if hz > limit:
                self.machine.lock_up(f"the core runs at {hz / 1e6:g} MHz, its {what} allow {limit / 1e6:g}")
                return
        self.machine.clock.set_hz(hz)


class Gpio(Peripheral):
    """The ports, which share a block of addresses."""

    NAMES = {
        0x40 * i + at: f"P{port}_{name}"
        for i, port in enumerate("ABCDEFGHIJ")
        for at, name in {0x00: "MODE", 0x04: "DINOFF", 0x08: "DOUT", 0x10: "PIN", 0x30: "PUSEL"}.items()
    }

    def __init__(self, machine: Host, clocks: Clocks) -> None:
        self._clocks = clocks
        #: Levels from outside, by port and pin; without one the pull-up decides.
        self.inputs: dict[tuple[str, int], bool] = {}
        super().__init__(machine, "GPIO", 0x40229000, 0x1000)

    def clocked(self) -> bool:
        return self._clocks.values.get(0x244, 0) != 0

    def level(self, port: str, pin: int) -> bool:
        """Returns a pin's level: what it drives as an output, else what is outside."""
        base = 0x40 * (ord(port) - ord("A"))
        if self.values.get(base, 0) >> 2 * pin & 3:
            return bool(self.values.get(base + 0x08, 0) >> pin & 1)
        return self.inputs.get((port, pin), self.values.get(base + 0x30, 0) >> 2 * pin & 3 == 1)

    def read(self, offset: int) -> int:
        if offset % 0x40 == 0x10 and offset in self.NAMES:
            port = "ABCDEFGHIJ"[offset // 0x40]
            return sum(self.level(port, pin) << pin for pin in range(16))
        return super().read(offset)


class Uart(Peripheral):
    """UART0, on PB12 and PB13."""

    NAMES = numbered("0x00 DAT INTEN FIFO LINE 0x18 FIFOSTS INTSTS 0x24 BAUD 0x30 FUNCSEL", step=4)
    RESET = {0x24: 0x0F000000}
    _FIFO = 16
    _FUNCTION, _RXD, _TXD = 6, 12, 13

    def __init__(self, machine: Host, clocks: Clocks, lock: Lock) -> None:
        self._clocks = clocks
        self._lock = lock
        self._receiver = Receiver(machine.console, machine.clock, lambda: self.baud, self._arrived)
        super().__init__(machine, "UART0", 0x4024D000, 0x1000)

    def reset(self) -> None:
        super().reset()
        self._out: deque[int] = deque()
        self._in: deque[int] = deque()
        self._receiver.reset()

    def clocked(self) -> bool:
        return self._clocks.enabled(0x2E0, 0)

    @property
    def baud(self) -> float:
        """Returns the rate by BAUDM1 and BAUDM0: 0 divides by 16, 3 by nothing more."""
        value = self.values[0x24]
        mode, divider = value >> 28 & 3, (value & 0xFFFF) + 2
        return self._clocks.uart0_hz / divider / {0: 16, 2: (value >> 24 & 0xF) + 1, 3: 1}.get(mode, 16)

    def write(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self._send(value & 0xFF)
        else:
            super().write(offset, value)
            self._receiver.listen(self.values.get(0x0C, 0) & 3 == 3)

    def read(self, offset: int) -> int:
        if offset == 0x00:
            return self._in.popleft() if self._in else 0
        if offset == 0x18:
            full, empty = len(self._out) >= self._FIFO, not self._out
            return (not self._in) << 14 | empty << 22 | full << 23 | empty << 28 | 1 << 29 | 1 << 31
        return super().read(offset)

    def _send(self, byte: int) -> None:
        if self.values.get(0x0C, 0) & 3 != 3:
            self.machine.note("UART0_DAT was written while the line is not of eight bits (UART0_LINE): garbage arrives")
            byte ^= 0x80
        if len(self._out) >= self._FIFO:
            self.machine.note("UART0_DAT was written while its FIFO is full: a byte is lost")
            return
        self._out.append(byte)
        if len(self._out) == 1:
            self._shift()

    def _shift(self) -> None:
        baud = self.baud
        if not baud:
            self.machine.note("UART0 has no clock that is modelled (CLK_UARTSEL0): nothing arrives")
            return
        self.alarm.start(BITS * 1e9 / baud, lambda: self._sent(baud))

    def _sent(self, baud: float) -> None:
        byte = self._out.popleft()
        if self._lock.function("B", self._TXD) == self._FUNCTION:
            self.machine.console.receive(byte, baud)
        else:
            self.machine.note("UART0 sends, but PB13 is not its TXD (SYS_GPB_MFP3): nothing arrives")
        if self._out:
            self._shift()

    def _arrived(self, byte: int) -> None:
        if self._lock.function("B", self._RXD) != self._FUNCTION:
            self.machine.note("PB12 is not the RXD of UART0 (SYS_GPB_MFP3): what is typed does not arrive")
        elif len(self._in) >= self._FIFO:
            self.machine.note("UART0 received more than its FIFO holds: a byte is lost")
        else:
            self._in.append(byte)
