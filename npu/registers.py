"""Command streams: how commands set registers and start operations.

A command is one word, or two if bits 14 and 15 say 1: bits 0 to 9 are its number, bits 16 to 31 a parameter. The second
word is a value of 32 bits; of an address, a stride or a scale's shift the parameter is the upper bits.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from npu.fault import NpuFault

_STOP = 0


def numbered(table: str, step: int = 1) -> dict[int, str]:
    """Returns names by number, from a table such as "0x10 SER BAUDR 0x28 SR".

    Args:
      table: numbers, each before the names that follow one another from it on.
      step: the distance between the numbers of successive names.
    """
    names: dict[int, str] = {}
    number = 0
    for word in table.split():
        if word[0].isdigit():
            number = int(word, 0)
        else:
            names[number] = word
            number += step
    return names


@dataclass(frozen=True)
class CommandSet:
    """The commands of an NPU.

    Attributes:
      operations: by number, commands of one word that change no register.
      short_registers: names of registers of 16 bits, by the number of the command that sets them.
      long_registers: names of registers of 32 bits and a parameter of 16.
    """

    operations: dict[int, str]
    short_registers: dict[int, str]
    long_registers: dict[int, str]


class Registers:
    """The values that the commands before an operation have set."""

    def __init__(self) -> None:
        self._values: dict[str, int] = {}
        self._parameters: dict[str, int] = {}

    def set(self, name: str, value: int, parameter: int = 0) -> None:
        self._values[name] = value
        self._parameters[name] = parameter

    def __getitem__(self, name: str) -> int:
        """Returns a register's 16 or 32 bits; raises NpuFault if no command has set it."""
        try:
            return self._values[name]
        except KeyError:
            raise NpuFault(f"{name} is used, and no command has set it") from None

    def parameter(self, name: str) -> int:
        """Returns the upper 16 bits that came with a register of 32 bits."""
        self[name]
        return self._parameters[name]

    def signed16(self, name: str) -> int:
        value = self[name]
        return value - 0x10000 if value & 0x8000 else value

    def address(self, name: str) -> int:
        """Returns an address of 40 bits."""
        return self[name] | (self.parameter(name) & 0xFF) << 32

    def stride(self, name: str) -> int:
        """Returns a stride of 40 bits, which may be negative."""
        value = self.address(name)
        return value - (1 << 40) if value >> 39 else value


def operations(words: list[int], commands: CommandSet, registers: Registers) -> Iterator[tuple[int, int]]:
    """Sets registers and yields number and parameter of each operation; ends after STOP.

    Raises:
      NpuFault: A command is unknown, cut off, or STOP is missing.
    """
    position = 0
    while position < len(words):
        word = words[position]
        number, size, parameter = word & 0x3FF, (word >> 14) & 3, word >> 16
        if size == 0 and number in commands.operations:
            position += 1
            yield number, parameter
            if number == _STOP:
                return
        elif size == 0 and number in commands.short_registers:
            position += 1
            registers.set(commands.short_registers[number], parameter)
        elif size == 1 and number in commands.long_registers:
            if position + 1 == len(words):
                raise NpuFault(f"command stream: it ends within {commands.long_registers[number]}")
            registers.set(commands.long_registers[number], words[position + 1], parameter)
            position += 2
        else:
            raise NpuFault(f"command stream: word {position} is 0x{word:08x}, which is no command of this NPU")
    raise NpuFault("command stream: it has no STOP")
