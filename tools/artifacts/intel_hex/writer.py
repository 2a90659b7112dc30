"""NAME.hex of a torch_firmware, written: what goes into flash, with addresses, as text.

Format: Intel Hexadecimal Object File Format Specification, revision A. A line is `:`, the number of data bytes, a
16-bit address, the type, the data and a checksum, in hexadecimal digits.
"""

from collections.abc import Iterable, Iterator

# Types of lines. The upper half of an address holds for all data after it; the entry is of 32-bit processors.
_DATA, _END, _UPPER_ADDRESS, _ENTRY = 0, 1, 4, 5

_BYTES_PER_LINE = 16


def intel_hex(pieces: Iterable[tuple[int, bytes]], entry: int) -> str:
    """The text of a .hex.

    Args:
      pieces: addresses and what lies there.
      entry: address of the first instruction, with the Thumb bit.
    """
    return "".join(f"{line}\n" for line in _lines(pieces, entry))


def _lines(pieces: Iterable[tuple[int, bytes]], entry: int) -> Iterator[str]:
    upper = 0
    for start, data in pieces:
        position = 0
        while position < len(data):
            address = start + position
            if address >> 16 != upper:
                upper = address >> 16
                yield _line(0, _UPPER_ADDRESS, upper.to_bytes(2, "big"))
            # A line doesn't reach across a multiple of 64 KiB, behind which addresses begin at 0 again.
            size = min(_BYTES_PER_LINE, 0x10000 - (address & 0xFFFF))
            yield _line(address & 0xFFFF, _DATA, data[position : position + size])
            position += size
    yield _line(0, _ENTRY, entry.to_bytes(4, "big"))
    yield _line(0, _END, b"")


def _line(address: int, kind: int, data: bytes) -> str:
    content = bytes([len(data), *address.to_bytes(2, "big"), kind]) + data
    return f":{(content + bytes([-sum(content) & 0xFF])).hex().upper()}"
