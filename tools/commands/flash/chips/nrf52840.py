"""nRF52840: its Product Specification, "Factory information configuration registers" and "Debug and trace"."""

from tools.commands.flash.chip import Chip
from tools.commands.flash.debug_port import NORDIC, cortex_m4_port

# The control access port, 1: its identification, and APPROTECTSTATUS: a debugger may reach the core.
_CONTROL = {0x010000FC: 0x12880000, 0x0100000C: 1}

CHIP = Chip(
    name="nRF52840",
    target="nrf52840",
    simulator="nrf52840",
    register=0x10000100,
    mask=0xFFFFFFFF,
    identity=0x52840,
    # INFO.VARIANT, in ASCII.
    revision=0x10000104,
    debug_port=cortex_m4_port(0x008, ap_words=_CONTROL, designer=NORDIC),
)
