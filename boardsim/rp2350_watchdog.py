"""The RP2350's watchdog, with its tick generator and the power-on state machine, which chooses what it resets.

Datasheet: "Watchdog", "Tick Generators", "Power-On State Machine".
"""

from typing import Protocol

from boardsim.peripheral import Host
from boardsim.rp2350_peripherals import Clocks, RpPeripheral

_GENERATORS = ("PROC0", "PROC1", "TIMER0", "TIMER1", "WATCHDOG", "RISCV")
_BLOCKS = 0x01FFFFFF
_ENABLE = 1 << 30


class TickSource(Protocol):
    """Makes the ticks that the watchdog counts."""

    @property
    def watchdog_hz(self) -> float:
        """Returns counts per second; 0 while there are none."""


class Ticks(RpPeripheral):
    """Dividers of clk_ref."""

    NAMES = {
        12 * index + 4 * word: f"{name}_{register}"
        for index, name in enumerate(_GENERATORS)
        for word, register in enumerate(("CTRL", "CYCLES", "COUNT"))
    }

    def __init__(self, machine: Host, clocks: Clocks) -> None:
        self._clocks = clocks
        super().__init__(machine, "TICKS", 0x40108000, None)

    def hz(self, generator: str) -> float:
        """Returns the ticks per second that a generator makes; 0 while they are off."""
        offset = 12 * _GENERATORS.index(generator)
        cycles = self.values.get(offset + 4, 0) & 0x1FF
        return self._clocks.ref_hz / cycles if self.values.get(offset, 0) & 1 and cycles else 0.0

    @property
    def watchdog_hz(self) -> float:
        """Returns the watchdog's ticks per second; 0 while they are off."""
        return self.hz("WATCHDOG")

    def read(self, offset: int) -> int:
        value = super().read(offset)
        # RUNNING.
        return value | (value & 1) << 1 if offset % 12 == 0 else value


class PowerOnStateMachine(RpPeripheral):
    """The power-on state machine: chooses what the watchdog resets. Forcing blocks on and off does nothing here."""

    BASE = 0x40018000
    PROC0 = 1 << 23
    NAMES = {0x0: "FRCE_ON", 0x4: "FRCE_OFF", 0x8: "WDSEL", 0xC: "DONE"}
    RESET = {0xC: _BLOCKS}

    def __init__(self, machine: Host) -> None:
        super().__init__(machine, "PSM", self.BASE, None)

    @property
    def watchdog_resets_the_core(self) -> bool:
        """Returns whether the watchdog resets core 0, or all that it depends on."""
        return bool(self.values.get(0x8, 0) & self.PROC0)


class Watchdog(RpPeripheral):
    """Counts ticks down from LOAD, if it is enabled, and resets what WDSEL of the PSM says."""

    BASE = 0x400D8000
    NAMES = {0x0: "CTRL", 0x4: "LOAD", 0x8: "REASON", **{0xC + 4 * i: f"SCRATCH{i}" for i in range(8)}}
    # It pauses while a debugger is on the bus or halts a core.
    RESET = {0x0: 0x07000000}

    def __init__(self, machine: Host, ticks: TickSource, psm: PowerOnStateMachine) -> None:
        self._ticks = ticks
        self._psm = psm
        super().__init__(machine, "WATCHDOG", self.BASE, None)

    def read(self, offset: int) -> int:
        # LOAD can only be written.
        return 0 if offset == 4 else super().read(offset)

    def store(self, offset: int, value: int) -> None:
        was_on = self.values[0] & _ENABLE
        super().store(offset, value)
        if offset == 4 or offset == 0 and (value ^ was_on) & _ENABLE:
            self._count()
        if offset == 0 and value >> 31:
            self._expired()

    def _count(self) -> None:
        self.alarm.cancel()
        if not self.values[0] & _ENABLE:
            return
        hz = self._ticks.watchdog_hz
        if not hz:
            self.machine.note("the watchdog was enabled without ticks: it never ends")
            return
        self.alarm.start((self.values.get(4, 0) & 0xFFFFFF) * 1e9 / hz, self._expired)

    def _expired(self) -> None:
        if self._psm.watchdog_resets_the_core:
            self.watchdog_expired()
        else:
            self.machine.note("the watchdog was not fed in time, but resets nothing (PSM_WDSEL)")
