"""The RP2350's boot ROM, limited to what programs flash, and the flash chip behind the QMI.

RP2350 datasheet: "Bootrom", "Bootrom Contents" and "API Functions" for the table of functions and what each does; "QSPI
Memory Interface (QMI)" for DIRECT_CSR; "Redundancy Coprocessor (RCP)". The flash chip of the Pico 2 W is a W25Q32: its
data sheet for sizes and times. The ROM is this module's own: it does what each function does to the flash, and takes
the time for that.
"""

import struct
from collections import deque
from collections.abc import Callable
from functools import partial

import unicorn

from boardsim.clock import Alarm
from boardsim.memory import Memory
from boardsim.peripheral import Host, Peripheral, torn

_SECTOR, _PAGE = 4096, 256
# W25Q32, "AC Electrical Characteristics", typical: sector erase, 64 KB block erase, page program.
_ERASE_SECTOR, _ERASE_BLOCK, _PROGRAM = 45e6, 150e6, 0.4e6
# "Bootrom Contents": the magic number, and where the 16-bit pointer to the lookup function is.
_MAGIC, _LOOKUP_POINTER = 0x10, 0x16
LOOKUP, _FUNCTIONS = 0x100, 0x110
_QMI, _DIRECT_CSR, _BUSY = 0x400D0000, 0x0, 1 << 1
# rom_table_lookup() is asked for an Arm function for the secure state.
_RT_FLAG_FUNC_ARM_SEC = 0x0004


class NorFlash:
    """A serial NOR flash: erased by sectors, programmed by pages, where bits can only be cleared.

    Args:
        machine: the machine that it is part of.
        memory: its contents.
    """

    def __init__(self, machine: Host, memory: Memory) -> None:
        self._machine = machine
        self._memory = memory
        # Offset, bytes, nanoseconds and effect of each operation to come; the first is going on.
        self._steps: deque[tuple[int, int, float, Callable[[], None]]] = deque()
        self._alarm = Alarm(machine.clock)

    @property
    def busy(self) -> bool:
        """Returns whether an operation is going on."""
        return bool(self._steps)

    def reset(self) -> None:
        """Handles a reset of the chip beside it: an operation that has begun still ends, and no other begins."""
        self._alarm.cancel()
        if self._steps:
            self._steps[0][3]()
            self._steps.clear()

    def power_lost(self) -> None:
        """Leaves a piece that is being erased or programmed neither old nor new."""
        self._memory.data[:] = self.after_power_loss()
        self._steps.clear()
        self._alarm.cancel()

    def after_power_loss(self) -> bytes:
        """Returns the contents that flash would have if power went now."""
        data = bytearray(self._memory.data)
        if self._steps:
            start, size, _, _ = self._steps[0]
            data[start : start + size] = torn(start, bytes(data[start : start + size]))
        return bytes(data)

    def erase(self, offset: int, size: int, block: int) -> None:
        """Erases whole sectors, and whole blocks of `block` bytes at once where the range has them."""
        end = offset + size
        while offset < end:
            whole = block > _SECTOR and offset % block == 0 and end - offset >= block
            length, time = (block, _ERASE_BLOCK) if whole else (_SECTOR, _ERASE_SECTOR)
            self._add(offset, length, time, partial(self._blank, offset, length))
            offset += length

    def program(self, offset: int, data: bytes) -> None:
        """Programs whole pages."""
        for at in range(0, len(data), _PAGE):
            page = data[at : at + _PAGE]
            self._add(offset + at, _PAGE, _PROGRAM, partial(self._clear_bits, offset + at, page))

    def _add(self, offset: int, size: int, time: float, action: Callable[[], None]) -> None:
        self._steps.append((offset, size, time, action))
        if len(self._steps) == 1:
            self._begin()

    def _begin(self) -> None:
        self._alarm.start(self._steps[0][2], self._done)

    def _done(self) -> None:
        self._steps.popleft()[3]()
        self._machine.code_changed()
        if self._steps:
            self._begin()

    def _blank(self, offset: int, size: int) -> None:
        self._memory.data[offset : offset + size] = b"\xff" * size

    def _clear_bits(self, offset: int, data: bytes) -> None:
        for i, byte in enumerate(data):
            self._memory.data[offset + i] &= byte


class Qmi(Peripheral):
    """The interface to the flash; the ROM's functions wait for it."""

    NAMES = {_DIRECT_CSR: "DIRECT_CSR"}

    def __init__(self, machine: Host, flash: NorFlash) -> None:
        self._flash = flash
        super().__init__(machine, "QMI", _QMI, 0x4000)

    def reset(self) -> None:
        super().reset()
        self._flash.reset()

    def read(self, offset: int) -> int:
        return super().read(offset) | (_BUSY if offset == _DIRECT_CSR and self._flash.busy else 0)


class BootRom:
    """The ROM's table of functions, and those that program flash.

    Each function is a hook on its first instruction, then code that waits while the flash is busy, and returns.

    Args:
        machine: the machine that it is part of.
        rom: the ROM's memory.
        flash: the flash chip.
        size: bytes of flash.
    """

    #: The register that tells that the flash is busy, and its bit.
    BUSY = (_QMI + _DIRECT_CSR, 1)
    #: Where its functions are described.
    PLACE = 'RP2350 datasheet, "API Functions",'
    #: Whether its functions check their stack frames with the salt of the redundancy coprocessor.
    NEEDS_SALT = True

    def __init__(self, machine: Host, rom: Memory, flash: NorFlash, size: int) -> None:
        self._machine = machine
        self._flash = flash
        self._size = size
        functions = {
            "IF": self._connect,
            "EX": self._exit_xip,
            "RE": self._erase,
            "RP": self._program,
            "FC": self._nothing,
            "CX": self._enter_xip,
        }
        for offset, data in self.header().items():
            rom.data[offset : offset + len(data)] = data
        self._addresses: dict[int, int] = {}
        self._place(rom, LOOKUP, self.lookup)
        for index, (code, function) in enumerate(functions.items()):
            address = _FUNCTIONS + 16 * index
            self._addresses[int.from_bytes(code.encode("ascii"), "little")] = address | 1
            self._place(rom, address, function)
        self.reset()

    @staticmethod
    def header() -> dict[int, bytes]:
        """Returns the ROM's first words: the magic number with the version, and the address of the lookup function."""
        return {_MAGIC: b"Mu\x02", _LOOKUP_POINTER: struct.pack("<H", LOOKUP | 1)}

    def reset(self) -> None:
        """Resets: flash is in XIP mode, and the redundancy coprocessor has no salt."""
        self._connected = False
        self._serial = False
        self._salted = False

    def _place(self, rom: Memory, address: int, function: Callable[[], None]) -> None:
        # nop; ldr r3, =BUSY; 1: ldr r2, [r3]; lsls r2, r2, #31 - bit; bmi 1b; bx lr.
        register, bit = self.BUSY
        code = struct.pack("<6HI", 0xBF00, 0x4B02, 0x681A, 0x0012 | 31 - bit << 6, 0xD4FC, 0x4770, register)
        rom.data[address : address + len(code)] = code
        self._machine.cpu.engine.hook_add(unicorn.UC_HOOK_CODE, lambda *_: function(), begin=address, end=address)

    # The functions: arguments in r0 to r3.

    def lookup(self) -> None:
        """Handles rom_table_lookup(code, mask): an address, or 0."""
        code, mask = self._machine.cpu.get("r0"), self._machine.cpu.get("r1")
        self._machine.cpu.set("r0", self.function(code, is_function=bool(mask & _RT_FLAG_FUNC_ARM_SEC)))

    def function(self, code: int, *, is_function: bool) -> int:
        """Returns the address of a function by its two letters; 0, with a note, for data and if there is none."""
        address = self._addresses.get(code, 0) if is_function else 0
        if not address:
            letters = code.to_bytes(4, "little").rstrip(b"\0").decode("latin-1")
            self._machine.note(
                f"{'function' if is_function else 'data'} {letters!r} of the boot ROM was looked up, which the "
                f"simulator does not have: the answer was 0. {self.PLACE} says what it is"
            )
        return address

    def _nothing(self) -> None:
        """Handles flash_flush_cache(): the cache is not modelled."""

    def _connect(self) -> None:
        """Handles connect_internal_flash()."""
        self._connected = True

    def _exit_xip(self) -> None:
        """Handles flash_exit_xip(): takes the flash out of a continuous read mode; it stays readable, by slow reads."""
        if self._ready("flash_exit_xip"):
            self._serial = True

    def _enter_xip(self) -> None:
        """Handles flash_enter_cmd_xip()."""
        self._serial = False

    def _ready(self, name: str) -> bool:
        if self.NEEDS_SALT and not self._salted:
            self._machine.lock_up(f"{name}() of the boot ROM was called while the redundancy coprocessor has no salt")
            return False
        if not self._connected:
            self._machine.note(f"{name}() of the boot ROM was called before connect_internal_flash(): nothing happened")
            return False
        return True

    def _range(self, name: str, unit: int) -> tuple[int, int] | None:
        """Returns offset and size, if the flash can be worked on; else notes why not."""
        offset, size = self._machine.cpu.get("r0"), self._machine.cpu.get("r1" if name == "flash_range_erase" else "r2")
        if not self._ready(name):
            return None
        if not self._serial:
            self._machine.note(f"{name}() of the boot ROM was called before flash_exit_xip(): nothing happened")
        elif offset % unit or size % unit or offset + size > self._size:
            self._machine.note(
                f"{name}() of the boot ROM was called for {size} bytes at offset {offset:#x}; it takes multiples of "
                f"{unit} within the flash: nothing happened"
            )
        else:
            return offset, size
        return None

    def _erase(self) -> None:
        """Handles flash_range_erase(offset, size, block_size, block_command)."""
        place = self._range("flash_range_erase", _SECTOR)
        if place:
            self._flash.erase(*place, self._machine.cpu.get("r2"))

    def _program(self) -> None:
        """Handles flash_range_program(offset, data, size)."""
        place = self._range("flash_range_program", _PAGE)
        if place:
            offset, size = place
            source = self._machine.cpu.get("r1")
            data = self._machine.memories.bytes_at(source, size)
            if data is None:
                self._machine.note(f"flash_range_program() of the boot ROM was given {source:#010x}, where RAM is not")
            else:
                self._flash.program(offset, data)

    def coprocessor(self, first: int, second: int) -> bool:
        """Executes an instruction of coprocessor 7, which the engine lacks. Returns whether the chip has it.

        Args:
            first, second: its half-words.
        """
        if first == 0xEE30 and second == 0xF710:
            # rcp_canary_status: N is set once there is a salt.
            machine = self._machine
            machine.cpu.set("xpsr", machine.cpu.get("xpsr") & 0x0FFFFFFF | self._salted << 31)
        elif first & 0xFFF0 == 0xEC40 and second & 0x0FFE == 0x0780:
            # rcp_salt_core0 and rcp_salt_core1.
            self._salted = True
        else:
            return False
        return True
