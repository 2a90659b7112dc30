"""Lists the cores that boards can be simulated with: Unicorn's names, and what the simulator does by the core."""

from dataclasses import dataclass

from unicorn import arm_const


@dataclass(frozen=True)
class CoreModel:
    """A core.

    Attributes:
        unicorn: Unicorn's number of it.
        cpuid: the register CPUID, from the core's Technical Reference Manual.
        is_armv8: whether it is Armv8-M, with security states and FPBv2.
        is_armv6: whether it is Armv6-M, with HardFault alone, four breakpoints and no counter of cycles.
        is_cached: whether it has the registers of caches, and a lock on the counter of cycles.
    """

    unicorn: int
    cpuid: int
    is_armv8: bool = False
    is_armv6: bool = False
    is_cached: bool = False


#: By the names that board.json gives them.
CORES = {
    # Unicorn has no Cortex-M0+; its instructions are the Cortex-M0's.
    "cortex-m0plus": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M0, 0x410CC601, is_armv6=True),
    "cortex-m4": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M4, 0x410FC241),
    "cortex-m7": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M7, 0x411FC271, is_cached=True),
    "cortex-m33": CoreModel(arm_const.UC_CPU_ARM_CORTEX_M33, 0x411FD210, is_armv8=True),
}
