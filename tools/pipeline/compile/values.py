"""Formats a program's constants as C++ literals and arrays."""

import math
import struct
from collections.abc import Sequence

# The C type and struct's letter, by the schema's dtype.
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
    """Returns a literal that compiles to exactly this number."""
    suffix = "f" if is_single else ""
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if math.isinf(value):
        return f"{'-' if value < 0 else ''}__builtin_inf{suffix}()"
    # Enough digits to distinguish all numbers.
    text = f"{value:.9g}" if is_single else repr(value)
    return f"{text}{suffix}" if {".", "e"} & set(text) else f"{text}.0{suffix}"


def integer(value: int) -> str:
    """Returns a 64-bit literal."""
    return "INT64_MIN" if value == -(2**63) else f"int64_t{{{value}}}"


def string(text: str) -> str:
    """Returns a C string literal, in which all but printable ASCII is escaped."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}" for byte in text.encode()
    )
    return f'"{escaped}"'


def array(c_type: str, name: str, elements: Sequence[str], attributes: str = "") -> list[str]:
    """Defines a constant array."""
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
    """Defines a constant with a tensor's elements, in both C and C++ except for alignment and sharing.

    Args:
        dtype: the schema's name of the dtype.
        data: the elements in memory order.
        alignment: the alignment in bytes; 0: that of the elements.
        is_shared: whether several sources may define it, of which the linker keeps one.
        attribute: further attributes of the definition.
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
