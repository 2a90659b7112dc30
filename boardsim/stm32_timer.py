"""A general-purpose timer of the STM32WB55 that counts up: RM0434, "General-purpose timers" (TIM2, TIM16/TIM17)."""

from collections.abc import Callable

from boardsim.peripheral import Host, Peripheral
from npu.registers import numbered

_CR1, _DIER, _SR, _EGR, _CNT, _PSC, _ARR, _CCR1 = 0x00, 0x0C, 0x10, 0x14, 0x24, 0x28, 0x2C, 0x34


class GeneralTimer(Peripheral):
    """Counts from 0 to ARR; flags the update and the match of each of its channels, which have no pins here.

    Args:
        clocked: whether RCC gives it its clock.
        hz: the frequency of its kernel clock.
        interrupt: the number of its interrupt.
        bits: the width of its counter.
        channels: the number of its compare registers.
    """

    def __init__(
        self,
        machine: Host,
        name: str,
        base: int,
        *,
        clocked: Callable[[], bool],
        hz: Callable[[], float],
        interrupt: int,
        bits: int = 16,
        channels: int = 1,
    ) -> None:
        self._clocked = clocked
        self._hz = hz
        self._interrupt = interrupt
        self._channels = channels
        self._mask = (1 << bits) - 1
        self.NAMES = numbered(
            "0x00 CR1 CR2 SMCR DIER SR EGR CCMR1 CCMR2 CCER CNT PSC ARR RCR CCR1 CCR2 CCR3 CCR4 BDTR DCR DMAR OR1",
            step=4,
        )
        self.RESET = {_ARR: self._mask}
        super().__init__(machine, name, base)

    def reset(self) -> None:
        super().reset()
        self._since = self.machine.clock.nanoseconds
        # PSC counts from the next update on.
        self._prescaler = 0

    def clocked(self) -> bool:
        return self._clocked()

    def read(self, offset: int) -> int:
        self._advance()
        return 0 if offset == _EGR else super().read(offset)

    def peek(self, offset: int) -> int:
        self._advance()
        return super().peek(offset)

    def write(self, offset: int, value: int) -> None:
        self._advance()
        if offset == _SR:
            # A zero clears a flag.
            self.values[_SR] = self.values.get(_SR, 0) & value
        elif offset == _EGR:
            if value & 1:
                self.values[_CNT] = 0
                self._prescaler = self.values.get(_PSC, 0)
                # URS: only an overflow is flagged.
                self._flag(not self.values.get(_CR1, 0) >> 2 & 1)
            self._flag(value & (2 << self._channels) - 2)
        else:
            super().write(offset, value & self._mask if offset in (_CNT, _ARR) or offset >= _CCR1 else value)
        self._plan()

    def _flag(self, bits: int) -> None:
        self.values[_SR] = self.values.get(_SR, 0) | bits

    def _period(self) -> float:
        """Returns the nanoseconds of one count."""
        return (self._prescaler + 1) * 1e9 / self._hz()

    def _counts_to(self, value: int) -> int:
        """Returns the counts until the counter has a value; the whole round if it has it now."""
        top = self.values[_ARR] + 1
        return (value - self.values.get(_CNT, 0) - 1) % top + 1

    def _matches(self) -> dict[int, int]:
        """Returns the flags of SR with the counts until each is set."""
        channels = {2 << index: self.values.get(_CCR1 + 4 * index, 0) for index in range(self._channels)}
        reached = {flag: self._counts_to(value) for flag, value in channels.items() if value <= self.values[_ARR]}
        return {1: self._counts_to(0), **reached}

    def _advance(self) -> None:
        """Takes counter and flags to the present."""
        now = self.machine.clock.nanoseconds
        if not self.values.get(_CR1, 0) & 1 or not self._clocked():
            self._since = now
            return
        # An event comes with its count, not before it.
        counts = int((now - self._since) / self._period() + 1e-6)
        if counts:
            for flag, ahead in self._matches().items():
                self._flag(flag if ahead <= counts else 0)
            self._since += counts * self._period()
            wraps = counts >= self._counts_to(0)
            self.values[_CNT] = (self.values.get(_CNT, 0) + counts) % (self.values[_ARR] + 1)
            if wraps:
                self._prescaler = self.values.get(_PSC, 0)

    def _plan(self) -> None:
        """Updates the interrupt line, and looks again when the next flag with an interrupt is set."""
        enabled = self.values.get(_DIER, 0) & (2 << self._channels) - 1
        self.machine.interrupts.set_line(self._interrupt, bool(self.values.get(_SR, 0) & enabled))
        self.alarm.cancel()
        ahead = [counts for flag, counts in self._matches().items() if flag & enabled]
        if ahead and self.values.get(_CR1, 0) & 1 and self._clocked():
            wait = min(ahead) * self._period() - (self.machine.clock.nanoseconds - self._since)
            self.alarm.start(max(0.0, wait), self._due)

    def _due(self) -> None:
        self._advance()
        self._plan()
