"""Models the nRF52840 by its Product Specification: its addresses ("Memory map"), and how it starts."""

from boardsim.address_map import NRF52840
from boardsim.chip import Chip
from boardsim.memory import Memory
from boardsim.nrf52840_peripherals import Clock, Gpio, Nvmc, Uart, Watchdog
from boardsim.peripheral import Host, Peripheral


class Nrf52840(Chip):
    """The chip.

    Args:
        machine: the machine to build it into.
        options: `image`: where the boot loader before it expects the image; 0, for no boot loader, if not given.
    """

    #: "HFCLK": the internal oscillator, at once.
    ADDRESS_MAP = NRF52840
    RESET_CLOCK_HZ = 64_000_000
    #: 48 interrupts and 16 exceptions, rounded up to a power of two words (DDI 0403E B3.2.5).
    VECTOR_TABLE_ALIGNMENT = 256

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        # A boot loader reads the vector table as the core does.
        self.image = int(options.get("image", "0"), 0)
        self.add_flash(0, 0x100000)
        ficr = machine.add_memory("FICR", 0x10000000, 0x1000, writable=False)
        uicr = machine.add_memory("UICR", 0x10001000, 0x1000, writable=False)
        machine.add_memory("RAM", 0x20000000, 0x40000)
        for memory in (ficr, uicr):
            memory.data[:] = b"\xff" * memory.size
        # "FICR": INFO.PART, VARIANT ("AAD0"), PACKAGE.
        ficr.data[0x100:0x10C] = b"".join(word.to_bytes(4, "little") for word in (0x52840, 0x41414430, 0x2004))
        self.nvmc = Nvmc(machine, self.flash_memory, uicr)
        self.clock = Clock(machine)
        self.ports = (Gpio(machine, 0), Gpio(machine, 1))
        self.uart = Uart(machine, self.clock, self.ports)
        for peripheral in (self.clock, self.uart, self.nvmc, Watchdog(machine), Ports(machine, self.ports)):
            machine.add_peripheral(peripheral)

    def flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Hands a store to flash to the controller."""
        self.nvmc.written(memory, offset, size, value)

    def power_lost(self) -> None:
        """Handles the loss of power."""
        self.nvmc.operation.power_lost()


class Ports(Peripheral):
    """The two ports, which share a block of addresses."""

    def __init__(self, machine: Host, ports: tuple[Gpio, Gpio]) -> None:
        self._ports = ports
        super().__init__(machine, "GPIO", 0x50000000, 0x1000)

    def reset(self) -> None:
        for port in self._ports:
            port.reset()

    def _port(self, offset: int) -> tuple[Gpio, int]:
        # P1's registers begin at 0x804, P0's end at 0x780.
        return (self._ports[1], offset - 0x300) if offset >= 0x800 else (self._ports[0], offset)

    def register_name(self, offset: int) -> str:
        port, register = self._port(offset)
        return port.register_name(register)

    def peek(self, offset: int) -> int:
        port, register = self._port(offset)
        return port.peek(register)

    def read(self, offset: int) -> int:
        port, register = self._port(offset)
        return port.read(register)

    def write(self, offset: int, value: int) -> None:
        port, register = self._port(offset)
        port.write(register, value)


CHIP = Nrf52840
