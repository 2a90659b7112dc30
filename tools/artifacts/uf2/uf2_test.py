import struct

import pytest

from tools.artifacts.uf2.uf2 import uf2
from tools.quiet.console import UserError

_FAMILY = 0xE48BFF59


def test_a_boot_loader_gets_every_byte_at_its_address() -> None:
    image = bytes(i * 7 & 0xFF for i in range(600))
    data = uf2(image, 0x10000000, _FAMILY)
    assert len(data) == 3 * 512
    flash = bytearray(1024)
    for number in range(3):
        block = data[512 * number : 512 * (number + 1)]
        start0, start1, flags, address, size, index, count, family = struct.unpack_from("<8I", block)
        assert (start0, start1, flags) == (0x0A324655, 0x9E5D5157, 0x2000)
        assert struct.unpack_from("<I", block, 508) == (0x0AB16F30,)
        assert (size, index, count, family) == (256, number, 3, _FAMILY)
        flash[address - 0x10000000 : address - 0x10000000 + size] = block[32 : 32 + size]
    assert flash[:600] == image and not any(flash[600:])


def test_bad_input() -> None:
    with pytest.raises(UserError, match="no multiple of 256"):
        uf2(b"x", 0x10000004, _FAMILY)
    with pytest.raises(UserError, match="empty"):
        uf2(b"", 0x10000000, _FAMILY)
