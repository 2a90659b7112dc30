"""Peripherals of the RP2040, by the chapters of its datasheet. Most are the RP2350's at other addresses; its own are
the interface to the flash ("SSI"), and the ticks of timer and watchdog.
"""

import struct
from collections import deque
from collections.abc import Callable

from boardsim.peripheral import Host, Peripheral
from boardsim.rp2350_bootrom import LOOKUP, BootRom, NorFlash
from boardsim.rp2350_peripherals import Clocks, IoBank, Pads, Resets, Xosc
from boardsim.rp2350_usb import UsbController
from boardsim.rp2350_watchdog import PowerOnStateMachine, Watchdog

# "Ring Oscillator (ROSC)": 6.5 MHz after a reset.
ROSC_HZ = 6_500_000
_FUNCTION_TABLE = 0x700


class Rp2040Resets(Resets):
    """Holds peripherals in reset."""

    BASE = 0x4000C000
    ALL = 0x01FFFFFF
    # This is all but what the boot ROM needs: IO_QSPI (6) and PADS_QSPI (9).
    RESET = {0x0: ALL & ~(1 << 6 | 1 << 9)}


class Rp2040Xosc(Xosc):
    """The crystal oscillator."""

    BASE = 0x40024000
    NAMES = {0x00: "CTRL", 0x04: "STATUS", 0x08: "DORMANT", 0x0C: "STARTUP", 0x1C: "COUNT"}


class Rp2040Clocks(Clocks):
    """The clock generators."""

    BASE = 0x40008000
    ROSC_HZ = ROSC_HZ
    FASTEST = 133_000_000
    FRACTION = 8
    USB = 0x54
    NAMES = {
        0x30: "CLK_REF_CTRL",
        0x34: "CLK_REF_DIV",
        0x38: "CLK_REF_SELECTED",
        0x3C: "CLK_SYS_CTRL",
        0x40: "CLK_SYS_DIV",
        0x44: "CLK_SYS_SELECTED",
        0x48: "CLK_PERI_CTRL",
        0x50: "CLK_PERI_SELECTED",
        0x54: "CLK_USB_CTRL",
        0x58: "CLK_USB_DIV",
        0x5C: "CLK_USB_SELECTED",
        0x60: "CLK_ADC_CTRL",
        0x64: "CLK_ADC_DIV",
        0x68: "CLK_ADC_SELECTED",
        0x6C: "CLK_RTC_CTRL",
        0x70: "CLK_RTC_DIV",
        0x74: "CLK_RTC_SELECTED",
        0x78: "CLK_SYS_RESUS_CTRL",
    }
    # clk_sys runs from clk_ref, which runs from the ring oscillator.
    RESET = dict.fromkeys((0x34, 0x40, 0x58, 0x64, 0x70), 0x100)


class Rp2040IoBank(IoBank):
    """The function of each pin."""

    BASE = 0x40014000
    BIT = 5
    NAMES = {8 * pin + 4 * word: f"GPIO{pin}_{('STATUS', 'CTRL')[word]}" for pin in range(30) for word in (0, 1)}
    RESET = {8 * pin + 4: 0x1F for pin in range(30)}


class Rp2040Pads(Pads):
    """Pad control: direction, pulls. There is no isolation."""

    BASE = 0x4001C000
    BIT = 8
    NAMES = {0: "VOLTAGE_SELECT", **{4 + 4 * pin: f"GPIO{pin}" for pin in range(30)}}
    # Input, 4 mA, pull-down, Schmitt trigger.
    RESET = {4 + 4 * pin: 0x56 for pin in range(30)}


class Rp2040Usb(UsbController):
    """The USB controller in device mode; its transceiver is never isolated."""

    INTERRUPT = 5
    BIT = 24
    RESET = {}


class Rp2040PowerOnStateMachine(PowerOnStateMachine):
    """The power-on state machine, which chooses what the watchdog resets."""

    BASE = 0x40010000
    PROC0 = 1 << 15
    RESET = {0xC: 0x0001FFFF}


class Ticks:
    """The divider of clk_ref in the watchdog: "Watchdog", "Tick generation"."""

    def __init__(self, clocks: Clocks) -> None:
        self._clocks = clocks
        #: WATCHDOG_TICK: ENABLE 9, CYCLES 8:0.
        self.control = 0x200

    @property
    def hz(self) -> float:
        """Returns ticks per second; 0 while they are off."""
        cycles = self.control & 0x1FF
        return self._clocks.ref_hz / cycles if self.control >> 9 & 1 and cycles else 0.0

    @property
    def watchdog_hz(self) -> float:
        """Returns counts of the watchdog per second: by erratum RP2040-E1, it counts every tick twice."""
        return 2 * self.hz


class Rp2040Watchdog(Watchdog):
    """Counts down from LOAD, if it is enabled, and resets what WDSEL of the PSM says; makes the ticks."""

    BASE = 0x40058000
    NAMES = {**Watchdog.NAMES, 0x2C: "TICK"}

    def __init__(self, machine: Host, ticks: Ticks, psm: PowerOnStateMachine) -> None:
        self._generator = ticks
        super().__init__(machine, ticks, psm)

    def reset(self) -> None:
        super().reset()
        self._generator.control = 0x200

    def read(self, offset: int) -> int:
        if offset == 0x2C:
            # RUNNING.
            return self._generator.control | bool(self._generator.hz) << 10
        return super().read(offset)

    def peek(self, offset: int) -> int:
        return self._generator.control if offset == 0x2C else super().peek(offset)

    def store(self, offset: int, value: int) -> None:
        if offset == 0x2C:
            self._generator.control = value & 0x3FF
        else:
            super().store(offset, value)


class Rp2040BootRom(BootRom):
    """The ROM's table of functions: "Bootrom Contents". There is no redundancy coprocessor."""

    #: SSI_SR.BUSY.
    BUSY = (0x18000028, 0)
    PLACE = 'RP2040 datasheet, "Bootrom Contents",'
    NEEDS_SALT = False

    @staticmethod
    def header() -> dict[int, bytes]:
        # Version 1: tables of functions and of data, and the function that looks up in them.
        return {0x10: b"Mu\x01", 0x14: struct.pack("<3H", _FUNCTION_TABLE, _FUNCTION_TABLE, LOOKUP | 1)}

    def lookup(self) -> None:
        """Handles rom_table_lookup(table, code): an address, or 0."""
        table, code = self._machine.cpu.get("r0"), self._machine.cpu.get("r1")
        self._machine.cpu.set("r0", self.function(code, is_function=table == _FUNCTION_TABLE))


class Ssi(Peripheral):
    """The interface to the flash: instructions of a byte or two, and whether the core can execute from the flash."""

    NAMES = {
        0x00: "CTRLR0",
        0x04: "CTRLR1",
        0x08: "SSIENR",
        0x10: "SER",
        0x14: "BAUDR",
        0x28: "SR",
        0x60: "DR0",
        0xF0: "RX_SAMPLE_DLY",
        0xF4: "SPI_CTRLR0",
    }
    RESET = {0xF4: 0x03000000}
    # The W25Q16JV's reads ("Instruction Set Table") whose address goes over one wire: wires of the data, cycles of
    # waiting, and the highest frequency.
    _READS = {0x03: (1, 0, 50e6), 0x0B: (1, 8, 133e6), 0x3B: (2, 8, 133e6), 0x6B: (4, 8, 133e6)}
    # "AC Electrical Characteristics": writing a status register takes 10 ms.
    _STATUS_TIME = 10e6

    def __init__(self, machine: Host, flash: NorFlash, *, quad_enabled: bool) -> None:
        self._flash = flash
        #: Status register 2 of the flash: QE is bit 1. It is not lost with the power.
        self.status2 = 2 * quad_enabled
        self._write_enabled = False
        self._writing = False
        #: Called when it may have been turned on or off.
        self.changed: Callable[[], None] = lambda: None
        super().__init__(machine, "SSI", 0x18000000, 0x400)

    def reset(self) -> None:
        super().reset()
        self._flash.reset()
        self._sent: list[int] = []
        self._received: deque[int] = deque()

    def problem(self) -> str | None:
        """Returns the problem that keeps the core from executing from flash; None if there is none."""
        values = self.values
        if not values.get(0x08, 0) & 1 or not values.get(0x10, 0) & 1:
            return "the SSI is off (SSIENR, SER)"
        control, xip = values.get(0x00, 0), values.get(0xF4, 0)
        if control >> 8 & 3 != 3 or control >> 16 & 0x1F != 31:
            return "SSI_CTRLR0 is not set to read words of 32 bits (TMOD 3, DFS_32 31)"
        if xip >> 8 & 3 != 2 or xip >> 2 & 0xF != 6 or xip & 3 != 0:
            return "SSI_SPI_CTRLR0 does not begin a read with an instruction and an address of 24 bits on one wire"
        command = xip >> 24
        if command not in self._READS:
            return f"the flash has no instruction {command:#04x} of that form"
        wires, wait, fastest = self._READS[command]
        if 1 << (control >> 21 & 3) != wires or xip >> 11 & 0x1F != wait:
            return f"the flash's instruction {command:#04x} needs {wires} wires of data and {wait} cycles of waiting"
        if wires == 4 and not self.status2 & 2:
            return "the flash's pins 2 and 3 are not data (QE of its status register 2)"
        divider = values.get(0x14, 0)
        if divider < 2 or divider % 2:
            return f"SSI_BAUDR is {divider}, which is no divider"
        # Until the PLL is on the clock is the ring oscillator's; the fastest core decides.
        if Rp2040Clocks.FASTEST / divider > fastest:
            return f"the flash's instruction {command:#04x} is good for {fastest / 1e6:g} MHz"
        return None

    def read(self, offset: int) -> int:
        if offset == 0x28:
            # Polling takes longer than a byte on its way: the instruction is over. TFNF, TFE, RFNE; BUSY while the
            # boot ROM's functions work on the flash.
            self._finish()
            return 1 << 1 | 1 << 2 | bool(self._received) << 3 | self._flash.busy
        if offset == 0x60:
            return self._received.popleft() if self._received else 0
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        on = bool(self.values.get(0x08, 0) & 1)
        if offset == 0x60:
            if not on or not self.values.get(0x10, 0) & 1:
                self.machine.note("SSI_DR0 was written while the SSI is off: nothing is sent")
            elif self.values.get(0x00, 0) & 0x007F0300 != 7 << 16:
                self.machine.note("SSI_DR0 was written while SSI_CTRLR0 is not set to bytes in both directions")
            else:
                self._sent.append(value & 0xFF)
        elif on and offset in (0x00, 0x04, 0x14, 0xF4):
            # "SSI", "SSIENR": these can be written only while it is off.
            self.machine.note(f"{self.register_name(offset)} was written while the SSI is on: nothing happened")
        else:
            super().write(offset, value)
            if offset in (0x08, 0x10):
                self.changed()

    def _finish(self) -> None:
        if not self._sent:
            return
        instruction, *rest = self._sent
        answer = {0x05: int(self._writing), 0x35: self.status2}.get(instruction, 0)
        self._received.extend([0] + [answer] * len(rest))
        if instruction == 0x06:
            self._write_enabled = True
        elif instruction == 0x31 and rest and not self._writing:
            if self._write_enabled:
                self._write_enabled = False
                self._writing = True
                self.machine.clock.after(self._STATUS_TIME, lambda: self._written(rest[0]))
            else:
                self.machine.note("the flash's status register 2 was written without a write enable: nothing happened")
        self._sent.clear()

    def _written(self, value: int) -> None:
        self._writing = False
        self.status2 = value


class Sio(Peripheral):
    """Single-cycle IO: the core's number, and the outputs."""

    NAMES = {0x000: "CPUID", 0x004: "GPIO_IN", 0x010: "GPIO_OUT", 0x020: "GPIO_OE"}

    def write(self, offset: int, value: int) -> None:
        """Writes a register; those after GPIO_OUT and GPIO_OE set, clear and toggle bits."""
        base, change = offset & ~0xF, offset >> 2 & 3
        if base in (0x10, 0x20):
            old = self.values.get(base, 0)
            self.values[base] = (value, old | value, old & ~value, old ^ value)[change]
