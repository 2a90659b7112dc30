"""board.json, the definition of a board that `board()` in rules/board.bzl writes, as the tools read it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.artifacts.document.document import from_json
from tools.quiet.files import reading

# Written by rules/board.bzl.
_FORMAT, _VERSION = "board definition", 1
_ADVICE = "pass the board.json that a board() target writes"


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

    `simulator` names the `chip` that boardsim simulates, with options of the chip's model. `npu` is the configuration
    of its NPU, such as `ethos-u55-128`, and `arena_memory` the region with the tensors that models work on.
    `uf2_family` is the family ID of its chip's UF2 boot loader. Each is None without one. `flash_settings` are
    measured beside the usual one; by name: address, mask and value of a register's bits.
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
    npu: str | None = None
    arena_memory: str = "ram"
    uf2_family: int | None = None
    flash_settings: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    @property
    def arena(self) -> Region:
        """Where an image has the memory that models work in."""
        if self.arena_memory == "ram":
            return self.ram
        return next(region for region in self.reserved if region.name == self.arena_memory)

    def region(self, name: str) -> Region | None:
        """The reserved region called `name`, if there is one."""
        return next((region for region in self.reserved if region.name == name), None)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _texts(value: Any) -> dict[str, str]:
    return {_text(key): _text(entry) for key, entry in dict(value or {}).items()}


def _positive(value: Any) -> int:
    number = int(value)
    if number <= 0:
        raise ValueError(f"{number} is not above 0")
    return number


def _region(data: dict[str, Any]) -> Region:
    region = Region(_text(data["name"]), int(data["origin"]), _positive(data["length"]), _text(data.get("use", "")))
    if region.origin < 0 or region.end > 1 << 32:
        raise ValueError(f"region {region.name} lies outside of the address space")
    return region


def read_board(path: Path) -> Board:
    """Reads board.json.

    Raises:
        UserError: the file is missing, something else, or of another version.
    """
    data = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        npu = data.get("npu")
        arena = _text((npu or data).get("arena_memory", "ram"))
        if arena not in ("ram", *(region["name"] for region in data["reserved"])):
            raise ValueError(f"arena_memory '{arena}' is none of its regions")
        emulator = data.get("emulator")
        return Board(
            name=_text(data["name"]),
            description=_text(data["description"]),
            core=_text(data["core"]),
            flash=_region(data["flash"]),
            ram=_region(data["ram"]),
            reserved=tuple(_region(region) for region in data["reserved"]),
            clock_hz=_positive(data["clock_hz"]),
            stack_size=_positive(data["stack_size"]),
            console=_texts(data.get("console")),
            programmer=_texts(data["programmer"]) if data.get("programmer") else None,
            emulator=Emulator(
                _text(emulator["machine"]),
                tuple(map(_text, emulator.get("arguments", ()))),
                _positive(emulator["clock_hz"]),
            )
            if emulator
            else None,
            simulator=_texts(data["simulator"]) if data.get("simulator") else None,
            npu=_text(npu["accelerator"]) if npu else None,
            arena_memory=arena,
            uf2_family=_positive(data["uf2_family"]) if data.get("uf2_family") else None,
            flash_settings={
                _text(name): (int(address), int(mask), int(value))
                for name, (address, mask, value) in dict(data.get("flash_settings", {})).items()
            },
        )
