import struct
from pathlib import Path

import pytest

from tools.pipeline.boot_stage.boot_stage import checksum, main

_SRAM = 0x20041F00


def _elf(path: Path, code: bytes, *, entry: int = _SRAM | 1) -> Path:
    """An ELF file of one segment in SRAM."""
    identification = bytes.fromhex("7f454c46 010101") + bytes(9)
    header = identification + struct.pack("<2H5I6H", 2, 40, 1, entry, 52, 0, 0x05000000, 52, 32, 1, 40, 0, 0)
    path.write_bytes(header + struct.pack("<8I", 1, 84, _SRAM, _SRAM, len(code), len(code), 5, 4) + code)
    return path


def _run(folder: Path, code: bytes, **changes: int) -> int:
    elf = _elf(folder / "stage.elf", code, **changes)
    return main(["--elf", str(elf), "--output", str(folder / "stage.c")])


def test_the_checksum_is_that_of_the_datasheet() -> None:
    # The published check value of CRC-32/MPEG-2.
    assert checksum(b"123456789") == 0x0376E6E7


def test_code_is_filled_up_and_followed_by_its_checksum(tmp_path: Path) -> None:
    assert _run(tmp_path, b"\x70\xb5\x00\x21") == 0
    text = (tmp_path / "stage.c").read_text(encoding="utf-8")
    assert 'section(".boot_stage")' in text
    data = bytes(int(word.strip(","), 16) for word in text.split() if word.startswith("0x"))
    assert len(data) == 256 and data[:4] == b"\x70\xb5\x00\x21" and not any(data[4:252])
    assert int.from_bytes(data[252:], "little") == checksum(data[:252])
    # So that the checksum of all is zero.
    assert checksum(data[:252] + data[:251:-1]) == 0


@pytest.mark.parametrize(
    ("size", "entry", "message"),
    [(253, _SRAM | 1, "253 bytes; at most 252"), (8, _SRAM | 5, "its entry is 0x20041f05")],
)
def test_what_the_boot_rom_could_not_start_is_refused(tmp_path, capsys, size, entry, message) -> None:
    assert _run(tmp_path, bytes(size), entry=entry) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "stage.c").exists()
