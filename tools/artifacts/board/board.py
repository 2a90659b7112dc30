"""board.json, the definition of a board that `board()` in rules/board.bzl writes, as the tools read it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.quiet.files import reading


@dataclass(frozen=True)
class Region:
    """A range of the address space: `origin` and `length` in bytes, `use` for people."""

    name: str
    origin: int
    length: int
    use: str = ""

    @property
    def end(self) -> int:
        return self.origin + self.length

    def contains(self, address: int) -> bool:
        return self.origin <= address < self.end


@dataclass(frozen=True)
class Emulator:
    """QEMU's machine for a board; `clock_hz` is the frequency of the timer behind board_ticks()."""

    machine: str
    arguments: tuple[str, ...]
    clock_hz: int


@dataclass(frozen=True)
class Board:
    """One board. `flash` and `ram` are what an image may use; `reserved` regions are kept free of it.

    `simulator` names the `chip` that boardsim simulates, with options of the chip's model; None without one.
    """

    name: str
    description: str
    core: str
    flash: Region
    ram: Region
    reserved: tuple[Region, ...]
    clock_hz: int
    stack_size: int
    console: dict[str, str] = field(default_factory=dict)
    programmer: dict[str, str] | None = None
    emulator: Emulator | None = None
    simulator: dict[str, str] | None = None

    def region(self, name: str) -> Region | None:
        """The reserved region called `name`, if there is one."""
        return next((region for region in self.reserved if region.name == name), None)


def _region(data: dict[str, Any]) -> Region:
    return Region(data["name"], int(data["origin"]), int(data["length"]), data.get("use", ""))


def read_board(path: Path) -> Board:
    """Reads board.json.

    Raises:
        UserError: the file is missing, no JSON, or no board definition.
    """
    with reading("board definition", path, "pass the board.json that a board() target writes"):
        data = json.loads(path.read_text(encoding="utf-8"))
        emulator = data.get("emulator")
        return Board(
            name=data["name"],
            description=data["description"],
            core=data["core"],
            flash=_region(data["flash"]),
            ram=_region(data["ram"]),
            reserved=tuple(_region(region) for region in data["reserved"]),
            clock_hz=int(data["clock_hz"]),
            stack_size=int(data["stack_size"]),
            console=dict(data.get("console") or {}),
            programmer=data.get("programmer"),
            emulator=emulator
            and Emulator(emulator["machine"], tuple(emulator.get("arguments", ())), int(emulator["clock_hz"])),
            simulator=data.get("simulator"),
        )
