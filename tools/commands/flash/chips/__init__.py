"""The chips that can be programmed: each module's CHIP is a tools.commands.flash.chip.Chip."""

import importlib
import pkgutil
from functools import cache

from tools.commands.flash.chip import Chip


@cache
def chips() -> tuple[Chip, ...]:
    """Returns all chips, by the names of their modules."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(importlib.import_module(f"{__name__}.{name}").CHIP for name in names)


def chip_of_target(target: str) -> Chip | None:
    """Returns the chip of a target of pyOCD; None if it is not known here."""
    return next((chip for chip in chips() if chip.target == target), None)
