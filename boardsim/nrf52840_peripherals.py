"""Peripherals of the nRF52840, by the chapters of its Product Specification."""

from collections import deque

from boardsim.memory import Memory
from boardsim.peripheral import FlashOperation, Host, Peripheral
from boardsim.serial import BITS, Receiver
from npu.registers import numbered

_PAGE = 4096
# "HFCLK", the crystal's start-up time with its debounce; "NVMC", electrical specification: page, mass erase, word.
_CRYSTAL_START = 360e3
_ERASE_PAGE, _ERASE_ALL, _WRITE = 85e6, 169e6, 41e3
_LFCLK_HZ = 32_768
# "HFCLK": the internal oscillator is off by up to 6 %.
_INTERNAL_ERROR = 1.06


class Nrf(Peripheral):
    """A peripheral with tasks, events and interrupts of the events.

    Class attributes:
        EVENTS: offsets of its events.
        INTERRUPT: its number; None if none of its interrupts is modelled.
    """

    EVENTS: tuple[int, ...] = ()
    INTERRUPT: int | None = None

    def __init__(self, machine: Host, name: str, base: int, size: int = 0x1000) -> None:
        super().__init__(machine, name, base, size)

    def write(self, offset: int, value: int) -> None:
        """Tasks are triggered by 1; INTENSET and INTENCLR set and clear bits."""
        if offset < 0x100:
            if value & 1:
                self.task(offset)
        elif offset in (0x304, 0x308):
            enabled = self.values.get(0x304, 0)
            self.values[0x304] = enabled | value if offset == 0x304 else enabled & ~value
        else:
            super().write(offset, value)
        self.update_interrupt()

    def read(self, offset: int) -> int:
        return super().read(0x304 if offset == 0x308 else offset)

    def task(self, offset: int) -> None:
        """Handles a task that was triggered."""

    def happened(self, event: int) -> None:
        """Sets an event."""
        self.values[event] = 1
        self.update_interrupt()

    def update_interrupt(self) -> None:
        """Raises the interrupt while there is an event whose interrupt is enabled."""
        if self.INTERRUPT is None:
            return
        enabled = self.values.get(0x304, 0)
        level = any(self.values.get(event, 0) and enabled >> (event - 0x100) // 4 & 1 for event in self.EVENTS)
        self.machine.interrupts.set_line(self.INTERRUPT, level)


class Clock(Nrf):
    """CLOCK, and the rest that is at its address: "Access port protection"."""

    NAMES = numbered(
        "0x000 TASKS_HFCLKSTART TASKS_HFCLKSTOP 0x100 EVENTS_HFCLKSTARTED EVENTS_LFCLKSTARTED 0x40C HFCLKSTAT "
        "0x558 APPROTECT_DISABLE",
        step=4,
    )
    EVENTS = (0x100, 0x104)

    def __init__(self, machine: Host) -> None:
        self.crystal = False
        super().__init__(machine, "CLOCK", 0x40000000)

    def reset(self) -> None:
        super().reset()
        self.crystal = False

    def read(self, offset: int) -> int:
        # SRC 0, STATE 16.
        return 1 << 16 | self.crystal if offset == 0x40C else super().read(offset)

    def task(self, offset: int) -> None:
        if offset == 0x000:
            self.alarm.start(_CRYSTAL_START, self._started)
        elif offset == 0x004:
            self.alarm.cancel()
            self.crystal = False

    def _started(self) -> None:
        self.crystal = True
        self.happened(0x100)


class Gpio(Nrf):
    """A port."""

    NAMES = numbered("0x504 OUT OUTSET OUTCLR IN DIR DIRSET DIRCLR", step=4) | {
        0x700 + 4 * pin: f"PIN_CNF{pin}" for pin in range(32)
    }
    # INPUT: disconnected.
    RESET = dict.fromkeys(range(0x700, 0x780, 4), 2)

    def __init__(self, machine: Host, port: int) -> None:
        #: Levels from outside, by pin; without one the pull-up decides.
        self.inputs: dict[int, bool] = {}
        # Both ports are in one kilobyte, the second 0x300 after the first.
        super().__init__(machine, f"P{port}", 0x50000000 + 0x300 * port)

    def is_output(self, pin: int) -> bool:
        """Sets PIN_CNF.DIR, which the register DIR shows, too."""
        return bool(self.values[0x700 + 4 * pin] & 1)

    def is_input(self, pin: int) -> bool:
        """Returns whether the input buffer is connected."""
        return not self.values[0x700 + 4 * pin] & 2

    def level(self, pin: int) -> bool:
        """Returns the level that a pin drives."""
        return bool(self.values.get(0x504, 0) >> pin & 1)

    def read(self, offset: int) -> int:
        if offset in (0x508, 0x50C):
            return super().read(0x504)
        if offset == 0x510:
            return sum(
                (self.inputs.get(pin, self.values[0x700 + 4 * pin] >> 2 & 3 == 3) and self.is_input(pin)) << pin
                for pin in range(32)
            )
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        out = self.values.get(0x504, 0)
        if offset == 0x508:
            self.values[0x504] = out | value
        elif offset == 0x50C:
            self.values[0x504] = out & ~value
        else:
            super().write(offset, value)


class Uart(Nrf):
    """UART, the one without DMA."""

    NAMES = numbered(
        "0x000 TASKS_STARTRX TASKS_STOPRX TASKS_STARTTX TASKS_STOPTX 0x108 EVENTS_RXDRDY 0x11C EVENTS_TXDRDY "
        "0x304 INTENSET INTENCLR 0x500 ENABLE 0x508 PSELRTS PSELTXD PSELCTS PSELRXD RXD TXD 0x524 BAUDRATE "
        "0x56C CONFIG",
        step=4,
    )
    RESET = {**dict.fromkeys((0x508, 0x50C, 0x510, 0x514), 0xFFFFFFFF), 0x524: 0x04000000}
    EVENTS = (0x108, 0x11C)
    INTERRUPT = 2
    _FIFO = 6

    def __init__(self, machine: Host, clock: Clock, ports: tuple[Gpio, Gpio]) -> None:
        self._clock = clock
        self._ports = ports
        self._receiver = Receiver(machine.console, machine.clock, lambda: self.baud, self._arrived)
        super().__init__(machine, "UART0", 0x40002000)

    def reset(self) -> None:
        super().reset()
        self._sending = self._transmitter = False
        self._receiver.reset()
        self._in: deque[int] = deque()

    @property
    def baud(self) -> float:
        """Returns the rate of BAUDRATE, in units of 16 MHz / 2^32; it is as exact as the oscillator."""
        rate = self.values.get(0x524, 0) * 16e6 / 2**32
        return rate if self._clock.crystal else rate * _INTERNAL_ERROR

    def _pin(self, select: int) -> tuple[Gpio, int] | None:
        value = self.values[select]
        return None if value >> 31 else (self._ports[value >> 5 & 1], value & 0x1F)

    @property
    def _enabled(self) -> bool:
        return self.values.get(0x500, 0) == 4

    def task(self, offset: int) -> None:
        if not self._enabled:
            self.machine.note(f"{self.register_name(offset)} was written while UART0 is off (ENABLE): nothing happened")
        elif offset in (0x000, 0x004):
            self._receiver.listen(offset == 0x000)
        else:
            self._transmitter = offset == 0x008

    def write(self, offset: int, value: int) -> None:
        if offset == 0x51C:
            self._send(value & 0xFF)
        elif 0x508 <= offset <= 0x514 and self._enabled:
            self.machine.note(f"{self.register_name(offset)} was written while UART0 is on: nothing happened")
        else:
            super().write(offset, value)

    def read(self, offset: int) -> int:
        if offset == 0x518:
            byte = self._in.popleft() if self._in else 0
            if self._in:
                # The event comes again as long as the FIFO holds bytes ("Reception").
                self.happened(0x108)
            return byte
        return super().read(offset)

    def _send(self, byte: int) -> None:
        if not self._enabled or not self._transmitter:
            self.machine.note("UART0_TXD was written while the transmitter is off (ENABLE, STARTTX): the byte is lost")
        elif self._sending:
            self.machine.note("UART0_TXD was written before TXDRDY: a byte is lost")
        else:
            self._sending = True
            baud = self.baud
            self.alarm.start(BITS * 1e9 / baud, lambda: self._sent(byte, baud))

    def _sent(self, byte: int, baud: float) -> None:
        self._sending = False
        pin = self._pin(0x50C)
        if pin is None or not pin[0].is_output(pin[1]):
            self.machine.note("UART0 sends, but no pin is its TXD, or that pin is no output: nothing arrives")
        else:
            self.machine.console.receive(byte, baud)
        self.happened(0x11C)

    def _arrived(self, byte: int) -> None:
        pin = self._pin(0x514)
        if pin is None or not pin[0].is_input(pin[1]):
            self.machine.note("no pin is the RXD of UART0, or that pin is no input: what is typed does not arrive")
        elif len(self._in) >= self._FIFO:
            self.machine.note("UART0 received more than its FIFO holds: a byte is lost")
        else:
            self._in.append(byte)
            self.happened(0x108)


class Watchdog(Nrf):
    """WDT."""

    NAMES = {
        0x000: "TASKS_START",
        0x400: "RUNSTATUS",
        0x504: "CRV",
        0x508: "RREN",
        0x50C: "CONFIG",
        **{0x600 + 4 * i: f"RR{i}" for i in range(8)},
    }
    RESET = {0x504: 0xFFFFFFFF, 0x508: 1, 0x50C: 1}
    _KEY = 0x6E524635

    def __init__(self, machine: Host) -> None:
        super().__init__(machine, "WDT", 0x40010000)

    def task(self, offset: int) -> None:
        if offset == 0 and not self.values.get(0x400, 0):
            self.values[0x400] = 1
            self._count()

    def write(self, offset: int, value: int) -> None:
        running = self.values.get(0x400, 0)
        if 0x500 <= offset < 0x510 and running:
            self.machine.note(f"{self.register_name(offset)} was written while the watchdog runs: nothing happened")
        elif offset >= 0x600:
            # Only the first reload register is modelled.
            if running and offset == 0x600 and value == self._KEY:
                self._count()
        else:
            super().write(offset, value)

    def _count(self) -> None:
        self.alarm.start((self.values[0x504] + 1) * 1e9 / _LFCLK_HZ, self.watchdog_expired)


class Nvmc(Nrf):
    """NVMC: erases pages and programs words, where bits can only be cleared."""

    NAMES = numbered(
        "0x400 READY 0x408 READYNEXT 0x504 CONFIG ERASEPAGE ERASEALL 0x514 ERASEUICR 0x540 ICACHECNF", step=4
    )

    def __init__(self, machine: Host, flash: Memory, uicr: Memory) -> None:
        self._flash = flash
        self._uicr = uicr
        self.operation = FlashOperation(machine)
        super().__init__(machine, "NVMC", 0x4001E000)

    def read(self, offset: int) -> int:
        if offset in (0x400, 0x408):
            return int(not self.operation.busy)
        return super().read(offset)

    def write(self, offset: int, value: int) -> None:
        mode = self.values.get(0x504, 0) & 3
        if offset in (0x508, 0x50C, 0x514) and mode != 2:
            self.machine.note(f"{self.register_name(offset)} was written while NVMC_CONFIG does not enable erasing")
        elif offset == 0x508:
            if value % _PAGE == 0 and value < self._flash.size:
                self.operation.begin(self._flash, value, b"\xff" * _PAGE, _ERASE_PAGE)
        elif offset == 0x50C:
            if value & 1:
                self._uicr.data[:] = b"\xff" * self._uicr.size
                self.operation.begin(self._flash, 0, b"\xff" * self._flash.size, _ERASE_ALL)
        elif offset == 0x514:
            if value & 1:
                self.operation.begin(self._uicr, 0, b"\xff" * self._uicr.size, _ERASE_PAGE)
        else:
            super().write(offset, value)

    def written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Handles a store to flash or UICR."""
        if self.values.get(0x504, 0) & 3 != 1:
            self.machine.note(f"{memory.name} was written while NVMC_CONFIG does not enable it: nothing happened")
        elif size != 4 or offset % 4:
            self.machine.note(f"{memory.name} was written by {size} bytes at offset {offset:#x}; it takes words")
        else:
            old = int.from_bytes(bytes(memory.data[offset : offset + 4]), "little")
            self.operation.begin(memory, offset, (old & value).to_bytes(4, "little"), _WRITE)
