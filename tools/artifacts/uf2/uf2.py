"""NAME.uf2: an image as the file that is copied to the drive of a boot loader.

Format: the UF2 specification (Microsoft): blocks of 512 bytes, little-endian: two magic words, flags, address, bytes of
payload, block number, number of blocks, family ID, 476 bytes of data, a magic word. Every block carries 256 bytes, one
page of flash.
"""

import struct

from tools.quiet.console import UserError

_MAGIC_START = (0x0A324655, 0x9E5D5157)
_MAGIC_END = 0x0AB16F30
#: Flag: the family ID is present.
_FAMILY_ID_PRESENT = 0x2000
_PAYLOAD = 256
_DATA = 476
_BLOCK = 512
#: Magic words, flags, address, bytes of payload, block number, number of blocks, family ID.
_HEADER = struct.Struct("<8I")


def uf2(image: bytes, address: int, family: int) -> bytes:
    """The .uf2 of an image.

    Args:
        image: raw bytes of flash.
        address: where the first one belongs; a multiple of 256.
        family: ID of the chip family, such as 0xe48bff59 for the RP2350 with secure Arm images.

    Raises:
        UserError: the address is no multiple of 256, or the image is empty.
    """
    if address % _PAYLOAD:
        raise UserError(
            f"the image begins at {address:#010x}, which is no multiple of {_PAYLOAD}; correct the board's flash"
        )
    if not image:
        raise UserError("the image is empty; link something into flash")
    pages = [image[i : i + _PAYLOAD].ljust(_PAYLOAD, b"\0") for i in range(0, len(image), _PAYLOAD)]
    return b"".join(
        _HEADER.pack(
            *_MAGIC_START, _FAMILY_ID_PRESENT, address + number * _PAYLOAD, _PAYLOAD, number, len(pages), family
        )
        + page.ljust(_DATA, b"\0")
        + struct.pack("<I", _MAGIC_END)
        for number, page in enumerate(pages)
    )


def read_uf2(data: bytes) -> list[tuple[int, bytes]]:
    """Returns addresses and bytes of the pages of a .uf2.

    Raises:
        ValueError: see check_uf2().
    """
    check_uf2(data)
    headers = [(at, _HEADER.unpack_from(data, at)) for at in range(0, len(data), _BLOCK)]
    return [(header[3], data[at + _HEADER.size : at + _HEADER.size + header[4]]) for at, header in headers]


def check_uf2(data: bytes) -> None:
    """Checks that bytes are a whole .uf2 as uf2() makes them: a boot loader takes what it is given.

    Raises:
        ValueError: they aren't; the message says what is wrong.
    """
    if not data or len(data) % _BLOCK:
        raise ValueError(f"{len(data)} bytes are not blocks of {_BLOCK}")
    count = len(data) // _BLOCK
    first = _HEADER.unpack_from(data)
    for number in range(count):
        header = _HEADER.unpack_from(data, number * _BLOCK)
        end = struct.unpack_from("<I", data, (number + 1) * _BLOCK - 4)[0]
        wanted = (*_MAGIC_START, _FAMILY_ID_PRESENT, first[3] + number * _PAYLOAD, _PAYLOAD, number, count, first[7])
        if (header, end) != (wanted, _MAGIC_END) or first[3] % _PAYLOAD:
            raise ValueError(f"block {number} is damaged")
