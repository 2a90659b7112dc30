"""C++ literals and arrays of a program's constants."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence

# By the schema's dtype: the C type of an array of its elements, and struct's letter.
C_TYPES = {
    "BYTE": ("uint8_t", "B"),
    "CHAR": ("int8_t", "b"),
    "SHORT": ("int16_t", "h"),
    "INT": ("int32_t", "i"),
    "LONG": ("int64_t", "q"),
    "HALF": ("uint16_t", "H"),
    "FLOAT": ("float", "f"),
    "DOUBLE": ("double", "d"),
    "BOOL": ("uint8_t", "B"),
    "BFLOAT16": ("uint16_t", "H"),
    "UINT16": ("uint16_t", "H"),
    "UINT32": ("uint32_t", "I"),
    "UINT64": ("uint64_t", "Q"),
}
_WIDTH = 110


def floating(value: float, is_single: bool) -> str:
    """A literal from which a compiler makes the same number."""
    suffix = "f" if is_single else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    # As many digits as tell every such number from the next one.
    text = f"{value:.9g}" if is_single else repr(value)
    return f"{text}{suffix}" if {".", "e"} & set(text) else f"{text}.0{suffix}"


def integer(value: int) -> str:
    """A literal of 64 bits."""
    return "INT64_MIN" if value == -(2**63) else f"int64_t{{{value}}}"


def string(text: str) -> str:
    """A C string; only ASCII stands as it is."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'


def array(c_type: str, name: str, elements: Sequence[str], attributes: str = "") -> list[str]:
    """The definition of a constant array."""
    lines = [f"{attributes}const {c_type} {name}[{len(elements)}] = {{"]
    line = "   "
    for element in elements:
        if len(line) + len(element) + 2 > _WIDTH:
            lines.append(line)
            line = "   "
        line += f" {element},"
    return [*lines, line, "};"]


def data_array(
    name: str, dtype: str, data: bytes, alignment: int = 0, is_shared: bool = False, attribute: str = ""
) -> list[str]:
    """The definition of a constant with a tensor's elements, in C as in C++ but for alignment and sharing.

    Args:
        dtype: the schema's name of it.
        data: the elements as they lie in memory.
        alignment: in bytes; 0: what the elements need.
        is_shared: whether several sources may define it, of which the linker keeps one.
        attribute: what else stands before the definition.
    """
    c_type, letter = C_TYPES[dtype]
    numbers = struct.unpack(f"<{len(data) // struct.calcsize(letter)}{letter}", data)
    if letter in "fd":
        elements = [floating(number, letter == "f") for number in numbers]
    elif letter in "qQ":
        elements = ["INT64_MIN" if number == -(2**63) else f"{number}{'u' * (letter == 'Q')}" for number in numbers]
    else:
        elements = [str(number) for number in numbers]
    if letter == "i":
        elements = ["INT32_MIN" if number == -(2**31) else str(number) for number in numbers]
    attributes = (f"alignas({alignment}) " if alignment else "") + ("inline " if is_shared else "")
    attributes += f"{attribute} " if attribute else ""
    return array(c_type, name, elements, attributes)
