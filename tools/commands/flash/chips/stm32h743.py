"""STM32H743: RM0433, "Debug infrastructure" and FLASH, "FLASH option status register"."""

from dataclasses import replace

from tools.commands.flash.chip import Chip
from tools.commands.flash.debug_port import cortex_m4_port

# SW-DP of version 2; the access port of a Cortex-M7 (DDI 0489, "Debug"), whose units are at the Cortex-M4's places.
_PORT = replace(cortex_m4_port(0x450, 0x6BA02477), ap_idr=0x84770001)

CHIP = Chip(
    name="STM32H743",
    target="stm32h743xx",
    simulator="stm32h743zi",
    register=0x5C001000,
    mask=0xFFF,
    identity=0x450,
    # RDP is in bits 15:8 of OPTSR_CUR.
    protection=0x5200201C,
    protection_shift=8,
    openocd_config="board/st_nucleo_h743zi.cfg",
    unlock="stm32h7x unlock 0",
    debug_port=_PORT,
)
