"""The cores that boards can be simulated with: Unicorn's names of them, and what the simulator does by the core."""

from __future__ import annotations

from dataclasses import dataclass

from unicorn import arm_const


@dataclass(frozen=True)
class CoreModel:
    """A core.

    Attributes:
        unicorn: Unicorn's number of it.
        cpuid: the register CPUID, from the core's Technical Reference Manual.
        is_armv8: whether it is Armv8-M, with security states and FPBv2, and not Armv7-M.
    """

    unicorn: int
    cpuid: int
    is_armv8: bool


#: By the names that board.json gives them.
CORES = {
    "cortex-m4": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M4, 0x410FC241, is_armv8=False),
    "cortex-m33": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M33, 0x411FD210, is_armv8=True),
}
