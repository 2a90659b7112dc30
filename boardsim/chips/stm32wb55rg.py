"""STM32WB55RG: RM0434 and data sheet DS11929."""

from functools import partial

from boardsim.address_map import STM32WB55
from boardsim.peripheral import Host
from boardsim.stm32 import Family, Layout, Pin, Stm32, Usart
from boardsim.stm32_timer import GeneralTimer

_FAMILY = Family(
    # RM0434, RCC, "Clock configuration register", HPRE.
    ahb_dividers={1: 3, 2: 5, 5: 6, 6: 10, 7: 32},
    pll_r_enable=28,
    pll_r_divider=lambda config: (config >> 29 & 7) + 1,
    # DS11929, "PLL characteristics".
    pll_input=(2.66e6, 16e6),
    pll_vco=(96e6, 344e6),
    # RM0434, FLASH, "Read access latency".
    wait_states={1: (18, 36, 54, 64), 2: (6, 12, 16)},
    fastest={1: 64, 2: 16},
    extended=True,
    page=4096,
    row=512,
    banks=1,
    mass_erase=False,
    cr=0x61,
    cfgr=0x00070000,
    pllcfgr=0x22040100,
    manual="RM0434",
    serial_select={"USART1": 0, "LPUART1": 10},
)

#: FLASH_OPTR as delivered, and the radio core's stack from 0x080D4000 on (SFSA 0xD4).
_OPTIONS = {0x20: 0x3DFFF1AA, 0x80: 0xD4, 0x84: 0x80000000 | 0x0A << 18 | 0x0F << 25 | 0x35000}


class Stm32wb55(Stm32):
    """The chip."""

    ADDRESS_MAP = STM32WB55
    LAYOUT = Layout(
        family=_FAMILY,
        rcc=0x58000000,
        power=0x58000400,
        flash=0x58004000,
        power_clock=None,
        hse_hz=32_000_000,
        options=_OPTIONS,
        ports={
            "A": (0, 0xABFFFFFF),
            "B": (1, 0xFFFFFEBF),
            "C": (2, 0xFFFFFFFF),
            "D": (3, 0xFFFFFFFF),
            "E": (4, 0x000003FF),
            "H": (7, 0x000000CF),
        },
        usart1_interrupt=36,
        usart1_tx=(Pin("A", 9, 7), Pin("B", 6, 7)),
        usart1_rx=(Pin("A", 10, 7), Pin("B", 7, 7)),
        identity=0x20016495,
    )

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        machine.add_memory("SRAM1", 0x20000000, 0x30000)
        machine.add_memory("SRAM2a", 0x20030000, 0x8000, aliases=(0x10000000,))
        machine.add_memory("SRAM2b", 0x20038000, 0x8000, aliases=(0x10008000,))
        system_memory = machine.add_memory("system memory", 0x1FFF0000, 0x8000, writable=False)
        # "Flash size data register", in KB.
        system_memory.data[0x75E0:0x75E2] = (1024).to_bytes(2, "little")
        # RM0434, "Memory map", RCC_APB1ENR1 and RCC_APB2ENR, and "Vector table".
        for name, base, enable, bus, interrupt in (
            ("TIM2", 0x40000000, (0x58, 0), 1, 28),
            ("TIM16", 0x40014400, (0x60, 17), 2, 25),
            ("TIM17", 0x40014800, (0x60, 18), 2, 26),
        ):
            timer = GeneralTimer(
                machine,
                name,
                base,
                clocked=partial(self.rcc.enabled, *enable),
                hz=partial(self.rcc.timer_hz, bus),
                interrupt=interrupt,
                bits=32 if name == "TIM2" else 16,
                channels=4 if name == "TIM2" else 1,
            )
            machine.add_peripheral(timer)
        machine.add_peripheral(
            Usart(
                machine,
                "LPUART1",
                0x40008000,
                rcc=self.rcc,
                clock=(0x5C, 0),
                bus=1,
                interrupt=37,
                ports=self.ports,
                tx=(Pin("A", 2, 8), Pin("B", 11, 8), Pin("C", 1, 8)),
                rx=(Pin("A", 3, 8), Pin("B", 10, 8), Pin("C", 0, 8)),
                divider=256,
            )
        )


CHIP = Stm32wb55
