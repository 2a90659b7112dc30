from pathlib import Path

import pytest
from intelhex import IntelHex

from tools.artifacts.intel_hex.reader import read_intel_hex
from tools.artifacts.intel_hex.writer import intel_hex
from tools.quiet.console import UserError

_HEX = """\
:020000040800F2
:10000000000102030405060708090A0B0C0D0E0F78
:0401000001020304F1
:0400000508000009E6
:00000001FF
"""
_PIECES = [(0x08000000, bytes(range(16))), (0x08000100, bytes([1, 2, 3, 4]))]


def test_lines_are_those_of_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "image.hex"
    path.write_text(_HEX, encoding="utf-8")
    assert intel_hex(_PIECES, 0x08000009) == _HEX
    assert read_intel_hex(path) == _PIECES


# At address 0, in the upper half of the address space, and across multiples of 64 KiB.
@pytest.mark.parametrize("address", [0, 0x0001FFF9, 0x1000FFFE, 0xFFFD0001])
def test_what_is_written_is_read(tmp_path: Path, address: int) -> None:
    path = tmp_path / "image.hex"
    data = bytes(i * 7 & 0xFF for i in range(70_000))
    path.write_text(intel_hex([(address, data)], address | 1), encoding="utf-8")
    assert read_intel_hex(path) == [(address, data)]
    assert IntelHex(str(path)).start_addr == {"EIP": address | 1}


def test_an_empty_file(tmp_path: Path) -> None:
    (tmp_path / "empty.hex").touch()
    with pytest.raises(UserError, match=r"empty\.hex is empty"):
        read_intel_hex(tmp_path / "empty.hex")


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="build it first"):
        read_intel_hex(tmp_path / "none.hex")
