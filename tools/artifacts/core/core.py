"""The cores by the names that programs, plans, boards and command lines use."""

from tools.artifacts.core.cores import CORES

CORTEX_M = tuple(CORES)
"""GCC's names of the cores, such as `cortex-m4`."""

PORTABLE = "portable"
"""A program that runs on every core."""

HOST = "host"
"""This machine, for tests."""

POINTER_SIZES = {**dict.fromkeys(CORTEX_M, 4), HOST: 8}
"""Size of a pointer in bytes by core."""


def platform_name(core: str) -> str:
    """The core's name in //platforms, such as `cortex_m4`."""
    return CORES[core]
