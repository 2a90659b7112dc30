"""pyOCD's target for the STM32WB55, which it does not bring, on this project's flash algorithm.

Memory and registers: RM0434. The algorithm is firmware/flash_algorithms/stm32wb55.c as the build compiles it.
"""

from collections.abc import Sequence
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from pyocd.core import exceptions
from pyocd.core.memory_map import FlashRegion, MemoryMap, RamRegion
from pyocd.coresight.coresight_target import CoreSightTarget
from pyocd.flash.flash import Flash
from pyocd.target import TARGET

from tools.quiet.console import UserError

# The algorithm's memory in SRAM1: code, stack, two buffers of a page each.
_LOAD_ADDRESS = 0x20000000
_STACK_END, _STACK_START = 0x20000800, 0x20001000
_BUFFERS = (0x20001000, 0x20002000)
_FLASH, _FLASH_SIZE, _PAGE = 0x08000000, 0x100000, 0x1000

# FLASH_SFR: page where the radio core's secure flash starts (SFSA), and FSD, without which all of it is.
_SFR = 0x58004080
# FLASH_SR, which the algorithm returns.
_ERRORS = {
    0: "the flash controller stays locked; power the board off and on",
    1: "operation error",
    3: "the flash was not erased",
    4: "the flash is write-protected (option bytes WRP, or the radio core's secure area)",
    5: "unaligned address",
    6: "wrong size of access",
    7: "wrong sequence of operations",
}


class Stm32Wb55Flash(Flash):
    """Flash with an algorithm that can also verify."""

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


def read_algorithm(path: Path) -> dict[str, object]:
    """Returns the algorithm of an ELF file as pyOCD takes it.

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
                "pc_erase_sector": "flash_erase_sector",
                "pc_program_page": "flash_program_page",
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


class Stm32Wb55Target:
    """The target, as an OwnTarget.

    Args:
        name: its name in pyOCD.
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def register(self, algorithm: Path) -> None:
        """Implements OwnTarget.register()."""
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

        TARGET[self._name] = Stm32Wb55

    def made(self, flash: object) -> bool:
        """Implements OwnTarget.made()."""
        return isinstance(flash, Stm32Wb55Flash)

    def explain(self, code: int | None) -> str:
        """Implements OwnTarget.explain()."""
        if code is None:
            return ""
        return ", ".join(text for bit, text in _ERRORS.items() if code >> bit & 1)

    def check_room(self, target: CoreSightTarget, end: int) -> None:
        """Raises UserError if an image that ends at `end` overlaps the radio core's flash."""
        secure = target.read32(_SFR)
        pages = _FLASH_SIZE // _PAGE if secure & 0x100 else secure & 0xFF
        start = _FLASH + pages * _PAGE
        if end > start:
            raise UserError(
                f"the image does not fit: it ends at {end:#010x}, and the radio core's stack starts at {start:#010x} "
                "on this chip; use a smaller model, or delete the stack with STM32CubeProgrammer"
            )
