"""Reports accesses to addresses of a chip that its model does not have: a fault, which says what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field

# Cortex-M cores have their devices there (DDI 0403E B3.1).
_DEVICES = range(0x40000000, 0x60000000)


@dataclass(frozen=True)
class AddressMap:
    """The peripherals of a chip.

    Attributes:
        place: the document and the section that list them all.
        size: the most bytes that the registers of one take.
        blocks: name -> first address.
    """

    place: str
    size: int = 0
    blocks: Mapping[str, int] = field(default_factory=dict)

    def missing(self, address: int) -> str:
        """Returns what the model lacks there, in half a sentence; empty where there are no peripherals."""
        if address not in _DEVICES:
            return ""
        for name, base in self.blocks.items():
            if base <= address < base + self.size:
                document = self.place.partition(",")[0]
                what = f"that is {name} + {address - base:#x}, which the simulator does not have"
                return f"; {what}: {document}, registers of {name}"
        return f"; what is there the simulator does not know: {self.place}"


def _every(step: int, names: str, first: int = 0x40000000) -> dict[str, int]:
    """Returns the addresses of peripherals that follow one another; `-` is a gap."""
    return {name: first + step * index for index, name in enumerate(names.split()) if name != "-"}


RP2350 = AddressMap(
    'RP2350 datasheet, "Address Map"',
    0x4000,
    {
        **_every(
            0x8000,
            """
            SYSINFO SYSCFG CLOCKS PSM RESETS IO_BANK0 IO_QSPI PADS_BANK0 PADS_QSPI XOSC PLL_SYS PLL_USB ACCESSCTRL
            BUSCTRL UART0 UART1 SPI0 SPI1 I2C0 I2C1 ADC PWM TIMER0 TIMER1 HSTX_CTRL XIP_CTRL QMI WATCHDOG BOOTRAM
            ROSC TRNG SHA256 POWMAN TICKS - - OTP - OTP_DATA - CORESIGHT - - GLITCH_DETECTOR TBMAN
            """,
        ),
        **_every(0x100000, "DMA USBCTRL_DPRAM PIO0 PIO1 PIO2 XIP_AUX HSTX_FIFO", 0x50000000),
        "USBCTRL_REGS": 0x50110000,
    },
)
RP2040 = AddressMap(
    'RP2040 datasheet, "Address Map"',
    0x4000,
    {
        **_every(
            0x4000,
            """
            SYSINFO SYSCFG CLOCKS RESETS PSM IO_BANK0 IO_QSPI PADS_BANK0 PADS_QSPI XOSC PLL_SYS PLL_USB BUSCTRL UART0
            UART1 SPI0 SPI1 I2C0 I2C1 ADC PWM TIMER WATCHDOG RTC ROSC VREG_AND_CHIP_RESET - TBMAN
            """,
        ),
        **_every(0x100000, "DMA USBCTRL_DPRAM PIO0 PIO1 XIP_AUX", 0x50000000),
        "USBCTRL_REGS": 0x50110000,
    },
)
NRF52840 = AddressMap(
    'nRF52840 Product Specification, "Instantiation"',
    0x1000,
    {
        **_every(
            0x1000,
            """
            CLOCK RADIO UARTE0 SPIM0 SPIM1 NFCT GPIOTE SAADC TIMER0 TIMER1 TIMER2 RTC0 TEMP RNG ECB CCM WDT RTC1 QDEC
            COMP EGU0 EGU1 EGU2 EGU3 EGU4 EGU5 TIMER3 TIMER4 PWM0 PDM NVMC PPI MWU PWM1 PWM2 SPIM2 RTC2 I2S FPU USBD
            UARTE1 QSPI - - - PWM3 - SPIM3
            """,
        ),
        "P0": 0x50000000,
        "CRYPTOCELL": 0x5002A000,
    },
)
_APB1 = {"RTC": 0x40002800, "WWDG": 0x40002C00, "SPI2": 0x40003800, "LPTIM1": 0x40007C00, "LPTIM2": 0x40009400}
_APB2 = {"SYSCFG": 0x40010000, "TIM1": 0x40012C00, "SPI1": 0x40013000, "TIM16": 0x40014400, "TIM17": 0x40014800}
_AHB1 = {"DMA1": 0x40020000, "DMA2": 0x40020400, "CRC": 0x40023000, "TSC": 0x40024000}
STM32WB55 = AddressMap(
    'RM0434, "Memory map and peripheral register boundary addresses"',
    0x400,
    {
        **{"TIM2": 0x40000000, "LCD": 0x40002400, "I2C1": 0x40005400, "I2C3": 0x40005C00, "CRS": 0x40006000},
        **{"USB": 0x40006800, "SAI1": 0x40015400, "DMAMUX1": 0x40020800, "ADC": 0x50040000, "AES1": 0x50060000},
        **{"IPCC": 0x58000C00, "RNG": 0x58001000, "HSEM": 0x58001400, "AES2": 0x58001800, "PKA": 0x58002000},
        **_APB1,
        **_APB2,
        **_AHB1,
    },
)
STM32L475 = AddressMap(
    'RM0351, "Memory map and register boundary addresses"',
    0x400,
    {
        **_every(0x400, "TIM2 TIM3 TIM4 TIM5 TIM6 TIM7"),
        **_every(0x400, "SPI3 - USART2 USART3 UART4 UART5 I2C1 I2C2 I2C3 - CAN1 - - DAC1 OPAMP", 0x40003C00),
        **{"SDMMC1": 0x40012800, "TIM8": 0x40013400, "TIM15": 0x40014000, "SAI1": 0x40015400, "SAI2": 0x40015800},
        **{"DFSDM1": 0x40016000, "OTG_FS": 0x50000000, "ADC": 0x50040000, "RNG": 0x50060800},
        **_APB1,
        **_APB2,
        **_AHB1,
    },
)
STM32H743 = AddressMap('RM0433, "Memory map and register boundary addresses"')
NUMICRO_M55M1 = AddressMap('M55M1 Series Technical Reference Manual, "System Memory Map"')
