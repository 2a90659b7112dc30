"""Finds the source lines in a fault handler's output."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tools.quiet.console import UserError

# The registers with code addresses, as firmware/cortex_m/fault.c prints them.
_REGISTERS = re.compile(r"\bpc 0x([0-9a-f]{8}) lr 0x([0-9a-f]{8})\b")


class FaultDecoder:
    """Explains a console's lines.

    Args:
        elf: the image, with debug information.
        addr2line: GNU addr2line for the image's core.
    """

    def __init__(self, elf: Path, addr2line: Path) -> None:
        self._elf = elf
        self._addr2line = addr2line
        self._in_fault = False

    def explain(self, line: str) -> list[str]:
        """Lines to show after a line of the console; mostly none."""
        if "FAULT:" in line:
            self._in_fault = True
            return []
        match = _REGISTERS.search(line)
        if not self._in_fault or match is None:
            return []
        self._in_fault = False
        pc, lr = (int(digits, 16) & ~1 for digits in match.groups())
        # lr is where the call returns to, so the call is just before; exception returns (0xFF......) are no code.
        result = _chain("in", self.places(pc))
        if lr < 0xF0000000:
            result += _chain("called from", self.places(lr - 1))
        return result

    def places(self, address: int) -> Sequence[str]:
        """Returns `function at file:line`, the innermost first where functions were inlined; the address if nothing is
        known.

        Raises:
            UserError: addr2line cannot be started.
        """
        command = [str(self._addr2line.absolute()), "-e", str(self._elf), "-f", "-C", "-i", "-p", f"{address:#x}"]
        try:
            output = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        except OSError as error:
            raise UserError(f"{self._addr2line}: {error.strerror}; it must be GNU addr2line") from error
        lines = [
            line.replace("/proc/self/cwd/", "").replace("(inlined by) ", "").strip() for line in output.splitlines()
        ]
        if not lines or "??" in lines[0].split(" at ")[0]:
            return [f"{address:#010x}, which is no function of {self._elf.name}"]
        return lines


def _chain(how: str, places: Sequence[str]) -> list[str]:
    """Formats a location, and the functions that it was inlined into."""
    return [f"{how} {places[0]}", *(f"  inlined into {place}" for place in places[1:])]
