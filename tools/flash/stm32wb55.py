"""pyOCD's target for the STM32WB55, which it does not bring, on this project's flash algorithm.

Memory and registers: RM0434. The algorithm is firmware/flash_algorithms/stm32wb55.c as the build compiles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from pyocd.core import exceptions
from pyocd.core.memory_map import FlashRegion, MemoryMap, RamRegion
from pyocd.coresight.coresight_target import CoreSightTarget
from pyocd.flash.flash import Flash
from pyocd.target import TARGET

from tools.quiet.console import UserError

# Where the algorithm lies in SRAM1: code, stack, two buffers of a page each.
_LOAD_ADDRESS = 0x20000000
_STACK_END, _STACK_START = 0x20000800, 0x20001000
_BUFFERS = (0x20001000, 0x20002000)
_FLASH, _FLASH_SIZE, _PAGE = 0x08000000, 0x100000, 0x1000

# DBGMCU_IDCODE: DEV_ID in the lower 12 bits ("MCU device ID code").
_IDCODE, _DEVICE = 0xE0042000, 0x495
# FLASH_OPTR: RDP in the lower 8 bits, 0xAA for level 0. FLASH_SFR: page where the radio core's secure flash starts,
# and FSD.
_OPTR, _SFR = 0x58004020, 0x58004080
# FLASH_SR: what the algorithm returns.
_ERRORS = {
    0: "the flash controller stays locked; power the board off and on",
    1: "operation error",
    3: "the flash was not erased",
    4: "the flash is write-protected (option bytes WRP, or the radio core's secure area)",
    5: "unaligned address",
    6: "wrong size of access",
    7: "wrong sequence of operations",
    8: "data came too late in fast programming",
    9: "error in fast programming",
}

NAME = "stm32wb55rgvx"


class Stm32Wb55Flash(Flash):
    """Flash with an algorithm that can also verify, and program whole rows after a mass erase.

    Attributes:
        sectors, pages: how many were erased and programmed.
    """

    def __init__(self, target: object, flash_algo: dict[str, object]) -> None:
        super().__init__(target, flash_algo)
        self.sectors = 0
        self.pages = 0

    def erase_sector(self, address: int) -> None:
        self.sectors += 1
        super().erase_sector(address)

    def program_page(self, address: int, bytes: Sequence[int]) -> None:
        self.pages += 1
        super().program_page(address, bytes)

    def start_program_page_with_buffer(self, buffer_number: int, address: int) -> None:
        self.pages += 1
        super().start_program_page_with_buffer(buffer_number, address)

    def use_rows(self, on: bool) -> None:
        """Whether programming goes by rows, which needs a flash that has been erased as a whole."""
        self.flash_algo["pc_program_page"] = self.flash_algo["pc_program_rows" if on else "pc_program_double_words"]

    def verify(self, address: int, data: Sequence[int]) -> int | None:
        """Compares flash with a page of data on the device. Returns the first address that differs, if any."""
        self.init(self.Operation.VERIFY)
        self.target.write_memory_block8(self.page_buffers[0], list(data))
        end = self._call_function_and_wait(
            self.flash_algo["pc_verify"],
            address,
            len(data),
            self.page_buffers[0],
            timeout=self.target.session.options.get("flash.timeout.analyzer"),
        )
        if end == self.TIMEOUT_ERROR:
            raise exceptions.FlashFailure("flash verify timed out")
        return None if end == address + len(data) else end


def explain(code: int | None) -> str:
    """What the algorithm's return value says, in words."""
    if code is None:
        return ""
    return ", ".join(text for bit, text in _ERRORS.items() if code >> bit & 1)


def read_algorithm(path: Path) -> dict[str, object]:
    """The algorithm of an ELF file as pyOCD takes it.

    Raises:
        UserError: the file is missing or no algorithm.
    """
    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            code = elf.get_section_by_name(".text").data()
            symbols = {symbol.name: symbol["st_value"] for symbol in elf.get_section_by_name(".symtab").iter_symbols()}
        entry = {
            key: _LOAD_ADDRESS + (symbols[name] | 1)
            for key, name in {
                "pc_init": "flash_init",
                "pc_unInit": "flash_uninit",
                "pc_eraseAll": "flash_erase_chip",
                "pc_erase_sector": "flash_erase_sector",
                "pc_program_page": "flash_program_page",
                "pc_program_double_words": "flash_program_page",
                "pc_program_rows": "flash_program_rows",
                "pc_verify": "flash_verify",
            }.items()
        }
    except OSError as error:
        raise UserError(f"flash algorithm {path}: {error.strerror}; build it first") from error
    except (ELFError, KeyError, AttributeError) as error:
        raise UserError(f"{path} is no flash algorithm ({error}); pass the file of a flash_algorithm target") from error
    if len(code) > _STACK_END - _LOAD_ADDRESS:
        raise UserError(f"flash algorithm {path} has {len(code)} bytes, more than fit below its stack")
    code += bytes(-len(code) % 4)
    return {
        "load_address": _LOAD_ADDRESS,
        "instructions": [int.from_bytes(code[i : i + 4], "little") for i in range(0, len(code), 4)],
        **entry,
        "static_base": 0,
        "begin_stack": _STACK_START,
        "end_stack": _STACK_END,
        "page_buffers": list(_BUFFERS),
        "min_program_length": 8,
        "analyzer_supported": False,
    }


def register(algorithm: Path) -> None:
    """Makes the target known to pyOCD under NAME."""
    loaded = read_algorithm(algorithm)

    class Stm32Wb55(CoreSightTarget):
        """STM32WB55RG, as seen by the application core."""

        VENDOR = "STMicroelectronics"
        MEMORY_MAP = MemoryMap(
            FlashRegion(
                name="flash",
                start=_FLASH,
                length=_FLASH_SIZE,
                sector_size=_PAGE,
                page_size=_PAGE,
                is_boot_memory=True,
                flash_class=Stm32Wb55Flash,
                algo=loaded,
            ),
            RamRegion(name="sram1", start=0x20000000, length=0x30000),
            RamRegion(name="sram2", start=0x20030000, length=0x10000),
        )

        def __init__(self, session: object) -> None:
            super().__init__(session, self.MEMORY_MAP)

    TARGET[NAME] = Stm32Wb55


@dataclass(frozen=True)
class Chip:
    """What the registers of a connected chip say.

    Attributes:
        device: its device id; 0x495 is an STM32WB55.
        protection: read-out protection level.
        secure_start: first address of the radio core's flash.
    """

    device: int
    protection: int
    secure_start: int


def read_chip(target: CoreSightTarget) -> Chip:
    """Reads what check_chip() wants to know."""
    try:
        device = target.read32(_IDCODE) & 0xFFF
    except exceptions.TransferFaultError:
        # Another maker's chip has nothing there.
        device = 0
    if device != _DEVICE:
        return Chip(device, 0, 0)
    level = {0xAA: 0, 0xCC: 2}.get(target.read32(_OPTR) & 0xFF, 1)
    secure = target.read32(_SFR)
    pages = _FLASH_SIZE // _PAGE if secure & 0x100 else secure & 0xFF
    return Chip(device, level, _FLASH + pages * _PAGE)


def check_chip(chip: Chip, end: int) -> None:
    """Raises UserError unless an image that ends at `end` can be programmed into the chip."""
    if chip.device != _DEVICE:
        raise UserError(
            f"the probe is connected to another chip (device id {chip.device:#05x}, an STM32WB55 has {_DEVICE:#05x}): "
            "choose the right probe with --probe, or build for that board"
        )
    if chip.protection:
        raise UserError(
            f"the target is locked (read-out protection level {chip.protection}): "
            + (
                "unlocking erases its flash: openocd -f board/st_nucleo_wb55.cfg -c 'init; reset halt; "
                "stm32l4x unlock 0; shutdown', then power the board off and on"
                if chip.protection == 1
                else "level 2 cannot be undone; use another board"
            )
        )
    if end > chip.secure_start:
        raise UserError(
            f"the image does not fit: it ends at {end:#010x}, and the radio core's stack starts at "
            f"{chip.secure_start:#010x} on this chip; use a smaller model, or delete the stack with STM32CubeProgrammer"
        )
