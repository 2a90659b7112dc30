import struct
from pathlib import Path

import pytest
from elftools.common.exceptions import DWARFError

from tools.artifacts.elf_image.elf_image import ElfImage, opened_elf
from tools.quiet.console import UserError

_CODE = bytes(range(16))
_NAMES = b"\0main\0_ZN2ns5arenaE\0"
_FUNCTION, _OBJECT = 2, 1


def _elf() -> bytes:
    """An image with 16 bytes at 0x08000000, a function at 0x08000004 (Thumb) and an object at 0x20000000."""
    symbols = b"".join(
        struct.pack("<IIIBBH", name, value, size, kind, 0, 1)
        for name, value, size, kind in ((0, 0, 0, 0), (1, 0x08000005, 8, _FUNCTION), (6, 0x20000000, 4, _OBJECT))
    )
    sections = b"\0.symtab\0.strtab\0"
    code, table = 52 + 32, 52 + 32 + len(_CODE)
    strings, names = table + len(symbols), table + len(symbols) + len(_NAMES)
    headers = names + len(sections)
    rows = [
        (0, 0, 0, 0, 0, 0),
        (1, 2, table, len(symbols), 2, 16),
        (9, 3, strings, len(_NAMES), 0, 0),
        (9, 3, names, len(sections), 0, 0),
    ]
    return b"".join(
        [
            b"\x7fELF\x01\x01\x01" + bytes(9),
            struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0x08000005, 52, headers, 0, 52, 32, 1, 40, 4, 3),
            struct.pack("<8I", 1, code, 0x20000100, 0x08000000, len(_CODE), len(_CODE), 5, 4),
            _CODE + symbols + _NAMES + sections,
            *(
                struct.pack("<10I", name, kind, 0, 0, at, size, link, 0, 1, entry)
                for name, kind, at, size, link, entry in rows
            ),
        ]
    )


def test_segments_symbols_and_functions(tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(_elf())
    image = ElfImage(path)
    # Segments have the addresses of the initial values, not those at which the program uses them.
    assert image.entry == 0x08000005 and image.segments == [(0x08000000, _CODE)]
    assert image.address("main") == 0x08000005 and image.symbols["main"].size == 8
    assert image.address("arena") == 0x20000000 and image.address("nothing") is None
    assert image.function_at(0x08000004) == "main + 0x0" and image.function_at(0x0800000B) == "main + 0x7"
    assert image.function_at(0x0800000C) is None and image.function_at(0x20000000) is None


def test_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.elf: No such file or directory; build it first"):
        ElfImage(tmp_path / "none.elf")
    path = tmp_path / "cut.elf"
    whole = _elf()
    for size in (0, 3, 4, 16, 40, 64, 100, len(whole) - 30):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.elf is no ELF file"):
            ElfImage(path)


def test_debug_information_of_something_else_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(_elf())
    for error in (AssertionError(0), KeyError("DW_FORM_null"), DWARFError("version 0"), ZeroDivisionError()):
        with pytest.raises(UserError, match=rf"image\.elf is no ELF file \({type(error).__name__}: "), opened_elf(path):
            raise error
