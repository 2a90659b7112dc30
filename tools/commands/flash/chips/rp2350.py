"""RP2350: its datasheet, "Bootrom Contents", "Arm Debug" and "UF2 Drive"."""

from tools.commands.flash.chip import Chip
from tools.commands.flash.debug_port import (
    ARM,
    CORESIGHT_CLASS,
    RASPBERRY_PI,
    ROM_CLASS,
    ROM_TABLE,
    DebugPort,
    component,
    entries,
)


def _debug_port() -> DebugPort:
    """Returns the SW-DP, version 3, whose ROM table at 0 lists the AHB-AP of core 0 (RP2350 datasheet, "Arm Debug",
    "Access Ports"), with SCS, DWT and breakpoint unit of a Cortex-M33. Core 1 is missing.
    """
    ap = 0x2000
    architectures = {0xE000E000: 0x2A04, 0xE0001000: 0x1A02, 0xE0002000: 0x1A03}
    words = component(ROM_TABLE, 0x4C9, ARM, ROM_CLASS) | entries(ROM_TABLE, architectures)
    for base, architecture in architectures.items():
        words |= component(base, 0xD21, ARM, CORESIGHT_CLASS, architecture)
    # A ROM table of class 9 (IHI 0074, "Class 0x9 ROM Tables"), a MEM-AP of version 2.
    ap_words = component(0, 0x004, RASPBERRY_PI, CORESIGHT_CLASS, 0x0AF7) | entries(0, [ap])
    ap_words |= component(ap, 0x9E3, ARM, CORESIGHT_CLASS, 0x0A17)
    # DPIDR1: addresses of 20 bits; BASEPTR0: the table at 0, VALID.
    dp = {0: 0x4C013477, 1: 0x94, 2: 1}
    return DebugPort(dp, True, ap, 0x34770008, 0x00800040, 0x400, words, ap_words)


CHIP = Chip(
    name="RP2350",
    target="rp2350",
    simulator="rp2350",
    # The boot ROM's magic number: readable whatever is held in reset.
    register=0x00000010,
    mask=0x00FFFFFF,
    identity=0x0002754D,
    debug_port=_debug_port(),
    uf2_family=0xE48BFF59,
    uf2_board="RP2350",
)
