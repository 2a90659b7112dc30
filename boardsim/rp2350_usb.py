"""The USB controller of the RP2350 and RP2040 as a device, and a host that enumerates it and opens its serial port.

Datasheet, "USB": the controller's registers and its dual-port RAM. The host follows USB 2.0, chapter 9, and CDC PSTN
1.2, as an operating system does; it is strict about data toggles and descriptors.
"""

import struct
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from boardsim.memory import Memory
from boardsim.peripheral import Host
from boardsim.rp2350_peripherals import Clocks, Resets, RpPeripheral

_FULL, _DATA1, _STALL, _AVAILABLE, _LENGTH = 1 << 15, 1 << 13, 1 << 11, 1 << 10, 0x3FF
_SETUP_REC, _BUS_RESET = 1 << 17, 1 << 19
_USB_HZ = 48_000_000

# The host waits so many nanoseconds between two tries; real hosts poll every microframe or faster.
_TICK = 20_000
_TRIES = 20_000


class UsbController(RpPeripheral):
    """The controller in device mode."""

    NAMES = {
        0x00: "ADDR_ENDP",
        0x40: "MAIN_CTRL",
        0x4C: "SIE_CTRL",
        0x50: "SIE_STATUS",
        0x58: "BUFF_STATUS",
        0x68: "EP_STALL_ARM",
        0x74: "USB_MUXING",
        0x78: "USB_PWR",
        0x8C: "INTR",
        0x90: "INTE",
        0x98: "INTS",
    }
    INTERRUPT = 14
    #: Its bit in RESETS.
    BIT = 28
    RESET = {0x40: 1 << 2}

    def __init__(self, machine: Host, resets: Resets, clocks: Clocks, memory: Memory) -> None:
        self._clocks = clocks
        self._memory = memory
        super().__init__(machine, "USB", 0x50110000, resets, self.BIT)
        resets.on_reset[self.BIT] = self.reset

    def store(self, offset: int, value: int) -> None:
        if offset in (0x50, 0x58):
            # Write one to clear.
            self.values[offset] = self.values.get(offset, 0) & ~value
        else:
            super().store(offset, value)
        self._update_interrupt()

    def read(self, offset: int) -> int:
        if offset in (0x8C, 0x98):
            return self._raw_interrupts() & (self.values.get(0x90, 0) if offset == 0x98 else 0xFFFFFF)
        return super().read(offset)

    def _raw_interrupts(self) -> int:
        """Returns INTR as a device needs it: BUFF_STATUS 4, BUS_RESET 12, SETUP_REQ 16."""
        status = self.values.get(0x50, 0)
        return bool(self.values.get(0x58, 0)) << 4 | bool(status & _BUS_RESET) << 12 | bool(status & _SETUP_REC) << 16

    def _update_interrupt(self) -> None:
        self.machine.interrupts.set_line(self.INTERRUPT, bool(self._raw_interrupts() & self.values.get(0x90, 0)))

    @property
    def connected(self) -> bool:
        """Returns whether the pull-up tells a host that there is a device."""
        values = self.values
        on = values.get(0x40, 0) & 5 == 1 and values.get(0x4C, 0) >> 16 & 1 and values.get(0x74, 0) & 9 == 9
        if not on or not self.clocked() or values.get(0x78, 0) & 0xC != 0xC:
            return False
        if abs(self._clocks.usb_hz - _USB_HZ) > _USB_HZ * 0.0025:
            self.machine.note(f"clk_usb is {self._clocks.usb_hz / 1e6:g} MHz, not 48: no host understands the device")
            return False
        return True

    def _word(self, offset: int) -> int:
        return int.from_bytes(bytes(self._memory.data[offset : offset + 4]), "little")

    def _set_word(self, offset: int, value: int) -> None:
        self._memory.data[offset : offset + 4] = value.to_bytes(4, "little")

    def _buffer(self, endpoint: int, out: bool) -> int | None:
        """Returns the address of an endpoint's buffer; None if it is not enabled."""
        if endpoint == 0:
            return 0x100
        control = self._word(8 * endpoint + 4 * out)
        return control & 0xFFC0 if control >> 31 else None

    def _stalls(self, endpoint: int, out: bool, state: int) -> bool:
        return bool(state & _STALL) and (endpoint != 0 or bool(self.values.get(0x68, 0) >> out & 1))

    # The host calls these.

    def bus_reset(self) -> None:
        """Resets the bus as the host."""
        self.values[0x50] = self.values.get(0x50, 0) | _BUS_RESET
        self._update_interrupt()

    def answers(self, address: int) -> bool:
        """Returns whether the device listens to an address."""
        return self.connected and self.values.get(0, 0) & 0x7F == address

    def setup(self, packet: bytes) -> None:
        """Handles a SETUP transaction; a device always takes it."""
        self._memory.data[0:8] = packet
        self.values[0x50] = self.values.get(0x50, 0) | _SETUP_REC
        self.values[0x68] = 0
        self._update_interrupt()

    def take(self, endpoint: int) -> tuple[bytes, int] | str:
        """Handles an IN transaction: returns data and its toggle, or "NAK" or "STALL"."""
        at = 0x80 + 8 * endpoint
        state = self._word(at)
        buffer = self._buffer(endpoint, False)
        if self._stalls(endpoint, False, state):
            return "STALL"
        if buffer is None or not state & _AVAILABLE or not state & _FULL:
            return "NAK"
        data = bytes(self._memory.data[buffer : buffer + (state & _LENGTH)])
        self._set_word(at, state & ~(_AVAILABLE | _FULL))
        self.values[0x58] = self.values.get(0x58, 0) | 1 << 2 * endpoint
        self._update_interrupt()
        return data, int(bool(state & _DATA1))

    def give(self, endpoint: int, data: bytes, toggle: int) -> str:
        """Handles an OUT transaction: returns "ACK", "NAK" or "STALL"."""
        at = 0x84 + 8 * endpoint
        state = self._word(at)
        buffer = self._buffer(endpoint, True)
        if self._stalls(endpoint, True, state):
            return "STALL"
        if buffer is None or not state & _AVAILABLE or state & _FULL:
            return "NAK"
        if int(bool(state & _DATA1)) != toggle:
            self.machine.note(f"USB endpoint {endpoint} OUT expects DATA{1 - toggle} where the host sends DATA{toggle}")
            return "NAK"
        if len(data) > state & _LENGTH:
            self.machine.note(f"USB endpoint {endpoint} OUT has room for {state & _LENGTH} of {len(data)} bytes")
            return "NAK"
        self._memory.data[buffer : buffer + len(data)] = data
        self._set_word(at, state & ~(_AVAILABLE | _LENGTH) | _FULL | len(data))
        self.values[0x58] = self.values.get(0x58, 0) | 2 << 2 * endpoint
        self._update_interrupt()
        return "ACK"


class UsbError(Exception):
    """A device that does not behave; the message is a host's objection."""


_Step = Generator[None, None, None]


@dataclass
class UsbHost:
    """A host with a CDC-ACM driver.

    Enumerates the device as soon as it is connected, opens its port, and from then on reads what it sends.

    Args:
        controller: the device's controller.

    Attributes:
        device, configuration, strings: descriptors as the device gave them.
        address: the address given to the device; 0 until then.
        line_coding: the device's answer to GET_LINE_CODING after SET_LINE_CODING.
        output: bytes received from the port.
        log: the steps done, a line each.
        error: the host's objection; it stops then.
        refused: a request that no device knows was answered by STALL.
    """

    controller: UsbController
    device: bytes = b""
    configuration: bytes = b""
    strings: list[str] = field(default_factory=list)
    address: int = 0
    line_coding: bytes = b""
    output: bytearray = field(default_factory=bytearray)
    log: list[str] = field(default_factory=list)
    error: str = ""
    refused: bool = False
    ready: bool = False
    _to_send: bytearray = field(default_factory=bytearray)

    def __post_init__(self) -> None:
        self._session = self._run()
        self._schedule()

    def send(self, data: bytes) -> None:
        """Writes to the port."""
        self._to_send += data

    def unplug(self) -> None:
        """Pulls the cable: nothing more is asked of the device."""
        self._session.close()

    def _schedule(self) -> None:
        self.controller.machine.clock.after(_TICK, self._tick)

    def _tick(self) -> None:
        try:
            next(self._session)
        except StopIteration:
            return
        except UsbError as error:
            self.error = str(error)
            return
        self._schedule()

    # Transactions; each waits while the device answers with NAK.

    def _wait(self, attempt: Callable[[], object], what: str) -> Generator[None, None, object]:
        for _ in range(_TRIES):
            if not self.controller.answers(self.address):
                raise UsbError(f"{what}: the device does not answer at address {self.address}")
            result = attempt()
            if result == "STALL":
                raise UsbError(f"{what}: the device answers with STALL")
            if result != "NAK":
                return result
            yield
        raise UsbError(f"{what}: the device answers with NAK for ever")

    def _in(self, endpoint: int, expected: int, what: str) -> Generator[None, None, bytes]:
        result = yield from self._wait(lambda: self.controller.take(endpoint), what)
        assert isinstance(result, tuple)
        data, toggle = result
        if toggle != expected:
            raise UsbError(f"{what}: DATA{toggle} arrived where DATA{expected} was due")
        return data

    def _control_in(self, request: int, kind: int, value: int, index: int, length: int) -> Generator[None, None, bytes]:
        what = f"request {kind:#04x} {request:#04x} value {value:#06x}"
        self.controller.setup(struct.pack("<BBHHH", kind, request, value, index, length))
        yield
        data = b""
        toggle = 1
        while True:
            packet = yield from self._in(0, toggle, what)
            toggle ^= 1
            data += packet
            if len(packet) > 64 or len(data) > length:
                raise UsbError(f"{what}: more than the {length} bytes that were asked for")
            if len(packet) < 64 or len(data) == length:
                break
            yield
        yield
        yield from self._wait(lambda: self.controller.give(0, b"", 1), what + ", status")
        self.log.append(f"{what}: {data.hex(' ')}")
        yield
        return data

    def _control_out(self, request: int, kind: int, value: int, index: int, data: bytes = b"") -> _Step:
        what = f"request {kind:#04x} {request:#04x} value {value:#06x}"
        self.controller.setup(struct.pack("<BBHHH", kind, request, value, index, len(data)))
        yield
        if data:
            yield from self._wait(lambda: self.controller.give(0, data, 1), what)
            yield
        status = yield from self._in(0, 1, what + ", status")
        if status:
            raise UsbError(f"{what}: {len(status)} bytes arrived as status")
        self.log.append(f"{what}: ok")
        yield

    # The session.

    def _run(self) -> _Step:
        while not self.controller.connected:
            yield
        self.controller.bus_reset()
        yield from self._pause(10e6)
        first = yield from self._control_in(6, 0x80, 0x0100, 0, 8)
        if len(first) != 8 or first[7] != 64:
            raise UsbError(f"the first 8 bytes of the device descriptor are {first.hex(' ')}")
        yield from self._control_out(5, 0, 7, 0)
        self.address = 7
        yield from self._pause(2e6)
        self.device = yield from self._control_in(6, 0x80, 0x0100, 0, 18)
        header = yield from self._control_in(6, 0x80, 0x0200, 0, 9)
        (total,) = struct.unpack_from("<H", header, 2)
        self.configuration = yield from self._control_in(6, 0x80, 0x0200, 0, total)
        endpoints = self._check_configuration()
        yield from self._control_in(6, 0x80, 0x0300, 0, 255)
        for index in self.device[14:17]:
            text = yield from self._control_in(6, 0x80, 0x0300 | index, 0x0409, 255)
            self.strings.append(text[2:].decode("utf-16-le"))
        # A device is to refuse a request of another class, without harm to what follows.
        try:
            yield from self._control_in(6, 0x80, 0x0600, 0, 10)
        except UsbError as error:
            self.refused = "STALL" in str(error)
        yield from self._control_out(9, 0, self.configuration[5], 0)
        coding = struct.pack("<IBBB", 9600, 0, 0, 8)
        yield from self._control_out(0x20, 0x21, 0, 0, coding)
        self.line_coding = yield from self._control_in(0x21, 0xA1, 0, 0, 7)
        # DTR and RTS: a program opens the port.
        yield from self._control_out(0x22, 0x21, 3, 0)
        self.ready = True
        yield from self._transfer(*endpoints)

    def _pause(self, nanoseconds: float) -> _Step:
        for _ in range(int(nanoseconds / _TICK)):
            yield

    def _check_configuration(self) -> tuple[int, int]:
        """Reads the configuration as a driver for CDC-ACM does; returns the endpoints of the data, IN and OUT."""
        data = self.configuration
        interfaces: list[tuple[int, int]] = []
        functional: set[int] = set()
        endpoints: dict[str, int] = {}
        at = 0
        while at < len(data):
            size, kind = data[at], data[at + 1]
            if not size or at + size > len(data):
                raise UsbError(f"the configuration is broken at byte {at}")
            body = data[at : at + size]
            if kind == 4:
                interfaces.append((body[5], body[6]))
            elif kind == 0x24:
                functional.add(body[2])
            elif kind == 5 and body[3] & 3 == 2:
                if struct.unpack_from("<H", body, 4)[0] != 64:
                    raise UsbError("a bulk endpoint of a full-speed device has packets of 64 bytes")
                endpoints["in" if body[2] & 0x80 else "out"] = body[2] & 15
            at += size
        if interfaces != [(2, 2), (10, 0)] or not functional >= {0, 1, 2, 6} or len(endpoints) != 2:
            raise UsbError(f"no CDC-ACM function: interfaces {interfaces}, descriptors {functional}, {endpoints}")
        return endpoints["in"], endpoints["out"]

    def _transfer(self, source: int, sink: int) -> _Step:
        received = sent = 0
        while True:
            result = self.controller.take(source)
            if isinstance(result, tuple):
                data, toggle = result
                if toggle != received:
                    raise UsbError(f"the port sent DATA{toggle} where DATA{received} was due")
                received ^= 1
                self.output += data
            if self._to_send:
                packet = bytes(self._to_send[:64])
                if self.controller.give(sink, packet, sent) == "ACK":
                    sent ^= 1
                    del self._to_send[: len(packet)]
            yield
