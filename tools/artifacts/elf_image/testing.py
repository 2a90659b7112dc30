"""An image for tests."""

import struct

CODE = bytes(range(16))
_NAMES = b"\0main\0_ZN2ns5arenaE\0"
_FUNCTION, _OBJECT = 2, 1


def elf() -> bytes:
    """An image with 16 bytes at 0x08000000, a function at 0x08000004 (Thumb) and an object at 0x20000000."""
    symbols = b"".join(
        struct.pack("<IIIBBH", name, value, size, kind, 0, 1)
        for name, value, size, kind in ((0, 0, 0, 0), (1, 0x08000005, 8, _FUNCTION), (6, 0x20000000, 4, _OBJECT))
    )
    sections = b"\0.symtab\0.strtab\0"
    code, table = 52 + 32, 52 + 32 + len(CODE)
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
            struct.pack("<8I", 1, code, 0x20000100, 0x08000000, len(CODE), len(CODE), 5, 4),
            CODE + symbols + _NAMES + sections,
            *(
                struct.pack("<10I", name, kind, 0, 0, at, size, link, 0, 1, entry)
                for name, kind, at, size, link, entry in rows
            ),
        ]
    )
