"""The chips that can be simulated: a module each, named as a board's definition names the chip in `simulator`. Its CHIP
is the model (boardsim.chip.Chip).
"""

import importlib
import pkgutil

from boardsim.chip import Chip


def chip_names() -> list[str]:
    """Returns the names of all chips, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


def find_chip(name: str) -> type[Chip]:
    """Returns the model of a chip.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in chip_names():
        raise KeyError(name)
    chip: type[Chip] = importlib.import_module(f"{__name__}.{name}").CHIP
    return chip
