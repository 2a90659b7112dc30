from pathlib import Path

import pytest
from elftools.common.exceptions import DWARFError

from tools.artifacts.elf_image.elf_image import ElfImage, opened_elf
from tools.artifacts.elf_image.testing import CODE, elf
from tools.quiet.console import UserError


def test_segments_symbols_and_functions(tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(elf())
    image = ElfImage(path)
    # Segments have the addresses of the initial values, not those at which the program uses them.
    assert image.entry == 0x08000005 and image.segments == [(0x08000000, CODE)]
    assert image.address("main") == 0x08000005 and image.symbols["main"].size == 8
    assert image.address("arena") == 0x20000000 and image.address("nothing") is None
    assert image.function_at(0x08000004) == "main + 0x0" and image.function_at(0x0800000B) == "main + 0x7"
    assert image.function_at(0x0800000C) is None and image.function_at(0x20000000) is None


def test_other_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"none\.elf: No such file or directory; build it first"):
        ElfImage(tmp_path / "none.elf")
    path = tmp_path / "cut.elf"
    whole = elf()
    for size in (0, 3, 4, 16, 40, 64, 100, len(whole) - 30):
        path.write_bytes(whole[:size])
        with pytest.raises(UserError, match=r"cut\.elf is no ELF file"):
            ElfImage(path)


def test_debug_information_of_something_else_is_no_traceback(tmp_path: Path) -> None:
    path = tmp_path / "image.elf"
    path.write_bytes(elf())
    for error in (AssertionError(0), KeyError("DW_FORM_null"), DWARFError("version 0"), ZeroDivisionError()):
        with pytest.raises(UserError, match=rf"image\.elf is no ELF file \({type(error).__name__}: "), opened_elf(path):
            raise error
