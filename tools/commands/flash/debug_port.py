"""Models the debug port of a chip, as the simulated probe answers for it.

Arm Debug Interface Architecture Specification ADIv5.2 (IHI 0031C), ADIv6 (IHI 0074).
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

#: Where the ROM table of a Cortex-M is.
ROM_TABLE = 0xE00FF000
#: Designers of components: JEP106 codes with their continuation counts in bits 11:8.
ARM, ST, RASPBERRY_PI, NORDIC = 0x43B, 0x020, 0x913, 0x244
#: Classes of components.
ROM_CLASS, CORESIGHT_CLASS, GENERIC_CLASS = 1, 9, 0xE


def component(base: int, part: int, designer: int, component_class: int, architecture: int = 0) -> dict[int, int]:
    """Returns CoreSight identification registers (IHI 0031C D1.2) of a component: address -> word.

    Args:
        designer: JEP106 code with its continuation count in bits 11:8.
        architecture: ARCHID of DEVARCH (IHI 0029E B2.3.3), for a component of the CoreSight class.
    """
    code, continuation = designer & 0x7F, designer >> 8
    peripheral = [part & 0xFF, part >> 8 | (code & 0xF) << 4, 8 | code >> 4, 0]
    identification = [0x0D, component_class << 4, 0x05, 0xB1]
    words = (
        {base + 0xFE0 + 4 * i: value for i, value in enumerate(peripheral)}
        | {base + 0xFD0: continuation}
        | {base + 0xFF0 + 4 * i: value for i, value in enumerate(identification)}
    )
    if architecture:
        # Architect Arm (JEP106 4, 0x3B), PRESENT.
        words[base + 0xFBC] = 4 << 28 | 0x3B << 21 | 1 << 20 | architecture
    return words


def entries(table: int, components: Iterable[int]) -> dict[int, int]:
    """Returns a ROM table's entries: components that are present, by 32-bit offsets."""
    return {table + 4 * index: base - table & 0xFFFFF000 | 3 for index, base in enumerate(components)}


@dataclass(frozen=True)
class DebugPort:
    """The differences between chips as a probe sees them.

    Attributes:
        dp: read-only registers of the debug port: bank -> word at address 0.
        adi_v6: whether access ports have addresses (ADIv6) instead of numbers (ADIv5).
        ap: base of the core's access port, by address or number.
        ap_idr: its IDR.
        csw: bits that are always set in its CSW: accesses are possible (DeviceEn), also secure ones (SDeviceEn).
        increment: the block size within which addresses are incremented.
        words: ROM table and identification of components that the core's bus doesn't have.
        ap_words: registers of other access ports; for ADIv6 also the ROM table in the space of access ports.
        dp_identity: further registers of a debug port that shares its wire with others (IHI 0031C B2.2, TARGETID and
          DLPIDR): bank -> word at address 4. Empty for a port with its own wire.
    """

    dp: dict[int, int]
    adi_v6: bool
    ap: int
    ap_idr: int
    csw: int
    increment: int
    words: dict[int, int]
    ap_words: dict[int, int]
    dp_identity: dict[int, int] = field(default_factory=dict)


def cortex_m4_port(
    part: int, dpidr: int = 0x2BA01477, ap_words: dict[int, int] | None = None, designer: int = ST
) -> DebugPort:
    """Returns SW-DP and AHB-AP of a Cortex-M4 (DDI 0439, table of debug components), with SCS, DWT and FPB (DDI 0403E
    C1.2.3).

    Args:
        part: an STM32's device id, which is also in its ROM table.
        dpidr: identification of the SW-DP; by default of version 1.
        ap_words: registers of access ports other than the core's.
        designer: the chip's designer.
    """
    parts = {0xE000E000: 0x00C, 0xE0001000: 0x002, 0xE0002000: 0x003}
    words = component(ROM_TABLE, part, designer, ROM_CLASS) | entries(ROM_TABLE, parts)
    for base, number in parts.items():
        words |= component(base, number, ARM, GENERIC_CLASS)
    return DebugPort({0: dpidr}, False, 0, 0x24770011, 0x40, 0x1000, words, ap_words or {})
