"""board.json, the definition of a board that `board()` in rules/board.bzl writes, as the tools read it."""

from dataclasses import dataclass, field
from pathlib import Path

from tools.artifacts.document.document import from_json, record
from tools.quiet.files import reading

# Written by rules/board.bzl.
_FORMAT, _VERSION = "board definition", 1
_ADVICE = "pass the board.json that a board() target writes"
# The most bytes of RAM that application, console and model take besides stack and arena.
_VARIABLES = 1024


def _check_positive(**numbers: int) -> None:
    for name, number in numbers.items():
        if number <= 0:
            raise ValueError(f"{name} is {number}, which is not above 0")


@dataclass(frozen=True)
class Region:
    """A range of the address space: `origin` and `length` in bytes, `use` for people."""

    name: str
    origin: int
    length: int
    use: str = ""

    def __post_init__(self) -> None:
        _check_positive(length=self.length)
        if self.origin < 0 or self.end > 1 << 32:
            raise ValueError(f"region {self.name} lies outside of the address space")

    @property
    def end(self) -> int:
        return self.origin + self.length

    def contains(self, address: int) -> bool:
        return self.origin <= address < self.end


@dataclass(frozen=True)
class Emulator:
    """QEMU's machine for a board; `clock_hz` is the frequency of the timer behind board_ticks()."""

    machine: str
    clock_hz: int
    arguments: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_positive(clock_hz=self.clock_hz)

    def options(self, entry: int) -> list[str]:
        """Returns QEMU's options of the machine, for an image with this address of its first instruction."""
        arguments = [argument.replace("{entry}", f"{entry:#x}") for argument in self.arguments]
        return ["-machine", self.machine, *arguments]


@dataclass(frozen=True)
class Board:
    """One board. `flash` and `ram` are what an image may use; `reserved` regions are kept free of it.

    `simulator` names the `chip` that boardsim simulates, with options of the chip's model. `npu` is the configuration
    of its NPU, such as `ethos-u55-128`, and `arena_memory` the region with the tensors that models work on;
    `arena_memories` are the regions besides `ram` that may have some of them.
    `uf2_family` is the family ID of its chip's UF2 boot loader. Each is None without one. `prove_settings` are
    measured beside the usual one; by name: address, mask and value of registers' bits, in the order of the changes.
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
    arena_memories: tuple[str, ...] = ()
    uf2_family: int | None = None
    prove_settings: dict[str, tuple[tuple[int, int, int], ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        _check_positive(clock_hz=self.clock_hz, stack_size=self.stack_size)
        if self.uf2_family is not None:
            _check_positive(uf2_family=self.uf2_family)
        if self.arena_memory not in (self.ram.name, *(region.name for region in self.reserved)):
            raise ValueError(f"arena_memory '{self.arena_memory}' is none of its regions")

    @property
    def arena(self) -> Region:
        """Returns the region with the memory that models work in."""
        return self.memory(self.arena_memory)

    def memory(self, name: str) -> Region:
        """Returns a region that variables can be in."""
        return next(region for region in (self.ram, *self.reserved) if region.name == name)

    def room(self, memory: str = "") -> int:
        """Returns the bytes of a region, by default the arena's, without the stack and some variables."""
        region = self.memory(memory or self.arena_memory)
        return region.length - (self.stack_size + _VARIABLES if region == self.ram else 0)

    def region(self, name: str) -> Region | None:
        """The reserved region called `name`, if there is one."""
        return next((region for region in self.reserved if region.name == name), None)


def read_board(path: Path) -> Board:
    """Reads board.json.

    Raises:
        UserError: the file is missing, something else, or of another version.
    """
    content = from_json(path, _FORMAT, _VERSION, _ADVICE)
    with reading(_FORMAT, path, _ADVICE):
        npu = content.get("npu")
        if npu:
            content |= {"npu": npu["accelerator"], "arena_memory": npu.get("arena_memory", "ram")}
        # The rule writes what a board hasn't as an empty value.
        return record(Board, {name: value for name, value in content.items() if value not in (None, {})})
