"""The instructions of an image, as objdump of the Arm GNU toolchain writes them."""

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tools.quiet.console import UserError

# An address, one or two halfwords, a mnemonic, operands, and objdump's comments.
_LINE = re.compile(r"^\s*([0-9a-f]+):\s+([0-9a-f]{4}(?: [0-9a-f]{4})?)\s+(\S+)(?:[ \t]+([^@<;\n]*))?", re.MULTILINE)
_CONDITION = "(?:eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)"
_CONDITIONAL = re.compile(
    "(ldr|ldrb|ldrh|ldrsb|ldrsh|ldrd|str|strb|strh|strd|ldmia|ldmdb|stmia|stmdb|push|pop|bl|blx|bx|mul|muls|mla|mls|"
    f"smull|umull|smlal|umlal|sdiv|udiv|v(?!n?mls$)[a-z]+|b){_CONDITION}"
)
_REGISTER = re.compile(r"\b(?:[rs]\d+|d\d+|sl|fp|ip|sp|lr|pc)\b")
_RANGE = re.compile(r"([rsd])(\d+)-[rsd](\d+)")


@dataclass(frozen=True)
class Instruction:
    """An instruction.

    Attributes:
        address: its address.
        size: its bytes.
        name: its mnemonic without width, type and condition.
        text: its operands.
    """

    address: int
    size: int
    name: str
    text: str = ""

    @property
    def end(self) -> int:
        return self.address + self.size

    @cached_property
    def registers(self) -> tuple[str, ...]:
        """Returns the registers that its operands name, in order; those of a list one by one."""

        def expand(found: re.Match[str]) -> str:
            return ",".join(f"{found[1]}{index}" for index in range(int(found[2]), int(found[3]) + 1))

        return tuple(_REGISTER.findall(_RANGE.sub(expand, self.text)))

    @cached_property
    def address_registers(self) -> frozenset[str]:
        """Returns the registers that the address of a load or store is made of."""
        if "[" in self.text:
            return frozenset(_REGISTER.findall(self.text[self.text.index("[") :]))
        return frozenset(self.registers[:1] if "{" in self.text and not self.text.startswith("{") else ("sp",))

    @cached_property
    def listed(self) -> int:
        """Returns the words that a load or store of several registers moves."""
        listed = self.text[self.text.index("{") :] if "{" in self.text else ""
        registers = Instruction(0, 0, "", listed).registers
        return sum(2 if register.startswith("d") else 1 for register in registers)


def parse_instruction(address: int, size: int, mnemonic: str, operands: str) -> Instruction:
    """Returns an instruction by its mnemonic and operands, as objdump writes them."""
    name = mnemonic.partition(".")[0]
    conditional = _CONDITIONAL.fullmatch(name)
    return Instruction(
        address, size, conditional[1] if conditional and conditional[1] != "b" else name, operands.strip()
    )


def parse_listing(text: str) -> dict[int, Instruction]:
    """Returns the instructions of objdump's listing by their addresses."""
    found = (
        parse_instruction(int(line[1], 16), len(line[2].replace(" ", "")) // 2, line[3], line[4] or "")
        for line in _LINE.finditer(text)
    )
    return {instruction.address: instruction for instruction in found}


def disassemble(elf: Path, objdump: Path) -> dict[int, Instruction]:
    """Returns the instructions of an image by their addresses.

    Raises:
        UserError: objdump doesn't run, or not on this file.
    """
    try:
        process = subprocess.run(
            [objdump.absolute(), "-d", "-w", elf], capture_output=True, text=True, check=False, errors="replace"
        )
    except OSError as error:
        raise UserError(f"{objdump}: {error.strerror}; it must be objdump of the Arm GNU toolchain") from error
    if process.returncode:
        raise UserError(f"{elf}: {process.stderr.strip()}; pass the .elf of a torch_firmware target")
    return parse_listing(process.stdout)
