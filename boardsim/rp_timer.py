"""The timer of the RP2040 and the RP2350 with its alarms, by the chapter "Timer" of each datasheet."""

from collections.abc import Callable

from boardsim.clock import Alarm
from boardsim.peripheral import Host
from boardsim.rp2350_peripherals import Resets, RpPeripheral
from npu.registers import numbered

_ALARMS = 4


class Timer(RpPeripheral):
    """Counts ticks in 64 bits; an alarm raises its interrupt when the lower 32 bits are those of its register.

    Args:
        bit: its bit in RESETS.
        hz: its ticks per second; 0 while there are none.
        ticks: the register that makes the ticks, for a message.
        interrupt: the number of the first alarm's interrupt; the others follow.
        interrupts: the offset of INTR; INTE, INTF and INTS follow.
    """

    def __init__(
        self,
        machine: Host,
        name: str,
        base: int,
        *,
        resets: Resets,
        bit: int,
        hz: Callable[[], float],
        ticks: str,
        interrupt: int,
        interrupts: int,
    ) -> None:
        self._hz = hz
        self._ticks = ticks
        self._alarms = [Alarm(machine.clock) for _ in range(_ALARMS)]
        self._interrupt = interrupt
        self._intr, self._inte, self._intf, self._ints = range(interrupts, interrupts + 16, 4)
        # The RP2040 has the interrupts where the RP2350 has LOCKED and SOURCE.
        self.NAMES = numbered(
            "0x00 TIMEHW TIMELW TIMEHR TIMELR ALARM0 ALARM1 ALARM2 ALARM3 "
            f"ARMED TIMERAWH TIMERAWL DBGPAUSE PAUSE LOCKED SOURCE {interrupts} INTR INTE INTF INTS",
            step=4,
        )
        self.RESET = {0x2C: 7}
        super().__init__(machine, name, base, resets, bit)
        resets.on_reset[bit] = self.reset

    def reset(self) -> None:
        super().reset()
        self._start = self.machine.clock.nanoseconds
        for alarm in self._alarms:
            alarm.cancel()

    def _time(self, offset: int) -> int:
        if not self._hz():
            self.machine.note(f"{self.register_name(offset)} was read, but no ticks are made ({self._ticks})")
        # The ticks count as if they had always been as fast.
        return int((self.machine.clock.nanoseconds - self._start) * self._hz() / 1e9)

    def read(self, offset: int) -> int:
        if offset in (0x08, 0x0C, 0x24, 0x28):
            time = self._time(offset)
            return (time >> 32 if offset in (0x08, 0x24) else time) & 0xFFFFFFFF
        if offset == self._ints:
            return self.values.get(self._intr, 0) & self.values.get(self._inte, 0) | self.values.get(self._intf, 0)
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        register = offset & 0xFFF
        if register in (0x20, self._intr):
            # A one disarms an alarm or acknowledges its interrupt, through each alias.
            self.values[register] = self.values.get(register, 0) & ~value
            self._update()
        else:
            super().write(offset, value)

    def store(self, offset: int, value: int) -> None:
        if 0x10 <= offset < 0x20:
            super().store(offset, value)
            self._arm((offset - 0x10) // 4, value)
        elif offset not in (0x08, 0x0C, 0x24, 0x28, self._ints):
            super().store(offset, value)
        self._update()

    def _arm(self, alarm: int, value: int) -> None:
        self.values[0x20] = self.values.get(0x20, 0) | 1 << alarm
        if hz := self._hz():
            ticks = (value - self._time(0x28)) & 0xFFFFFFFF
            self._alarms[alarm].start(ticks * 1e9 / hz, lambda: self._fire(alarm))
        else:
            self._alarms[alarm].cancel()
            self.machine.note(f"{self.name}_ALARM{alarm} was set without ticks ({self._ticks}): it never fires")

    def _fire(self, alarm: int) -> None:
        if self.values.get(0x20, 0) >> alarm & 1:
            self.values[0x20] &= ~(1 << alarm)
            self.values[self._intr] = self.values.get(self._intr, 0) | 1 << alarm
            self._update()

    def _update(self) -> None:
        for alarm in range(_ALARMS):
            self.machine.interrupts.set_line(self._interrupt + alarm, bool(self.read(self._ints) >> alarm & 1))
