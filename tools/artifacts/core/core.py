"""The cores by the names that programs, plans, boards and command lines use."""

from tools.artifacts.core.cores import CORES
from tools.quiet.console import UserError

CORTEX_M = tuple(CORES)
"""The cores, `cortex-m4` or such."""

PORTABLE = "portable"
"""A program that runs on every core."""

HOST = "host"
"""This machine, for tests."""

POINTER_SIZES = {**dict.fromkeys(CORTEX_M, 4), HOST: 8}
"""Size of a pointer in bytes by core."""


def _description(core: str) -> tuple[str, bool]:
    if core not in CORES:
        raise UserError(f"there is no core {core!r}; there are {', '.join(CORES)}")
    return CORES[core]


def layout(core: str) -> str:
    """Returns the instructions that int8 programs for a Cortex-M use: `scalar`, `dsp` or `mve`. Others refuse them."""
    return _description(core)[0]


def has_vectors(core: str) -> bool:
    """Whether int8 programs for a Cortex-M are laid out for vectors."""
    return layout(core) == "mve"


def has_dsp(core: str) -> bool:
    """Whether a Cortex-M has the DSP extension, but no vectors."""
    return layout(core) == "dsp"


def has_fpu(core: str) -> bool:
    """Whether a Cortex-M has an FPU."""
    return _description(core)[1]


def platform_name(core: str) -> str:
    """The core's name in //platforms, such as `cortex_m4`."""
    return core.replace("-", "_")
