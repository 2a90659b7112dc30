"""Describes the STM32L475: RM0351, "Debug support" and FLASH, "Flash option register"."""

from tools.commands.flash.chip import Chip
from tools.commands.flash.debug_port import cortex_m4_port

CHIP = Chip(
    name="STM32L475",
    target="stm32l475xg",
    simulator="stm32l475vg",
    register=0xE0042000,
    mask=0xFFF,
    identity=0x415,
    protection=0x40022020,
    openocd_config="board/stm32l4discovery.cfg",
    unlock="stm32l4x unlock 0",
    debug_port=cortex_m4_port(0x415),
)
