"""Models the RP2350 by its datasheet: its addresses ("Address Map"), and how the boot ROM starts an image ("Bootrom").
One Cortex-M33 runs, in secure state; the other waits in the boot ROM.
"""

from functools import partial

from boardsim.address_map import RP2350
from boardsim.chip import Chip
from boardsim.peripheral import Host, Peripheral
from boardsim.rp2350_bootrom import BootRom, NorFlash, Qmi
from boardsim.rp2350_peripherals import ROSC_HZ, Clocks, IoBank, Pads, Pll, Resets, Uart, Xosc
from boardsim.rp2350_usb import UsbController
from boardsim.rp2350_watchdog import PowerOnStateMachine, Ticks, Watchdog
from boardsim.rp_timer import Timer

_BLOCK_START, _BLOCK_END = 0xFFFFDED3, 0xAB123579
_ITEM_IMAGE_TYPE, _ITEM_LAST = 0x42, 0xFF
_SEARCHED = 4096


class _Sio(Peripheral):
    """Single-cycle IO: which core this is."""

    NAMES = {0x000: "CPUID", 0x004: "GPIO_IN"}


class _BootRam(Peripheral):
    """The boot ROM's RAM and its locks: "Bootrom", "Boot RAM". Reading a lock claims it, a write gives it back."""

    _STATUS, _LOCK0, _LOCKS = 0x808, 0x80C, 8
    NAMES = {
        **dict.fromkeys(range(0, 0x400, 4), "RAM"),
        0x800: "WRITE_ONCE0",
        0x804: "WRITE_ONCE1",
        _STATUS: "BOOTLOCK_STAT",
        **{0x80C + 4 * lock: f"BOOTLOCK{lock}" for lock in range(_LOCKS)},
    }
    RESET = {_STATUS: 0xFF}

    def read(self, offset: int) -> int:
        lock = (offset - self._LOCK0) // 4
        if not 0 <= lock < self._LOCKS:
            return super().read(offset)
        claimed = self.values[self._STATUS] & 1 << lock
        self.values[self._STATUS] &= ~claimed
        return claimed

    def write(self, offset: int, value: int) -> None:
        lock = (offset - self._LOCK0) // 4
        if 0 <= lock < self._LOCKS:
            self.values[self._STATUS] |= 1 << lock
        elif offset in (0x800, 0x804):
            # Bits stay set until a reset.
            self.values[offset] = self.values.get(offset, 0) | value
        else:
            super().write(offset, value & 0xFF if offset == self._STATUS else value)


class Rp2350(Chip):
    """The chip with its flash.

    Args:
        machine: the machine to build it into.
        options: `xosc_hz`: the crystal, 12 MHz if not given; `flash_size`: bytes of flash, 4 MB if not given.
    """

    ADDRESS_MAP = RP2350
    RESET_CLOCK_HZ = ROSC_HZ
    #: 52 interrupts and 16 exceptions, rounded up to a power of two words.
    VECTOR_TABLE_ALIGNMENT = 512
    #: "Watchdog", REASON: SYSRESETREQ is a warm reset of the core.
    SYSRESETREQ_IS_CORE_ONLY = True
    #: The boot ROM sets VTOR to the image's vector table.
    VECTOR_TABLE = 0x10000000

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        # "Address Map".
        rom = machine.add_memory("boot ROM", 0, 0x8000, writable=False)
        self.add_flash(0x10000000, int(options.get("flash_size", str(4 << 20))))
        machine.add_memory("SRAM", 0x20000000, 520 * 1024)
        self.flash = NorFlash(machine, self.flash_memory)
        self.boot_rom = BootRom(machine, rom, self.flash, self.flash_memory.size)
        machine.add_peripheral(Qmi(machine, self.flash))

        self.resets = Resets(machine)
        self.xosc = Xosc(machine, int(options.get("xosc_hz", "12000000")))
        self.pll_sys = Pll(machine, "PLL_SYS", 0x40050000, self.resets, 14, self.xosc)
        self.pll_usb = Pll(machine, "PLL_USB", 0x40058000, self.resets, 15, self.xosc)
        self.clocks = Clocks(machine, self.xosc, self.pll_sys, self.pll_usb)
        self.pads = Pads(machine, self.resets)
        self.io = IoBank(machine, self.resets, self.pads)
        uart0 = Uart(
            machine, "UART0", 0x40070000, resets=self.resets, bit=26, clocks=self.clocks, io=self.io, interrupt=33
        )
        # The clocks are reset last, after what they are made of.
        for peripheral in (self.resets, self.xosc, self.pll_sys, self.pll_usb, self.pads, self.io, uart0, self.clocks):
            machine.add_peripheral(peripheral)
        dpram = machine.add_memory("USB DPRAM", 0x50100000, 0x1000)
        self.usb = UsbController(machine, self.resets, self.clocks, dpram)
        machine.add_peripheral(self.usb)
        ticks, psm = Ticks(machine, self.clocks), PowerOnStateMachine(machine)
        machine.add_peripheral(ticks)
        machine.add_peripheral(psm)
        machine.add_peripheral(Watchdog(machine, ticks, psm))
        machine.add_peripheral(_BootRam(machine, "BOOTRAM", 0x400E0000, 0x1000))
        for index, base in enumerate((0x400B0000, 0x400B8000)):
            timer = Timer(
                machine,
                f"TIMER{index}",
                base,
                resets=self.resets,
                bit=23 + index,
                hz=partial(ticks.hz, f"TIMER{index}"),
                ticks=f"TICKS_TIMER{index}_CTRL",
                interrupt=4 * index,
                interrupts=0x3C,
            )
            machine.add_peripheral(timer)
        machine.add_peripheral(_Sio(machine, "SIO", 0xD0000000, 0x1000))

    def power_lost(self) -> None:
        """Handles the loss of power."""
        self.flash.power_lost()

    def coprocessor(self, first: int, second: int) -> bool:
        """Executes an instruction of the redundancy coprocessor, by its half-words; False if it is none."""
        return self.boot_rom.coprocessor(first, second)

    def boot(self) -> tuple[int, int] | None:
        """Does what the boot ROM does: finds the image block, checks it, enters the image by its vector table."""
        self.boot_rom.reset()
        problem = self._check_image()
        if problem:
            self._machine.note(
                f"the boot ROM finds no image that it can start: {problem}; the chip stays in BOOTSEL mode "
                '(RP2350 datasheet, Bootrom, "Image Definitions")'
            )
            return None
        stack, entry = self._words(0, 2)
        return stack, entry

    def _words(self, offset: int, count: int) -> list[int]:
        raw = bytes(self.flash_memory.data[offset : offset + 4 * count])
        return [int.from_bytes(raw[i : i + 4], "little") for i in range(0, len(raw), 4)]

    def _check_image(self) -> str | None:
        words = self._words(0, _SEARCHED // 4)
        if _BLOCK_START not in words:
            return "no image block begins in the first 4 KB of flash (marker 0xffffded3)"
        problem = None
        for index in (i for i, word in enumerate(words) if word == _BLOCK_START):
            problem = self._check_block(words, index)
            if problem is None:
                return None
        return problem

    def _check_block(self, words: list[int], start: int) -> str | None:
        """Returns what is wrong with the block that begins at a word; None if it describes an image for this core."""
        where = f"the block at {4 * start:#x}"
        index = start + 1
        image_type = None
        while index < len(words):
            item = words[index]
            kind = item & 0xFF
            if kind == _ITEM_LAST:
                if item >> 8 & 0xFFFF != index - start - 1:
                    return (
                        f"the last item of {where} says {item >> 8 & 0xFFFF} words where there are {index - start - 1}"
                    )
                break
            # Bit 7 of the type: the size has two bytes.
            size = item >> 8 & (0xFFFF if kind & 0x80 else 0xFF)
            if not size:
                return f"{where} has an item without a size"
            if kind == _ITEM_IMAGE_TYPE:
                image_type = item >> 16
            index += size
        if index + 2 >= len(words) or words[index + 2] != _BLOCK_END:
            return f"{where} does not end with its marker 0xab123579"
        link = words[index + 1]
        if link and not 0 <= 4 * start + (link ^ 0x80000000) - 0x80000000 < self.flash_memory.size:
            return f"{where} links to a block outside of flash"
        if image_type is None:
            return f"{where} has no image type"
        if image_type & 0xF != 1:
            return f"{where} is not of an executable image"
        if image_type >> 8 & 7 != 0:
            return f"{where} is of an image for the RISC-V cores"
        if image_type >> 12 & 7 != 1:
            return f"{where} is of an image for another chip"
        if image_type >> 4 & 3 != 2:
            return f"{where} is not of a secure image"
        return None


CHIP = Rp2350
