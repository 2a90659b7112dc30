"""Peripherals of the RP2350, by the chapters of its datasheet: "Resets", "Clocks", "Crystal Oscillator (XOSC)",
"Phase-Locked Loop (PLL)", "GPIO" and "UART". The RP2040 has the same elsewhere (boardsim.rp2040_peripherals), which
derives from these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from boardsim.clock import Alarm
from boardsim.peripheral import Host, Peripheral
from boardsim.serial import BITS, Receiver, garbled
from npu.registers import numbered

# "Ring Oscillator (ROSC)": about 11 MHz after a reset.
ROSC_HZ = 11_000_000
_LPOSC_HZ = 32_768
_PLL_LOCK = 50e3
_FIFO = 32


class RpPeripheral(Peripheral):
    """A peripheral with the chip's "Atomic Register Access": aliases that toggle, set and clear bits.

    Args:
        bit: its bit in RESETS; None if it has none.
    """

    NARROW_WRITES_REPLICATE = True

    def __init__(self, machine: Host, name: str, base: int, resets: Resets | None, bit: int | None = None) -> None:
        self._resets = resets
        self._bit = bit
        super().__init__(machine, name, base, 0x4000)

    def clocked(self) -> bool:
        return self._resets is None or self._bit is None or self._resets.released(self._bit)

    def register_name(self, offset: int) -> str:
        alias = ("", "^", "|", "&~")[offset >> 12 & 3]
        return super().register_name(offset & 0xFFF) + alias

    def bus_read(self, offset: int, size: int) -> int:
        return super().bus_read(offset & 0xFFF, size)

    def write(self, offset: int, value: int) -> None:
        """Writes through one of the aliases; store() gets the new value of the register."""
        register = offset & 0xFFF
        alias = offset >> 12 & 3
        if alias:
            old = self.peek(register)
            value = (old ^ value, old | value, old & ~value)[alias - 1]
        self.store(register, value)

    def store(self, offset: int, value: int) -> None:
        """Sets a register."""
        super().write(offset, value)


class Resets(RpPeripheral):
    """Holds peripherals in reset."""

    BASE = 0x40020000
    ALL = 0x1FFFFFFF
    NAMES = {0x0: "RESET", 0x4: "WDSEL", 0x8: "RESET_DONE"}
    # This is all but what the boot ROM needs ("Resets", "List of Registers"); it releases IO_QSPI (7) and PADS_QSPI
    # (10) for flash.
    RESET = {0x0: ALL & ~(1 << 7 | 1 << 10)}

    def __init__(self, machine: Host) -> None:
        self.on_reset: dict[int, Callable[[], None]] = {}
        super().__init__(machine, "RESETS", self.BASE, None)

    def released(self, bit: int) -> bool:
        """Returns whether a peripheral is out of reset."""
        return not self.values.get(0, 0) >> bit & 1

    def read(self, offset: int) -> int:
        return ~self.values.get(0, 0) & self.ALL if offset == 8 else super().read(offset)

    def store(self, offset: int, value: int) -> None:
        before = self.values.get(0, 0)
        if offset == 0:
            value &= self.ALL
            for bit, reset in self.on_reset.items():
                if value >> bit & 1 and not before >> bit & 1:
                    reset()
        if offset != 8:
            super().store(offset, value)


class Xosc(RpPeripheral):
    """The crystal oscillator."""

    BASE = 0x40048000
    NAMES = {0x00: "CTRL", 0x04: "STATUS", 0x08: "DORMANT", 0x0C: "STARTUP", 0x10: "COUNT"}
    RESET = {0x0C: 0xC4}

    def __init__(self, machine: Host, hz: int) -> None:
        self.hz = hz
        super().__init__(machine, "XOSC", self.BASE, None)

    def reset(self) -> None:
        super().reset()
        self.stable = False
        self._enabled = False

    def read(self, offset: int) -> int:
        if offset == 4:
            return self.stable << 31 | self._enabled << 12
        return super().read(offset)

    def store(self, offset: int, value: int) -> None:
        super().store(offset, value)
        if offset != 0:
            return
        # "XOSC": the magic words of ENABLE; FREQ_RANGE must be 1_15MHZ.
        enable = value >> 12 & 0xFFF
        if enable == 0xFAB and not self._enabled:
            if value & 0xFFF != 0xAA0:
                self.machine.note("XOSC_CTRL.FREQ_RANGE is not 1 to 15 MHz (0xaa0): the oscillator does not start")
                return
            self._enabled = True
            self.machine.clock.after(self.values[0x0C] * 256 * 1e9 / self.hz, self._start)
        elif enable == 0xD1E:
            self._enabled = self.stable = False

    def _start(self) -> None:
        self.stable = self._enabled


class Pll(RpPeripheral):
    """A phase-locked loop."""

    NAMES = {0x0: "CS", 0x4: "PWR", 0x8: "FBDIV_INT", 0xC: "PRIM"}
    RESET = {0x0: 1, 0x4: 0x2D, 0xC: 0x00077000}

    def __init__(self, machine: Host, name: str, base: int, resets: Resets, bit: int, xosc: Xosc) -> None:
        self._xosc = xosc
        self._locked = False
        super().__init__(machine, name, base, resets, bit)
        resets.on_reset[bit] = self.reset
        self.changed: Callable[[], None] = lambda: None

    def reset(self) -> None:
        super().reset()
        self._locked = False

    @property
    def hz(self) -> float:
        """Returns the output's frequency; 0 while it is off or not locked."""
        # PD, POSTDIVPD.
        if not self._locked or self.values[4] & 0x9 or not self.clocked():
            return 0.0
        prim = self.values[0xC]
        divider = (prim >> 16 & 7) * (prim >> 12 & 7)
        return self._vco() / divider if divider else 0.0

    def _vco(self) -> float:
        return self._xosc.hz / max(1, self.values[0] & 0x3F) * self.values.get(8, 0)

    def read(self, offset: int) -> int:
        if offset == 0:
            return self.values[0] & 0x7FFFFFFF | self._locked << 31
        return super().read(offset)

    def store(self, offset: int, value: int) -> None:
        was_on = not self.values[4] & 0x21
        super().store(offset, value)
        on = not self.values[4] & 0x21
        if not on or was_on and offset in (0, 8):
            # Off, or other dividers: it has to lock anew.
            self._locked = False
            self.alarm.cancel()
        if on and not self._locked and (not was_on or offset in (0, 8)):
            self._start()
        self.changed()

    def _start(self) -> None:
        vco = self._vco()
        why = None
        if not self._xosc.stable:
            why = "the crystal oscillator was not stable"
        elif not 16 <= self.values.get(8, 0) <= 320:
            why = f"FBDIV_INT is {self.values.get(8, 0)}, not 16 to 320"
        elif not 750e6 <= vco <= 1600e6:
            why = f"its oscillator at {vco / 1e6:g} MHz is outside 750 to 1600 MHz"
        if why:
            self.machine.note(f"{self.name} was turned on, but {why}: it never locks (datasheet, PLL)")
            return
        self.alarm.start(_PLL_LOCK, self._lock)

    def _lock(self) -> None:
        self._locked = True
        self.changed()


class Clocks(RpPeripheral):
    """The clock generators."""

    BASE = 0x40010000
    ROSC_HZ = ROSC_HZ
    #: The cores' highest frequency.
    FASTEST = 150_000_000
    #: Bits of a divider's fraction.
    FRACTION = 16
    #: CLK_USB_CTRL; its divider follows.
    USB = 0x60
    NAMES = numbered(
        "0x30 CLK_REF_CTRL CLK_REF_DIV CLK_REF_SELECTED CLK_SYS_CTRL CLK_SYS_DIV CLK_SYS_SELECTED CLK_PERI_CTRL "
        "CLK_PERI_DIV CLK_PERI_SELECTED CLK_HSTX_CTRL CLK_HSTX_DIV CLK_HSTX_SELECTED CLK_USB_CTRL CLK_USB_DIV "
        "CLK_USB_SELECTED 0x84 CLK_SYS_RESUS_CTRL",
        step=4,
    )
    # clk_sys runs from the ring oscillator, by its auxiliary source.
    RESET = {0x3C: 0x41, **dict.fromkeys((0x34, 0x40, 0x4C, 0x58, 0x64), 0x10000)}

    def __init__(self, machine: Host, xosc: Xosc, pll_sys: Pll, pll_usb: Pll) -> None:
        self._xosc = xosc
        self._pll_sys = pll_sys
        self._pll_usb = pll_usb
        super().__init__(machine, "CLOCKS", self.BASE, None)
        pll_sys.changed = pll_usb.changed = self._changed

    def _xosc_hz(self) -> float:
        return float(self._xosc.hz) if self._xosc.stable else 0.0

    def _divided(self, hz: float, divider: int) -> float:
        # An integer (0 is 65536) and a fraction.
        one = 1 << self.FRACTION
        value = self.values.get(divider, one)
        return hz / ((value // one or 65536) + value % one / one)

    @property
    def ref_hz(self) -> float:
        """Returns clk_ref."""
        control = self.values.get(0x30, 0)
        source = (self.ROSC_HZ, self._pll_usb.hz if not control >> 5 & 3 else 0.0, self._xosc_hz(), _LPOSC_HZ)[
            control & 3
        ]
        return self._divided(source, 0x34)

    @property
    def sys_hz(self) -> float:
        """Returns clk_sys, the cores'."""
        control = self.values.get(0x3C, 0)
        if not control & 1:
            return self._divided(self.ref_hz, 0x40)
        sources = (self._pll_sys.hz, self._pll_usb.hz, self.ROSC_HZ, self._xosc_hz(), 0.0, 0.0, 0.0, 0.0)
        return self._divided(sources[control >> 5 & 7], 0x40)

    @property
    def peri_hz(self) -> float:
        """Returns clk_peri, the UARTs'; 0 while it is off."""
        control = self.values.get(0x48, 0)
        if not control >> 11 & 1:
            return 0.0
        sources = (self.sys_hz, self._pll_sys.hz, self._pll_usb.hz, self.ROSC_HZ, self._xosc_hz(), 0.0, 0.0, 0.0)
        return self._divided(sources[control >> 5 & 7], 0x4C)

    @property
    def usb_hz(self) -> float:
        """Returns clk_usb; 0 while it is off."""
        control = self.values.get(self.USB, 0)
        if not control >> 11 & 1:
            return 0.0
        sources = (self._pll_usb.hz, self._pll_sys.hz, self.ROSC_HZ, self._xosc_hz(), 0.0, 0.0, 0.0, 0.0)
        return self._divided(sources[control >> 5 & 7], self.USB + 4)

    def read(self, offset: int) -> int:
        if offset == 0x38:
            return 1 << (self.values.get(0x30, 0) & 3)
        if offset == 0x44:
            return 1 << (self.values.get(0x3C, 0) & 1)
        if offset in (0x50, self.USB + 8):
            return 1
        if offset in (0x48, self.USB):
            value = super().read(offset)
            # ENABLED.
            return value | (value >> 11 & 1) << 28
        return super().read(offset)

    def store(self, offset: int, value: int) -> None:
        before = self.values.get(offset, 0)
        super().store(offset, value)
        if offset == 0x3C and before & value & 1 and (before ^ value) >> 5 & 7:
            self.machine.note(
                "CLK_SYS_CTRL.AUXSRC was changed while clk_sys runs from it: glitches "
                '(datasheet, Clocks, "Multiplexers")'
            )
        self._changed()

    def _changed(self) -> None:
        hz = int(self.sys_hz)
        if hz == 0:
            self.machine.lock_up("clk_sys was switched to a source that does not run")
            return
        if hz > self.FASTEST:
            self.machine.lock_up(f"the core runs at {hz / 1e6:g} MHz; at most {self.FASTEST // 1_000_000}")
        if hz != self.machine.clock.hz:
            self.machine.clock.set_hz(hz)


class IoBank(RpPeripheral):
    """The function of each pin: "GPIO", "IO - User Bank"."""

    BASE = 0x40028000
    #: Its bit in RESETS.
    BIT = 6
    NAMES = {8 * pin + 4 * word: f"GPIO{pin}_{('STATUS', 'CTRL')[word]}" for pin in range(48) for word in (0, 1)}
    RESET = {8 * pin + 4: 0x1F for pin in range(48)}

    def __init__(self, machine: Host, resets: Resets, pads: Pads) -> None:
        self._pads = pads
        super().__init__(machine, "IO_BANK0", self.BASE, resets, self.BIT)

    def routed(self, pin: int, function: int, *, output: bool) -> bool:
        """Returns whether a pin is connected to a function, pad included."""
        return self.clocked() and self.values[8 * pin + 4] & 0x1F == function and self._pads.passes(pin, output=output)


class Pads(RpPeripheral):
    """Pad control: isolation, direction, pulls."""

    BASE = 0x40038000
    #: Its bit in RESETS.
    BIT = 9
    NAMES = {0: "VOLTAGE_SELECT", **{4 + 4 * pin: f"GPIO{pin}" for pin in range(48)}}
    # ISO, 4 mA, pull-down, Schmitt trigger.
    RESET = {4 + 4 * pin: 0x116 for pin in range(48)}

    def __init__(self, machine: Host, resets: Resets) -> None:
        super().__init__(machine, "PADS_BANK0", self.BASE, resets, self.BIT)

    def passes(self, pin: int, *, output: bool) -> bool:
        """Returns whether a pad drives (not ISO, not OD) or lets its level in (not ISO, IE)."""
        value = self.values[4 + 4 * pin]
        return self.clocked() and not value >> 8 & 1 and bool(not value >> 7 & 1 if output else value >> 6 & 1)


class Uart(RpPeripheral):
    """A UART (Arm's PL011), 8 data bits, polled."""

    NAMES = numbered("0x00 DR RSR 0x18 FR 0x24 IBRD FBRD LCR_H CR IFLS IMSC RIS MIS ICR DMACR", step=4)
    RESET = {0x30: 0x300, 0x34: 0x12}

    def __init__(
        self,
        machine: Host,
        name: str,
        base: int,
        *,
        resets: Resets,
        bit: int,
        clocks: Clocks,
        io: IoBank,
        interrupt: int,
    ) -> None:
        self._interrupt = interrupt
        self._clocks = clocks
        self._io = io
        self._silence = Alarm(machine.clock)
        self._receiver = Receiver(machine.console, machine.clock, lambda: self.baud, self._arrived)
        super().__init__(machine, name, base, resets, bit)
        resets.on_reset[bit] = self.reset

    def reset(self) -> None:
        super().reset()
        self._out: deque[int] = deque()
        self._in: deque[int] = deque()
        self._sending = False
        self._receiver.reset()
        # The receive timeout: there was no byte for as long as 32 bits take, and not all have been read.
        self._quiet = False
        self._silence.cancel()
        # IBRD and FBRD take effect with the next write to LCR_H: "UART", "Baud Rate Generation".
        self._divisor = 0

    @property
    def _is_console(self) -> bool:
        return self.machine.board.console.get("uart") == self.name

    def _depth(self) -> int:
        return _FIFO if self.values.get(0x2C, 0) >> 4 & 1 else 1

    @property
    def baud(self) -> float:
        """Returns clk_peri / (16 * (IBRD + FBRD / 64)); 0 if that cannot be."""
        return self._clocks.peri_hz * 4 / self._divisor if self._divisor else 0.0

    def read(self, offset: int) -> int:
        if offset == 0x00:
            byte = self._in.popleft() if self._in else 0
            self._quiet = self._quiet and bool(self._in)
            self._update_interrupt()
            return byte
        if offset in (0x3C, 0x40):
            return self._raw_interrupts() & (self.values.get(0x38, 0) if offset == 0x40 else 0x7FF)
        if offset == 0x18:
            busy = self._sending or bool(self._out)
            return (
                (not self._out) << 7
                | (len(self._in) >= self._depth()) << 6
                | (len(self._out) >= self._depth()) << 5
                | (not self._in) << 4
                | busy << 3
            )
        return super().read(offset)

    def store(self, offset: int, value: int) -> None:
        if offset == 0x00:
            self._send(value & 0xFF)
            return
        super().store(offset, value)
        if offset == 0x44:
            self._quiet = self._quiet and not value >> 6 & 1
        self._update_interrupt()
        if offset == 0x2C:
            self._divisor = (self.values.get(0x24, 0) & 0xFFFF) * 64 + (self.values.get(0x28, 0) & 0x3F)
        control = self.values[0x30]
        # UARTEN, RXE.
        self._receiver.listen(control & 1 == 1 and bool(control >> 9 & 1) and self._is_console)

    def _raw_interrupts(self) -> int:
        """Returns RIS: of the receiver, RX (4) by the level of the FIFO and the timeout RT (6)."""
        # "UART", "Interrupts" and IFLS: 1/8, 1/4, 1/2, 3/4 or 7/8 of the FIFO; a byte without it.
        eighths = (1, 2, 4, 6, 7, 7, 7, 7)[self.values.get(0x34, 0) >> 3 & 7]
        level = max(1, self._depth() * eighths // 8)
        return (len(self._in) >= level) << 4 | self._quiet << 6

    def _update_interrupt(self) -> None:
        self.machine.interrupts.set_line(self._interrupt, bool(self._raw_interrupts() & self.values.get(0x38, 0)))

    def _got_quiet(self) -> None:
        self._quiet = bool(self._in)
        self._update_interrupt()

    def _send(self, byte: int) -> None:
        if self.values[0x30] & 0x101 != 0x101:
            self.machine.note(
                f"{self.name}_DR was written while the transmitter is off (UARTEN, TXE): the byte is lost"
            )
            return
        if len(self._out) >= self._depth():
            self.machine.note(f"{self.name}_DR was written while it was full (TXFF): a byte is lost")
            return
        self._out.append(byte)
        if not self._sending:
            self._shift()

    def _shift(self) -> None:
        baud = self.baud
        if not baud:
            self.machine.note(
                f"{self.name} has no baud rate (IBRD, FBRD, LCR_H) or no clock (CLK_PERI): nothing is sent"
            )
            return
        self._sending = True
        byte = self._out.popleft()
        self.alarm.start(BITS * 1e9 / baud, lambda: self._sent(byte, baud))

    def _sent(self, byte: int, baud: float) -> None:
        self._sending = False
        if self._is_console:
            if self.values[0x2C] >> 5 & 3 != 3:
                self.machine.note(f"{self.name}_LCR_H does not have 8 bits (WLEN): garbage arrives")
                byte = garbled(byte)
            if any(self._io.routed(pin, 2, output=True) for pin in (0, 12, 16, 28)):
                self.machine.console.receive(byte, baud)
            else:
                self.machine.note(f"{self.name} sends, but no pin is switched to its TX: nothing arrives")
        if self._out:
            self._shift()

    def _arrived(self, byte: int) -> None:
        if not self._receiver.listening:
            return
        if not any(self._io.routed(pin, 2, output=False) for pin in (1, 13, 17, 29)):
            self.machine.note(f"no pin is switched to the RX of {self.name}: what is typed does not arrive")
        elif len(self._in) >= self._depth():
            self.machine.note(f"{self.name} received more than its FIFO holds: a byte is lost")
        else:
            self._in.append(byte)
            self._silence.start(32e9 / self.machine.console.baud, self._got_quiet)
            self._update_interrupt()
