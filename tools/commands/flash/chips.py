"""Whether the chip on the probe is the one that an image is for, and lets itself be programmed.

Sources: RM0434 and RM0351, "Debug support", "MCU device ID code", and FLASH, "Flash option register"; RP2350 datasheet,
"Bootrom Contents".
"""

from __future__ import annotations

from dataclasses import dataclass

from pyocd.core import exceptions
from pyocd.coresight.coresight_target import CoreSightTarget

from tools.quiet.console import UserError


@dataclass(frozen=True)
class Chip:
    """What tells a chip.

    Attributes:
        name: for messages.
        register, mask, identity: the bits of a register that have one value in this chip alone.
        protection: option register with the read-out protection in its lower 8 bits, of an STM32.
        openocd_config, unlock: OpenOCD's configuration and command that remove the protection.
    """

    name: str
    register: int
    mask: int
    identity: int
    protection: int | None = None
    openocd_config: str = ""
    unlock: str = ""


#: By the name of pyOCD's target.
_CHIPS = {
    "stm32wb55rgvx": Chip(
        "STM32WB55", 0xE0042000, 0xFFF, 0x495, 0x58004020, "board/st_nucleo_wb55.cfg", "stm32l4x unlock 0"
    ),
    "stm32l475xg": Chip(
        "STM32L475", 0xE0042000, 0xFFF, 0x415, 0x40022020, "board/stm32l4discovery.cfg", "stm32l4x unlock 0"
    ),
    # The boot ROM's magic number: readable whatever is held in reset.
    "rp2350": Chip("RP2350", 0x00000010, 0x00FFFFFF, 0x0002754D),
}


def check_chip(name: str, target: CoreSightTarget) -> None:
    """Raises UserError unless the chip is the one of a pyOCD target and is not locked; a target that is not known here
    passes.
    """
    chip = _CHIPS.get(name)
    if chip is None:
        return
    try:
        identity = target.read32(chip.register) & chip.mask
    except exceptions.TransferFaultError:
        # Another maker's chip has nothing there.
        identity = 0
    if identity != chip.identity:
        raise UserError(
            f"the probe is connected to another chip (device id {identity:#05x}, an {chip.name} has "
            f"{chip.identity:#05x}): choose the right probe with --probe, or build for that board"
        )
    if chip.protection is None:
        return
    level = {0xAA: 0, 0xCC: 2}.get(target.read32(chip.protection) & 0xFF, 1)
    if level:
        unlock = (
            f"unlocking erases its flash: openocd -f {chip.openocd_config} -c 'init; reset halt; {chip.unlock}; "
            "shutdown', then power the board off and on"
        )
        raise UserError(
            f"the target is locked (read-out protection level {level}): "
            + (unlock if level == 1 else "level 2 cannot be undone; use another board")
        )
