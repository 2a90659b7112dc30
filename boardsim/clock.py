"""Keeps simulated time, and runs actions when some of it has passed.

Time is counted in core cycles, one per instruction, and jumps ahead while the core does nothing but poll or sleep.
"""

import heapq
import itertools
from collections.abc import Callable

# The engine is told to execute so many instructions if there is no limit.
_FOREVER = 1 << 40


class Clock:
    """The core's clock, and events to come.

    Args:
        instructions: says how many instructions were executed since the machine was made.
        limit: told how many more may be executed until the clock has to be looked at, when that changes.
    """

    def __init__(self, instructions: Callable[[], int], limit: Callable[[int], None]) -> None:
        self._instructions = instructions
        self._limit = limit
        self._skipped = 0
        self._hz = 1
        self._since = (0, 0.0)  # cycles, nanoseconds
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._event_number = itertools.count()
        self._end = float("inf")

    @property
    def cycles(self) -> int:
        """Returns core cycles since the machine was made: one per instruction, and those that were skipped."""
        return self._instructions() + self._skipped

    @property
    def nanoseconds(self) -> float:
        """Returns simulated time."""
        cycles, since = self._since
        return since + (self.cycles - cycles) * 1e9 / self._hz

    @property
    def hz(self) -> int:
        """Returns the core's frequency."""
        return self._hz

    def set_hz(self, hz: int) -> None:
        """Sets the core's frequency from now on."""
        self._since = (self.cycles, self.nanoseconds)
        self._hz = hz
        self._plan()

    def after(self, nanoseconds: float, action: Callable[[], None]) -> None:
        """Calls `action` when that much time has passed."""
        heapq.heappush(self._events, (self.nanoseconds + nanoseconds, next(self._event_number), action))
        self._plan()

    def forget_events(self) -> None:
        """Drops all actions to come."""
        self._events.clear()

    def end_at(self, instructions: float) -> None:
        """Sets the count of instructions at which emulation is to end; infinity for no end."""
        self._end = instructions
        self._plan()

    def instructions_ahead(self) -> int:
        """Instructions that may be executed until something else has to be looked at; at least one."""
        ahead = self._end - self._instructions()
        if self._events:
            ahead = min(ahead, (self._events[0][0] - self.nanoseconds) * self._hz / 1e9)
        return max(1, int(min(ahead, _FOREVER)))

    def _plan(self) -> None:
        """Ends emulation in time for the next event and for its end."""
        self._limit(self.instructions_ahead())

    def run_events(self) -> None:
        """Runs the actions that are due."""
        now = self.nanoseconds
        while self._events and self._events[0][0] <= now:
            _, _, action = heapq.heappop(self._events)
            action()
        self._plan()

    def pass_time(self, nanoseconds: float) -> None:
        """Lets time pass without instructions, and runs the actions that fall into it."""
        self._skipped += int(nanoseconds * self._hz / 1e9)
        self.run_events()

    def skip_to_next_event(self) -> bool:
        """Jumps to the next event. Returns False if there is none."""
        if not self._events:
            return False
        cycles = (self._events[0][0] - self.nanoseconds) * self._hz / 1e9
        self._skipped += max(0, int(cycles) + 1)
        self.run_events()
        return True


class Alarm:
    """An action to come, one at a time: another start or cancel() drops the one before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._starts = 0

    def start(self, nanoseconds: float, action: Callable[[], None]) -> None:
        """Calls `action` when that much time has passed."""
        self.cancel()
        starts = self._starts
        self._clock.after(nanoseconds, lambda: action() if starts == self._starts else None)

    def cancel(self) -> None:
        """Drops the action."""
        self._starts += 1
