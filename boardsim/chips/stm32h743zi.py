"""STM32H743ZI: RM0433 and data sheet DS12110. One bus matrix; the caches, which only the core notices, are not
modelled.
"""

from boardsim.address_map import STM32H743
from boardsim.chip import Chip
from boardsim.memory import Memory
from boardsim.peripheral import Host, Peripheral
from boardsim.stm32 import Dbgmcu, Gpio, Pin, Usart, Watchdog
from boardsim.stm32h7 import Flash, Power, Rcc, Syscfg


class Stm32h743(Chip):
    """The chip.

    Args:
        machine: the machine to build into.
        options: `hse_hz`: frequency of the clock that the board feeds.
    """

    #: HSI: RCC, "Clocks".
    ADDRESS_MAP = STM32H743
    RESET_CLOCK_HZ = 64_000_000
    #: The option bytes' boot address: flash.
    VECTOR_TABLE = 0x08000000
    #: 150 interrupts and 16 exceptions, rounded up to a power of two words (DDI 0403E B3.2.5).
    VECTOR_TABLE_ALIGNMENT = 1024

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        # "Memory organization".
        self.add_flash(0x08000000, 0x200000)
        for name, base, size in (
            ("ITCM", 0x00000000, 0x10000),
            ("DTCM", 0x20000000, 0x20000),
            ("AXI SRAM", 0x24000000, 0x80000),
            ("SRAM1 to SRAM3", 0x30000000, 0x48000),
            ("SRAM4", 0x38000000, 0x10000),
        ):
            machine.add_memory(name, base, size)
        self.rcc = Rcc(machine, int(options.get("hse_hz", "0")))
        power = Power(machine)
        self.flash = Flash(machine, self.flash_memory, self.rcc, power)
        self.ports = {
            port: Gpio(
                machine,
                port,
                0x58020000 + 0x400 * index,
                self.rcc,
                (0xE0, index),
                {"A": 0xABFFFFFF, "B": 0xFFFFFEBF}.get(port, 0xFFFFFFFF),
            )
            for index, port in enumerate("ABCDEFGHIJK")
        }
        usart3 = Usart(
            machine,
            "USART3",
            0x40004800,
            rcc=self.rcc,
            clock=(0xE8, 18),
            bus=1,
            interrupt=39,
            ports=self.ports,
            tx=(Pin("B", 10, 7), Pin("C", 10, 7), Pin("D", 8, 7)),
            rx=(Pin("B", 11, 7), Pin("C", 11, 7), Pin("D", 9, 7)),
        )
        blocks: list[Peripheral] = [self.rcc, power, Syscfg(machine, self.rcc, power), self.flash, usart3]
        # Only chips with two cores have these; pyOCD's flash algorithm feeds them here, too, without harm.
        blocks += [Peripheral(machine, "IWDG2", 0x58004C00), Peripheral(machine, "WWDG2", 0x40002C00)]
        # Revision V.
        blocks += [Watchdog(machine, "IWDG1", 0x58004800), Dbgmcu(machine, 0x5C001000, 0x20030450)]
        for peripheral in [*blocks, *self.ports.values()]:
            machine.add_peripheral(peripheral)

    def flash_written(self, memory: Memory, offset: int, size: int, value: int) -> None:
        """Hands a store to flash to the controller."""
        self.flash.written(offset, size, value)

    def power_lost(self) -> None:
        """Handles the loss of power."""
        self.flash.power_lost()


CHIP = Stm32h743
