"""STM32WB55: RM0434, "Debug support" and FLASH, "Flash option register". pyOCD does not bring it."""

from tools.commands.flash.chip import Chip, OwnTarget
from tools.commands.flash.debug_port import cortex_m4_port

_NAME = "stm32wb55rgvx"


def _own_target() -> OwnTarget:
    # pyOCD takes a second to import.
    from tools.commands.flash.stm32wb55 import Stm32Wb55Target

    return Stm32Wb55Target(_NAME)


# The radio core has its own AHB-AP, 1, which exists but permits no access: CSW.DeviceEn is 0. A probe found its number,
# and that of the chip's SW-DP of version 2, on a NUCLEO-WB55RG (Zephyr's issue 40201).
_RADIO_CORE = {0x010000FC: 0x84770001, 0x010000F8: 0xF0000003}

CHIP = Chip(
    name="STM32WB55",
    target=_NAME,
    simulator="stm32wb55rg",
    register=0xE0042000,
    mask=0xFFF,
    identity=0x495,
    protection=0x58004020,
    openocd_config="board/st_nucleo_wb55.cfg",
    unlock="stm32l4x unlock 0",
    debug_port=cortex_m4_port(0x495, 0x6BA02477, _RADIO_CORE),
    own_target=_own_target,
)
