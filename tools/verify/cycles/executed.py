"""Reads from QEMU's log what an image executed: blocks of instructions, their order, and the image's reads of the
board's time in between.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

# QEMU's log options: each translated block, each execution, and reads of the timers behind board_ticks() of the
# emulated boards.
LOGGED = "op,exec,nochain,trace:cmsdk_apb_timer_read,trace:nrf51_timer_read"

_READ = re.compile(rb"(?:cmsdk_apb|nrf51)_timer_read ")
_INSTRUCTION = re.compile(rb" ---- ([0-9a-f]+)")
# An access to a device belongs into a block of its own, as its time has to be known: QEMU goes back to it.
_REWOUND = re.compile(rb"cpu_io_recompile: rewound execution of TB to ([0-9a-f]+)")
_SMALLEST_PAGE = 1024
_STOPPED = b"Stopped execution of TB chain before"


@dataclass(frozen=True)
class Executed:
    """The executed instructions.

    Attributes:
        blocks: the addresses of the instructions of each block, by its name.
        parts: between reads of the time, how often a block was executed before another, by both their names; the first
          part ends with the first read. The block that reads belongs to the following part.
    """

    blocks: dict[bytes, tuple[int, ...]]
    parts: list[Counter[tuple[bytes, bytes]]]


def _addresses(trace: bytes, translated: list[int]) -> tuple[int, ...]:
    """Returns the addresses of a block's instructions, of which QEMU may log those within a page of memory."""
    start = int(trace.split(b"/")[1], 16)
    steps = ((here - before) % _SMALLEST_PAGE for before, here in pairwise(translated))
    return tuple(accumulate(steps, initial=start))


def read_log(lines: Iterable[bytes]) -> Executed:
    """Parses QEMU's log with LOGGED; reads all lines, even invalid ones, because QEMU waits for that."""
    lines = iter(lines)
    try:
        return _read(lines)
    finally:
        for _ in lines:
            pass


def _read(lines: Iterator[bytes]) -> Executed:
    blocks: dict[bytes, tuple[int, ...]] = {b"": ()}
    part: Counter[tuple[bytes, bytes]] = Counter()
    parts = [part]
    translated: list[int] = []
    last_edge = (b"", b"")
    block = b""
    for line in lines:
        if line.startswith(b"Trace "):
            if line not in blocks:
                blocks[line] = _addresses(line, translated)
            last_edge = (block, line)
            part[last_edge] += 1
            block = line
        elif line.startswith(b" ---- "):
            found = _INSTRUCTION.match(line)
            assert found
            translated.append(int(found[1], 16))
        elif line.startswith(b"OP:"):
            translated = []
        elif _READ.match(line):
            part = Counter()
            parts.append(part)
        elif found := _REWOUND.match(line):
            whole = blocks[block]
            block += b"<" + found[1]
            blocks[block] = whole[: whole.index(int(found[1], 16))]
        elif line.startswith(_STOPPED):
            part[last_edge] -= 1
            block = last_edge[0]
    return Executed(blocks, parts)
