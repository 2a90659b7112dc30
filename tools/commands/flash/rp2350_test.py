"""The Pico 2 W's UF2 file, and the simulated boot ROM, which pyOCD's flash algorithm calls (simulated_test.py)."""

import struct

import pytest

from boardsim.machine import Machine
from tools.commands.flash.testing import pico

_PICO = pico()
_FLASH = _PICO.flash
_QMI_CALLS = 0x20000400


@pytest.fixture
def machine() -> Machine:
    return _PICO.machine()


def test_the_uf2_file_has_the_image_for_the_boot_loader(machine: Machine) -> None:
    # The boot loader's view: UF2 specification, "File format"; the family is that of secure Arm images.
    data = _PICO.uf2.read_bytes()
    blocks = [data[i : i + 512] for i in range(0, len(data), 512)]
    for number, block in enumerate(blocks):
        head = struct.unpack_from("<8I", block)
        assert head[:3] == (0x0A324655, 0x9E5D5157, 0x2000) and head[4:] == (256, number, len(blocks), 0xE48BFF59)
        assert block[-4:] == struct.pack("<I", 0x0AB16F30)
        machine.debugger.write(head[3], block[32 : 32 + 256])
    assert _PICO.holds(machine)
    machine.reset()
    machine.run(instructions=20_000_000)
    assert "\nPASS\n" in machine.console.text


# Tests what the boot ROM itself refuses, so that the tests above prove that the algorithm is correct.


def _lookup(machine: Machine, code: str, mask: int = 4) -> int:
    machine.cpu.set("r0", int.from_bytes(code.encode(), "little"))
    machine.cpu.set("r1", mask)
    _call(machine, int.from_bytes(machine.debugger.read(0x16, 2), "little"))
    return machine.cpu.get("r0")


def _call(machine: Machine, function: int, *arguments: int) -> None:
    """Calls a function and returns after it."""
    # b . to return to.
    machine.debugger.write(_QMI_CALLS, b"\xfe\xe7")
    for register, value in zip(("r0", "r1", "r2", "r3"), arguments, strict=False):
        machine.cpu.set(register, value)
    machine.cpu.set("lr", _QMI_CALLS | 1)
    machine.cpu.set("pc", function)
    machine.run(10_000)


def _salt(machine: Machine) -> None:
    # CPACR: coprocessor 7 is on. Then mcrr p7, #8, r0, r0, c0 and b .
    machine.debugger.write_register(0xE000ED88, 4, 3 << 14)
    machine.debugger.write(0x20000500, bytes.fromhex("40ec8007fee7"))
    machine.cpu.set("pc", 0x20000501)
    machine.run(10)


def _ready(machine: Machine) -> None:
    _salt(machine)
    for code in ("IF", "EX"):
        _call(machine, _lookup(machine, code))


def test_rom_functions_are_found_by_their_code(machine: Machine) -> None:
    assert machine.debugger.read(0x10, 3) == b"Mu\x02"
    assert len({_lookup(machine, code) for code in ("IF", "EX", "RE", "RP", "FC", "CX")} - {0}) == 6
    assert _lookup(machine, "??") == 0
    # It is not for the RISC-V cores.
    assert _lookup(machine, "RE", mask=1) == 0


def test_flash_is_erased_and_programmed_by_the_rom(machine: Machine) -> None:
    machine.debugger.write(_FLASH + 0x1000, b"old" * 2000)
    machine.debugger.write(0x20001000, bytes(range(256)))
    _ready(machine)
    before = machine.clock.nanoseconds
    _call(machine, _lookup(machine, "RE"), 0x1000, 0x1000, 0x10000, 0xD8)
    assert machine.clock.nanoseconds - before > 40e6
    assert machine.debugger.read(_FLASH + 0x1000, 0x1000) == b"\xff" * 0x1000
    assert machine.debugger.read(_FLASH + 0x2000, 3) != b"\xff" * 3
    _call(machine, _lookup(machine, "RP"), 0x1100, 0x20001000, 256)
    assert machine.debugger.read(_FLASH + 0x1100, 256) == bytes(range(256))
    # Bits are only cleared without an erase.
    machine.debugger.write(0x20001000, b"\x55" * 256)
    _call(machine, _lookup(machine, "RP"), 0x1100, 0x20001000, 256)
    assert machine.debugger.read(_FLASH + 0x1100, 256) == bytes(i & 0x55 for i in range(256))
    assert not any("boot ROM was called" in note for note in machine.notes)


@pytest.mark.parametrize(
    ("code", "arguments", "note"),
    [
        ("RE", (0x800, 0x1000, 0, 0), "multiples of 4096"),
        ("RE", (0x1000, 0x800, 0, 0), "multiples of 4096"),
        ("RE", (4 << 20, 0x1000, 0, 0), "within the flash"),
        ("RP", (0x80, 0x20001000, 256), "multiples of 256"),
        ("RP", (0x100, 0x20001000, 8), "multiples of 256"),
    ],
)
def test_the_rom_is_asked_for_what_cannot_be(machine, code, arguments, note) -> None:
    machine.debugger.write(_FLASH, b"\x5a" * 0x2000)
    _ready(machine)
    _call(machine, _lookup(machine, code), *arguments)
    assert note in machine.explain()
    assert machine.debugger.read(_FLASH, 0x2000) == b"\x5a" * 0x2000


def test_the_rom_needs_its_salt_and_the_flash_in_serial_mode(machine: Machine) -> None:
    machine.debugger.write(_FLASH, b"\x5a" * 0x1000)
    erase = _lookup(machine, "RE")
    _call(machine, erase, 0, 0x1000, 0, 0)
    assert "coprocessor has no salt" in machine.explain() and machine.cpu.locked_up
    machine.reset()
    _salt(machine)
    _call(machine, erase, 0, 0x1000, 0, 0)
    assert "before connect_internal_flash()" in machine.explain()
    _call(machine, _lookup(machine, "IF"))
    _call(machine, erase, 0, 0x1000, 0, 0)
    assert "before flash_exit_xip()" in machine.explain()
    assert machine.debugger.read(_FLASH, 0x1000) == b"\x5a" * 0x1000


def test_power_lost_while_erasing_leaves_neither_old_nor_new(machine: Machine) -> None:
    machine.debugger.write(_FLASH, b"\x5a" * 0x2000)
    _ready(machine)
    flash = machine.chip.flash
    flash.erase(0, 0x2000, 0)
    assert flash.busy
    machine.power_cycle()
    assert machine.debugger.read(_FLASH, 0x1000) not in (b"\x5a" * 0x1000, b"\xff" * 0x1000)
    # The second sector had not begun.
    assert machine.debugger.read(_FLASH + 0x1000, 0x1000) == b"\x5a" * 0x1000
