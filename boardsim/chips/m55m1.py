"""Nuvoton M55M1: its Technical Reference Manual, "System Memory Map".

Unicorn has no Cortex-M55. This is the chip around it, for images of the same board that are compiled for a
Cortex-M33: start-up, clocks, console and the NPU are those of the chip, instructions are not.
"""

from boardsim.address_map import NUMICRO_M55M1
from boardsim.chip import Chip
from boardsim.m55m1_peripherals import Clocks, Flash, Gpio, Lock, Power, Uart
from boardsim.npu import EthosU
from boardsim.peripheral import Host


class M55M1(Chip):
    """The chip.

    Args:
        machine: the machine to build it into.
        options: none.
    """

    #: "Clock Controller": HIRC.
    ADDRESS_MAP = NUMICRO_M55M1
    RESET_CLOCK_HZ = 12_000_000
    #: The application's flash, where the user configuration says so.
    VECTOR_TABLE = 0x00100000
    #: 162 interrupts and 16 exceptions, rounded up to a power of two words (DDI 0403E B3.2.5).
    VECTOR_TABLE_ALIGNMENT = 1024

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        self.add_flash(0x00100000, 0x200000)
        machine.add_memory("ITCM", 0x00000000, 0x10000)
        machine.add_memory("DTCM", 0x20000000, 0x20000)
        sram = machine.add_memory("SRAM0 and SRAM1", 0x20100000, 0x100000)
        machine.add_memory("SRAM2", 0x20200000, 0x50000)
        self.lock = Lock(machine)
        power, flash = Power(machine, self.lock), Flash(machine, self.lock)
        self.clocks = Clocks(machine, self.lock, power, flash)
        self.ports = Gpio(machine, self.clocks)
        self.npu = EthosU(
            machine,
            0x40003000,
            accelerator="ethos-u55-256",
            interrupt=13,
            memories=(self.flash_memory, sram),
            enabled=lambda: self.clocks.enabled(0x28C, 0),
        )
        uart = Uart(machine, self.clocks, self.lock)
        for peripheral in (self.lock, power, flash, self.clocks, self.ports, uart, self.npu):
            machine.add_peripheral(peripheral)


CHIP = M55M1
