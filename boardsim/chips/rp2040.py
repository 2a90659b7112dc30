"""Models the RP2040 by its datasheet: its addresses ("Address Map"), and how the boot ROM starts an image ("Processor
Controlled Boot Sequence"). One Cortex-M0+ runs; the other waits in the boot ROM.
"""

import unicorn

from boardsim.address_map import RP2040
from boardsim.chip import Chip
from boardsim.peripheral import Host, Peripheral
from boardsim.rp2040_peripherals import (
    ROSC_HZ,
    Rp2040BootRom,
    Rp2040Clocks,
    Rp2040IoBank,
    Rp2040Pads,
    Rp2040PowerOnStateMachine,
    Rp2040Resets,
    Rp2040Usb,
    Rp2040Watchdog,
    Rp2040Xosc,
    Sio,
    Ssi,
    Ticks,
)
from boardsim.rp2350_bootrom import NorFlash
from boardsim.rp2350_peripherals import Pll, Uart
from boardsim.rp_timer import Timer

_FLASH = 0x10000000
# "Flash Second Stage": the ROM's copy of the stage, and the bytes before its checksum.
_STAGE, _STAGE_SIZE = 0x20041F00, 252


def _checksum(data: bytes) -> int:
    """Returns the checksum of "Flash Second Stage": polynomial 0x04c11db7, initial ones, not reflected or inverted."""
    remainder = 0xFFFFFFFF
    for bit in (byte >> 7 - i & 1 for byte in data for i in range(8)):
        remainder = (remainder << 1 & 0xFFFFFFFF) ^ (0x04C11DB7 if remainder >> 31 ^ bit else 0)
    return remainder


class Rp2040(Chip):
    """The chip with its flash.

    Args:
        machine: the machine to build it into.
        options: `xosc_hz`: the crystal, 12 MHz if not given; `flash_size`: bytes of flash, 2 MB if not given;
            `flash_quad`: 0 if the flash comes without QE in its status register.
    """

    ADDRESS_MAP = RP2040
    RESET_CLOCK_HZ = ROSC_HZ
    #: VTOR has no bits below that in a Cortex-M0+.
    VECTOR_TABLE_ALIGNMENT = 256
    #: "Reset" of the processors: SYSRESETREQ is a reset of the core alone.
    SYSRESETREQ_IS_CORE_ONLY = True

    def __init__(self, machine: Host, options: dict[str, str]) -> None:
        super().__init__(machine, options)
        self._guard: int | None = None
        rom = machine.add_memory("boot ROM", 0, 0x4000, writable=False)
        # "XIP": the same without the cache, or without filling it.
        size = int(options.get("flash_size", str(2 << 20)))
        self.add_flash(_FLASH, size, aliases=(0x11000000, 0x12000000, 0x13000000))
        self.sram = machine.add_memory("SRAM", 0x20000000, 264 * 1024)
        self.flash = NorFlash(machine, self.flash_memory)
        self.boot_rom = Rp2040BootRom(machine, rom, self.flash, self.flash_memory.size)
        self.ssi = Ssi(machine, self.flash, quad_enabled=options.get("flash_quad", "1") != "0")
        self.ssi.changed = self._guard_flash

        resets = Rp2040Resets(machine)
        xosc = Rp2040Xosc(machine, int(options.get("xosc_hz", "12000000")))
        pll_sys = Pll(machine, "PLL_SYS", 0x40028000, resets, 12, xosc)
        pll_usb = Pll(machine, "PLL_USB", 0x4002C000, resets, 13, xosc)
        clocks = Rp2040Clocks(machine, xosc, pll_sys, pll_usb)
        pads = Rp2040Pads(machine, resets)
        io = Rp2040IoBank(machine, resets, pads)
        uart0 = Uart(machine, "UART0", 0x40034000, resets=resets, bit=22, clocks=clocks, io=io, interrupt=20)
        ticks = Ticks(clocks)
        psm = Rp2040PowerOnStateMachine(machine)
        watchdog = Rp2040Watchdog(machine, ticks, psm)
        timer = Timer(
            machine,
            "TIMER",
            0x40054000,
            resets=resets,
            bit=21,
            hz=lambda: ticks.hz,
            ticks="WATCHDOG_TICK",
            interrupt=0,
            interrupts=0x34,
        )
        dpram = machine.add_memory("USB DPRAM", 0x50100000, 0x1000)
        self.usb = Rp2040Usb(machine, resets, clocks, dpram)
        self.sio = Sio(machine, "SIO", 0xD0000000, 0x1000)
        blocks: list[Peripheral] = [self.ssi, resets, xosc, pll_sys, pll_usb, pads, io, uart0, psm, watchdog, timer]
        # The clocks are reset last, after what they are made of.
        for peripheral in [*blocks, self.usb, self.sio, clocks]:
            machine.add_peripheral(peripheral)

    def power_lost(self) -> None:
        """Handles the loss of power."""
        self.flash.power_lost()

    def boot(self) -> tuple[int, int] | None:
        """Does what the boot ROM does: copies the second stage to SRAM, checks and enters it."""
        self.boot_rom.reset()
        self.ssi.reset()
        self._guard_flash()
        stage = bytes(self.flash_memory.data[: _STAGE_SIZE + 4])
        if _checksum(stage[:_STAGE_SIZE]) != int.from_bytes(stage[_STAGE_SIZE:], "little"):
            self._machine.note(
                "the boot ROM finds no second stage that it can start: the checksum of the first 256 bytes of flash is "
                'wrong; the chip stays in BOOTSEL mode (RP2040 datasheet, "Flash Second Stage")'
            )
            return None
        self.sram.data[_STAGE - self.sram.base : _STAGE - self.sram.base + len(stage)] = stage
        self._machine.cpu.set("lr", 0)
        return _STAGE, _STAGE | 1

    def _guard_flash(self) -> None:
        """Lets the core execute from flash only while the SSI reads it."""
        engine = self._machine.cpu.engine
        problem = self.ssi.problem()
        if problem and self._guard is None:
            end = _FLASH + 0x4000000 - 1
            self._guard = engine.hook_add(unicorn.UC_HOOK_CODE, self._not_readable, begin=_FLASH, end=end)
            self._machine.cpu.retranslate()
        elif not problem and self._guard is not None:
            engine.hook_del(self._guard)
            self._guard = None
            self._machine.cpu.retranslate()

    def _not_readable(self, *_: object) -> None:
        self._machine.lock_up(f"flash cannot be executed from: {self.ssi.problem()}")


CHIP = Rp2040
