"""RP2040: its datasheet, "Bootrom Contents", "SWD Multidrop" and "USB Mass Storage Interface"."""

from tools.commands.flash.chip import Chip
from tools.commands.flash.debug_port import ARM, GENERIC_CLASS, ROM_CLASS, ROM_TABLE, DebugPort, component, entries


def _debug_port() -> DebugPort:
    """Returns the debug port of core 0, of three on the wire, with the AHB-AP, SCS, DWT and breakpoint unit of a
    Cortex-M0+ (DDI 0484, table of debug components).
    """
    parts = {0xE000E000: 0x008, 0xE0001000: 0x00A, 0xE0002000: 0x00B}
    words = component(ROM_TABLE, 0x4C0, ARM, ROM_CLASS) | entries(ROM_TABLE, parts)
    for base, number in parts.items():
        words |= component(base, number, ARM, GENERIC_CLASS)
    # pyOCD selects core 0 by TARGETID; DPIDR, and DLPIDR of instance 0, are those that probes find on a board
    # (OpenOCD's logs).
    identity = {2: 0x01002927, 3: 0x00000001}
    return DebugPort({0: 0x0BC12477}, False, 0, 0x04770031, 0x40, 0x400, words, {}, identity)


CHIP = Chip(
    name="RP2040",
    target="rp2040",
    simulator="rp2040",
    # The boot ROM's magic number, with its version's first byte.
    register=0x00000010,
    mask=0x00FFFFFF,
    identity=0x0001754D,
    debug_port=_debug_port(),
    uf2_family=0xE48BFF56,
    uf2_board="RPI-RP2",
)
