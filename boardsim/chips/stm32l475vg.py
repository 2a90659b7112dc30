"""STM32L475VG: RM0351 and data sheet DS10969."""

from boardsim.address_map import STM32L475
from boardsim.peripheral import Host
from boardsim.stm32 import Family, Layout, Pin, Stm32

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
    mass_erase=True,
    cr=0x61,
    cfgr=0,
    pllcfgr=0x00001000,
    manual="RM0351",
    serial_select={"USART1": 0},
)


class Stm32l475(Stm32):
    """The chip. Its board has no crystal."""

    ADDRESS_MAP = STM32L475
    LAYOUT = Layout(
        family=_FAMILY,
        rcc=0x40021000,
        power=0x40007000,
        flash=0x40022000,
        power_clock=(0x58, 28),
        hse_hz=0,
        options={0x20: 0xFFEFF8AA},
        ports={
            "A": (0, 0xABFFFFFF),
            "B": (1, 0xFFFFFEBF),
            **{port: (index, 0xFFFFFFFF) for index, port in enumerate("CDEFG", 2)},
            "H": (7, 0x0000000F),
        },
        usart1_interrupt=37,
        usart1_tx=(Pin("A", 9, 7), Pin("B", 6, 7), Pin("G", 9, 7)),
        usart1_rx=(Pin("A", 10, 7), Pin("B", 7, 7), Pin("G", 10, 7)),
        identity=0x10076415,
    )

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        machine.add_memory("SRAM1", 0x20000000, 0x18000)
        machine.add_memory("SRAM2", 0x10000000, 0x8000)


CHIP = Stm32l475
