"""STM32L475VG: RM0351 and data sheet DS10969."""

from __future__ import annotations

from tools.boardsim.machine import Machine
from tools.boardsim.peripheral import Peripheral
from tools.boardsim.stm32 import Family, Flash, Gpio, Pin, Power, Rcc, Stm32, Usart

_FAMILY = Family(
    ahb_dividers={},
    pll_r_enable=24,
    pll_r_divider=lambda config: 2 * ((config >> 25 & 3) + 1),
    # DS10969, "PLL characteristics".
    pll_input=(4e6, 16e6),
    pll_vco=(64e6, 344e6),
    # RM0351, FLASH, "Read access latency".
    wait_states={1: (16, 32, 48, 64, 80), 2: (6, 12, 18, 26)},
    fastest={1: 80, 2: 26},
    extended=False,
    page=2048,
    row=256,
    banks=2,
    cr=0x61,
    cfgr=0,
    manual="RM0351",
    serial_select={"USART1": 0},
)


class _Dbgmcu(Peripheral):
    NAMES = {0x00: "IDCODE", 0x04: "CR"}
    #: DEV_ID 0x415 (RM0351, "MCU device ID code").
    RESET = {0x00: 0x10076415}


class Stm32l475(Stm32):
    """The chip.

    Args:
        machine: the machine to build it into.
        options: `hse_hz`: frequency of the crystal; none if not given.
    """

    #: 82 interrupts and 16 exceptions, rounded up to a power of two words.
    VECTOR_TABLE_ALIGNMENT = 512

    def __init__(self, machine: Machine, options: dict[str, str]) -> None:
        super().__init__(machine, 0x100000)
        # RM0351, "Memory map and register boundary addresses".
        machine.add_memory("SRAM1", 0x20000000, 0x18000)
        machine.add_memory("SRAM2", 0x10000000, 0x8000)
        self.rcc = Rcc(machine, 0x40021000, _FAMILY, int(options.get("hse_hz", "0")))
        self.power = Power(machine, 0x40007000, self.rcc, (0x58, 28))
        self.flash = Flash(machine, 0x40022000, self.flash_memory, self.rcc, _FAMILY, {0x20: 0xFFEFF8AA})
        self.rcc.flash, self.rcc.power = self.flash, self.power
        ports = {
            port: Gpio(machine, port, 0x48000000 + 0x400 * index, self.rcc, (0x4C, index), moder)
            for index, (port, moder) in enumerate(
                [
                    ("A", 0xABFFFFFF),
                    ("B", 0xFFFFFEBF),
                    *((port, 0xFFFFFFFF) for port in "CDEFG"),
                    ("H", 0x0000000F),
                ]
            )
        }
        self.ports = ports
        usart1 = Usart(
            machine,
            "USART1",
            0x40013800,
            rcc=self.rcc,
            clock=(0x60, 14),
            bus=2,
            interrupt=37,
            ports=ports,
            tx=(Pin("A", 9, 7), Pin("B", 6, 7), Pin("G", 9, 7)),
            rx=(Pin("A", 10, 7), Pin("B", 7, 7), Pin("G", 10, 7)),
        )
        for peripheral in (self.rcc, self.power, self.flash, *ports.values(), usart1):
            machine.add_peripheral(peripheral)
        machine.add_peripheral(_Dbgmcu(machine, "DBGMCU", 0xE0042000))
