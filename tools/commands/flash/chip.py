"""Describes chips that can be programmed, and checks that the one on the probe is the right one and unlocked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from tools.commands.flash.debug_port import DebugPort
from tools.quiet.console import UserError

if TYPE_CHECKING:
    from pyocd.coresight.coresight_target import CoreSightTarget


class OwnTarget(Protocol):
    """A target that pyOCD does not bring, with a flash algorithm of this project's."""

    def register(self, algorithm: Path) -> None:
        """Makes the target known to pyOCD under the chip's name for it, with the algorithm of a file.

        Raises:
            UserError: the file is no algorithm.
        """

    def check_room(self, target: CoreSightTarget, end: int) -> None:
        """Raises UserError unless an image may end at an address of this very chip."""

    def explain(self, code: int | None) -> str:
        """Explains the algorithm's return value; empty if it is not one of its own."""

    def made(self, flash: object) -> bool:
        """Returns whether a flash of pyOCD's is this target's: it can also verify, by verify(address, data)."""


@dataclass(frozen=True)
class Chip:
    """A chip.

    Attributes:
        name: for messages.
        target: pyOCD's name for it.
        simulator: its name in boardsim.
        register, mask, identity: the bits of a register that identify this chip.
        debug_port: the debug port that a simulated probe sees.
        protection: option register with the read-out protection, of an STM32.
        protection_shift: lowest of its 8 bits there.
        openocd_config, unlock: OpenOCD's configuration and command that remove the protection.
        uf2_family: family ID of its UF2 files; None if its boot loader doesn't support UF2.
        uf2_board: the prefix of Board-ID on its UF2 drive.
        own_target: creates its target, if pyOCD has none.
        revision: register with the chip's revision; None: the bits of `register` that identify no chip have it.
    """

    name: str
    target: str
    simulator: str
    register: int
    mask: int
    identity: int
    debug_port: DebugPort
    protection: int | None = None
    protection_shift: int = 0
    openocd_config: str = ""
    unlock: str = ""
    uf2_family: int | None = None
    uf2_board: str = ""
    own_target: Callable[[], OwnTarget] | None = None
    revision: int | None = None


def check_chip(chip: Chip, target: CoreSightTarget) -> int:
    """Checks the chip on the probe.

    Returns:
        What its registers say of its revision; 0 is none, as of a simulated boot ROM.

    Raises:
        UserError: it is another chip than `chip`, or locked.
    """
    # Takes a second to import; only needed here.
    from pyocd.core import exceptions

    try:
        word = target.read32(chip.register)
    except exceptions.TransferFaultError:
        # Another maker's chip has nothing there.
        word = 0
    identity = word & chip.mask
    if identity != chip.identity:
        raise UserError(
            f"the probe is connected to another chip (device id {identity:#05x}, an {chip.name} has "
            f"{chip.identity:#05x}): choose the right probe with --probe, or build for that board"
        )
    revision = word & ~chip.mask if chip.revision is None else target.read32(chip.revision)
    if chip.protection is None:
        return revision
    level = {0xAA: 0, 0xCC: 2}.get(target.read32(chip.protection) >> chip.protection_shift & 0xFF, 1)
    if level:
        unlock = (
            f"unlocking erases its flash: openocd -f {chip.openocd_config} -c 'init; reset halt; {chip.unlock}; "
            "shutdown', then power the board off and on"
        )
        raise UserError(
            f"the target is locked (read-out protection level {level}): "
            + (unlock if level == 1 else "level 2 cannot be undone; use another board")
        )
    return revision
