"""Models a serial line: a terminal with its own baud rate at the far end, a receiver at the board's."""

from collections import deque
from collections.abc import Callable

from boardsim.clock import Alarm, Clock

# Both ends may be off by a total of about 4 % until a receiver samples the wrong bit (half a bit in ten); one end may
# be off by half of that, so that any other can read it.
TOLERANCE = 0.02
# A byte on the line has a start bit, eight data bits and a stop bit.
BITS = 10


def garbled(byte: int) -> int:
    """Returns the byte that arrives if it was sent at a wrong rate: the last data bit, sampled first to be wrong, is
    inverted.
    """
    return byte ^ 0x80


class Terminal:
    """A terminal that is connected to the board's console, 8 data bits, no parity.

    Args:
        note: called with mistakes in what the board sends.
        baud: its baud rate.

    Attributes:
        output: every byte received since the machine was made.
        on_output: called with the bytes as they arrive; None if nobody listens.
    """

    def __init__(self, note: Callable[[str], None], baud: int) -> None:
        self._note = note
        self.baud = baud
        self.output = bytearray()
        self.on_output: Callable[[bytes], None] | None = None
        self._input: deque[int] = deque()
        self._wake: Callable[[], None] | None = None

    def feed(self, data: bytes) -> None:
        """Types: the bytes reach the board one after the other at the baud rate, if its receiver takes them."""
        self._input.extend(data)
        if self._wake is not None and self._input:
            self._wake()

    @property
    def text(self) -> str:
        """Returns the received text with plain line ends."""
        return self.output.decode("utf-8", errors="replace").replace("\r\n", "\n")

    def reset(self) -> None:
        """Handles a reset of the board: bytes that were typed and not yet sent stay to be sent."""
        self._wake = None

    # The board's end of the line calls these.

    def connect(self, wake: Callable[[], None]) -> None:
        """Lets a receiver listen from now on: `wake` is called when next_byte() has something to take."""
        self._wake = wake
        if self._input:
            wake()

    def next_byte(self) -> int | None:
        """Returns the next byte on its way to the board; None if nothing was typed."""
        return self._input.popleft() if self._input else None

    def off(self, baud: float) -> bool:
        """Returns whether a baud rate is too far from the terminal's to be understood."""
        return abs(baud / self.baud - 1) > TOLERANCE

    def receive(self, byte: int, baud: float) -> None:
        """Receives a byte that the board sent at a baud rate."""
        if self.off(baud):
            self._note(
                f"the console sends at {baud:,.0f} baud, {100 * (baud / self.baud - 1):+.1f} % off the terminal's "
                f"{self.baud:,}: garbage arrives"
            )
            byte = garbled(byte)
        self.output.append(byte)
        if self.on_output is not None:
            self.on_output(bytes([byte]))


class Receiver:
    """A serial port's receiver: takes what is typed at a terminal byte after byte while it listens.

    Args:
        terminal: the terminal.
        clock: simulated time; a byte takes as long as the terminal needs for it.
        baud: the port's baud rate; bytes come garbled if it is not the terminal's.
        arrived: called with each byte, also with the one that was on its way when the port stopped listening.

    Attributes:
        listening: whether the port takes bytes.
    """

    def __init__(
        self, terminal: Terminal, clock: Clock, baud: Callable[[], float], arrived: Callable[[int], None]
    ) -> None:
        self.listening = False
        self._terminal = terminal
        self._alarm = Alarm(clock)
        self._baud = baud
        self._arrived = arrived
        self._receiving = False

    def reset(self) -> None:
        """Handles a reset of the port: it does not listen, and a byte on its way is lost."""
        self.listening = self._receiving = False
        self._alarm.cancel()

    def listen(self, on: bool) -> None:
        """Turns the receiver on or off."""
        before, self.listening = self.listening, on
        if on and not before:
            self._terminal.connect(self._start)

    def _start(self) -> None:
        if self._receiving or not self.listening:
            return
        byte = self._terminal.next_byte()
        if byte is not None:
            self._receiving = True
            self._alarm.start(BITS * 1e9 / self._terminal.baud, lambda: self._received(byte))

    def _received(self, byte: int) -> None:
        self._receiving = False
        self._arrived(garbled(byte) if self._terminal.off(self._baud()) else byte)
        self._start()
