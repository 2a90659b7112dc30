"""Bounds the stack of an image or of a function: the deepest chain of calls from there, by the bytes that each takes.

A function's bytes are those of its frame description (.debug_frame), or without one what its instructions subtract
from the stack pointer. A call through a pointer may call each function whose address the image's code or tables could
have given it:

- Kernels of the operator table are called by the runtime's Method alone, and get no functions from it.
- The runtime's log and clock call the functions of the platform (`et_pal_*`).
- Any other may call virtual functions, and those whose addresses are taken by it, by what it calls, by what calls it,
  and by tables that these refer to.

No pointer leads back: not to a function that calls the one with the pointer, and functions that could call each other
in a circle by pointers are counted once each. The
deepest exception handler comes on top, once: faults, which end the program, don't.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

from tools.artifacts.elf_image.elf_image import opened_elf

# Bytes that entry to an exception stores, with the registers of an FPU and alignment.
_EXCEPTION = 108
_STACK_POINTER = 13

# Tables of functions, by the names that compilers give them.
_TABLES = {
    "operators": re.compile(r"_ZN10executorch7runtime8internal12_GLOBAL__N_1L8kKernelsE"),
    "virtual": re.compile("_ZTV"),
    "allocators": re.compile("_ZTV.*Allocator"),
}
_CALLS_OPERATORS = re.compile(r"_ZNK?10executorch7runtime6Method")
_CALLS_PLATFORM = re.compile(r"_ZN10executorch7runtime(8internal5vlogf|\d+pal_)")
_PLATFORM = re.compile(r"et_pal_")
_START = "cortex_m_start"
_NEVER = re.compile(r"main|NMI_Handler|cortex_m_(fault|reset)\w*")


class Level(NamedTuple):
    """A function of a chain of calls, and the bytes of stack that it takes."""

    name: str
    size: int


@dataclass(frozen=True)
class StackBound:
    """The stack of an image.

    Attributes:
      size: the bytes that there are for it.
      chain: the deepest chain of calls; empty if there is no bound.
      sure: the deepest one of calls by name, and of kernels by the runtime: a call through another pointer may be one
        that never happens.
      problem: why there is no bound.
    """

    size: int
    chain: tuple[Level, ...] = ()
    sure: tuple[Level, ...] = ()
    problem: str = ""

    @property
    def bound(self) -> int:
        """The bytes that it takes at most."""
        return _total(self.chain)

    @property
    def sure_bytes(self) -> int:
        """The bytes that calls take for sure."""
        return _total(self.sure)

    @property
    def is_too_small(self) -> bool:
        """Whether these are more than there are."""
        return self.sure_bytes > self.size

    def text(self) -> str:
        """Returns the bound as a line, and one per function of the chain that takes any."""
        if self.problem:
            return f"stack: {self.size:,} bytes, and no bound of what is used: {self.problem}\n"
        lines = [f"stack: at most {self.bound:,} of {self.size:,} bytes"]
        lines += [f"  {level.size:>10,}  {readable(level.name)}" for level in self.chain if level.size]
        return "\n".join(lines) + "\n"


@dataclass
class _Function:
    name: str
    frame: int = 0
    calls: set[int] = field(default_factory=set)
    by_pointer: bool = False
    words: set[int] = field(default_factory=set)
    is_dynamic: bool = False


def readable(name: str) -> str:
    """Returns a function's name with its namespaces, without parameters, from the one that C++'s compiler gives it."""
    parts = []
    rest = re.sub(r"^_Z(N[KVRO]*)?", "", name) if name.startswith("_Z") else ""
    while (found := re.match(r"L?(\d+)", rest)) and rest:
        end = found.end() + int(found[1])
        parts.append(rest[found.end() : end])
        rest = rest[end:]
    return "::".join(part for part in parts if not part.startswith("_GLOBAL_")) or name


def stack_bound(path: Path) -> StackBound | None:
    """Returns the bound of an image's stack, or None for one without the linker script's symbols of a stack."""
    with opened_elf(path) as elf:
        image = _Image(elf)
        # Other linker scripts, such as those of applications that CMake builds, have their own.
        size = image.stack_size
        return None if size is None else image.bound(size)


def function_bound(path: Path, name: str) -> StackBound:
    """Returns the bound of what a function of a program takes of the stack, with all that it calls."""
    with opened_elf(path) as elf:
        return _Image(elf, name).bound(0)


class _Image:
    """A program, and the function that it begins with: an image's reset, or one of this name."""

    def __init__(self, elf: ELFFile, name: str = "") -> None:
        self._sections = [
            (section["sh_addr"], section.data())
            for section in elf.iter_sections()
            if section["sh_flags"] & 2 and section["sh_type"] == "SHT_PROGBITS"
        ]
        vectors = elf.get_section_by_name(".vectors")
        self._vectors: bytes = vectors.data() if vectors else b""
        table = elf.get_section_by_name(".symtab")
        symbols = list(table.iter_symbols()) if isinstance(table, SymbolTableSection) else []
        self._symbols = {symbol.name: symbol["st_value"] for symbol in symbols}
        self._functions = {
            symbol["st_value"] & ~1: _Function(symbol.name)
            for symbol in symbols
            if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_shndx"] != "SHN_UNDEF"
        }
        self._starts = sorted(self._functions)
        # Addresses at which data and code begin within sections.
        self._marks = sorted(
            (symbol["st_value"], symbol.name[1] == "d") for symbol in symbols if re.match(r"\$[dt]\b", symbol.name)
        )
        self._objects = sorted(
            (symbol["st_value"], symbol["st_size"], symbol.name)
            for symbol in symbols
            if symbol["st_info"]["type"] == "STT_OBJECT" and symbol["st_size"]
        )
        self._object_starts = [start for start, _, _ in self._objects]
        self._elf = elf
        self._root = (self._symbols[name] if name else int.from_bytes(self._vectors[4:8], "little")) & ~1

    @property
    def stack_size(self) -> int | None:
        start, end = self._symbols.get("__stack_start"), self._symbols.get("__stack_end")
        return None if start is None or end is None or self._root not in self._functions else end - start

    def bound(self, size: int) -> StackBound:
        self._read_code()
        self._read_frames(self._elf)
        for function in self._functions.values():
            if function.is_dynamic:
                return StackBound(size, problem=f"{function.name} takes a number of bytes that it computes")
        direct = _components(self._functions, {at: function.calls for at, function in self._functions.items()})
        for component in direct:
            if len(component) > 1 or component[0] in self._functions[component[0]].calls:
                names = sorted(self._functions[at].name for at in component)
                return StackBound(size, problem=f"{' and '.join(names)} may be called while it runs")
        return StackBound(size, self._deepest(self._edges()), self._deepest(self._sure_edges()))

    def _deepest(self, edges: dict[int, set[int]]) -> tuple[Level, ...]:
        """Returns the deepest chain of calls."""
        deepest: dict[int, tuple[Level, ...]] = {}
        # A component comes after all that it calls.
        for component in _components(self._functions, edges):
            inside = set(component)
            callees = {callee for at in component for callee in edges[at]} - inside
            below = max((deepest[callee] for callee in callees), key=_total, default=())
            chain = tuple(Level(self._functions[at].name, self._functions[at].frame) for at in component)
            for at in component:
                deepest[at] = chain + below
        handlers = [word & ~1 for word in self._words(self._vectors[4:])]
        others = [at for at in handlers if at in deepest and not _NEVER.fullmatch(self._functions[at].name)]
        handler = max((deepest[at] for at in others), key=_total, default=())
        if handler:
            handler = (Level("exception", _EXCEPTION), *handler)
        return deepest[self._root] + handler

    def _words(self, data: bytes) -> Iterator[int]:
        return (int.from_bytes(data[at : at + 4], "little") for at in range(0, len(data) - 3, 4))

    def _read_code(self) -> None:
        """Reads each function's instructions: calls, words beside its code, and what it subtracts."""
        for base, data in self._sections:
            for start, end, is_data in self._ranges(base, base + len(data)):
                function = self._functions[self._starts[bisect_right(self._starts, start) - 1]]
                content = data[start - base : end - base]
                if is_data:
                    function.words.update(self._words(content))
                else:
                    self._read_instructions(function, start, content)

    def _ranges(self, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
        """Yields what is code or data of functions, from where to where."""
        marks = [mark for mark in self._marks if start <= mark[0] < end]
        code = {at for at, is_data in marks if not is_data}
        if not code:
            return
        cuts = sorted({at for at, _ in marks} | {at for at in self._starts if start <= at < end} | {end})
        is_data = dict(marks)
        state = True
        for first, last in zip(cuts, cuts[1:], strict=False):
            state = is_data.get(first, state)
            if first >= self._starts[0]:
                yield first, last, state

    def _read_instructions(self, function: _Function, start: int, content: bytes) -> None:
        halves = [int.from_bytes(content[at : at + 2], "little") for at in range(0, len(content) - 1, 2)]
        low: dict[int, int] = {}
        constants: dict[int, int] = {}
        at = 0
        while at < len(halves):
            first = halves[at]
            address = start + 2 * at
            if first >> 11 < 0x1D or at + 1 == len(halves):
                at += 1
                self._read_narrow(function, address, first, constants)
                continue
            second = halves[at + 1]
            at += 2
            if first & 0xFBF0 in (0xF240, 0xF2C0) and not second & 0x8000:
                # MOVW and MOVT, which make an address.
                value = (first & 15) << 12 | (first & 0x400) << 1 | (second >> 4 & 0x700) | second & 0xFF
                register = second >> 8 & 15
                if first & 0x80:
                    function.words.add(value << 16 | low.get(register, 0))
                else:
                    low[register] = value
            else:
                self._read_wide(function, address, first, second)

    def _read_narrow(self, function: _Function, address: int, code: int, constants: dict[int, int]) -> None:
        if code & 0xFF00 in (0xB400, 0xB500):
            function.frame += 4 * (code & 0x1FF).bit_count()
        elif code & 0xFF80 == 0xB080:
            function.frame += 4 * (code & 0x7F)
        elif code & 0xFF07 == 0x4700 and code & 0xFF80 == 0x4780 or (code & 0xFF80 == 0x4700 and code != 0x4770):
            function.by_pointer = True
        elif code & 0xF800 == 0x2000:
            constants[code >> 8 & 7] = code & 0xFF
        elif code & 0xF800 == 0x0000 and code >> 3 & 7 in constants:
            constants[code & 7] = constants[code >> 3 & 7] << (code >> 6 & 31)
        elif code & 0xF800 == 0x4800:
            literal = (address & ~3) + 4 + 4 * (code & 0xFF)
            constants[code >> 8 & 7] = _signed(int.from_bytes(self._content(literal, 4), "little"), 32)
        elif code & 0xFF87 == 0x4485:
            # Cores without wide instructions add a negative constant to take more than 508 bytes.
            function.frame -= min(constants.get(code >> 3 & 15, 0), 0)
            function.is_dynamic |= code >> 3 & 15 not in constants
        elif code & 0xF000 == 0xD000 and code & 0xF00 < 0xE00:
            self._calls(function, address, _signed(code & 0xFF, 8) * 2)
        elif code & 0xF800 == 0xE000:
            self._calls(function, address, _signed(code & 0x7FF, 11) * 2)
        elif code & 0xF500 == 0xB100:
            self._calls(function, address, (code >> 9 & 1) << 6 | (code >> 3 & 31) << 1)

    def _read_wide(self, function: _Function, address: int, first: int, second: int) -> None:
        if first & 0xF800 == 0xF000 and second & 0x8000:
            sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
            if second & 0xD000 in (0x9000, 0xD000):
                # B.W and BL.
                offset = sign << 24 | (~(j1 ^ sign) & 1) << 23 | (~(j2 ^ sign) & 1) << 22
                offset |= (first & 0x3FF) << 12 | (second & 0x7FF) << 1
                self._calls(function, address, _signed(offset, 25), links=bool(second & 0x4000))
            elif second & 0xD000 == 0x8000 and first & 0x380 != 0x380:
                offset = sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1
                self._calls(function, address, _signed(offset, 21))
        elif first == 0xE92D:
            function.frame += 4 * second.bit_count()
        elif first & 0xFFBF == 0xED2D:
            function.frame += 4 * (second & 0xFF)
        elif first & 0xF8FF == 0xF0AD and first & 0x0300 and second & 0x8F00 == 0x0D00:
            # SUB.W and SUBW of a constant.
            value = (first >> 10 & 1) << 11 | second >> 4 & 0x700 | second & 0xFF
            function.frame += value if first & 0x0200 or value < 256 else _expanded(value)
        elif first == 0xF84D and second & 0xF00 == 0xD00:
            function.frame += second & 0xFF
        elif first == 0xE96D:
            function.frame += 4 * (second & 0xFF)
        elif first & 0xFFEF == 0xEBAD and second & 0xF00 == 0xD00:
            function.is_dynamic = True

    def _calls(self, function: _Function, address: int, offset: int, links: bool = False) -> None:
        # A branch within the function is a loop, or a subroutine of its own.
        to = address + 4 + offset
        target = self._starts[bisect_right(self._starts, to) - 1]
        if self._functions[target] is not function or (links and to == target):
            function.calls.add(target)

    def _read_frames(self, elf: ELFFile) -> None:
        information = elf.get_dwarf_info()
        for entry in information.CFI_entries() if information.has_CFI() else ():
            location = entry.header.get("initial_location")
            function = self._functions.get(location & ~1) if location is not None else None
            if function is None:
                continue
            rules = [row["cfa"] for row in entry.get_decoded().table]
            if all(rule.reg == _STACK_POINTER for rule in rules):
                described = max((rule.offset for rule in rules), default=0)
                # A naked function's description has nothing of what its instructions push.
                if described:
                    function.frame = described
                    function.is_dynamic = False

    def _in_tables(self, kind: str) -> set[int]:
        """Returns the functions in the tables of a kind."""
        tables = [(start, size) for start, size, name in self._objects if _TABLES[kind].match(name)]
        return {function for start, size in tables for function in self._taken_by(self._content(start, size))}

    def _sure_edges(self) -> dict[int, set[int]]:
        """Returns what each function calls by name, and the runtime through its table of operators."""
        edges = {at: set(function.calls) for at, function in self._functions.items()}
        for at, function in self._functions.items():
            if function.name == _START:
                edges[at] |= {main for main, each in self._functions.items() if each.name == "main"}
            elif function.by_pointer and _CALLS_OPERATORS.match(function.name):
                edges[at] |= self._in_tables("operators")
        return edges

    def _edges(self) -> dict[int, set[int]]:
        """Returns what each function may call."""
        operators = self._in_tables("operators")
        # Nothing but start-up code calls these, though an integer may look like the address of one.
        never = operators | {at for at, function in self._functions.items() if _NEVER.fullmatch(function.name)}
        own = {at: self._taken(function.words) - never for at, function in self._functions.items()}
        given: dict[int, set[int]] = {at: set() for at in self._functions}
        given[self._root] |= self._in_tables("virtual")
        for at in operators:
            given[at] |= self._in_tables("allocators")
        edges = {at: set(function.calls) for at, function in self._functions.items()}
        platform = {at for at, function in self._functions.items() if _PLATFORM.match(function.name)}
        pointers = []
        for at, function in self._functions.items():
            if function.name == _START:
                edges[at] |= {main for main, each in self._functions.items() if each.name == "main"}
            if function.by_pointer and _CALLS_PLATFORM.match(function.name):
                edges[at] |= platform
            elif function.by_pointer:
                pointers.append(at)
        above = {at: self._above(at) for at in pointers}
        # A function gives its callers the addresses that it and its callees take, and its callees all that it knows.
        while True:
            components = _components(self._functions, edges)
            gives: dict[int, set[int]] = {}
            for component in components:
                callees = {callee for at in component for callee in edges[at]}
                taken = set().union(*(own[at] for at in component), *(gives.get(callee, ()) for callee in callees))
                gives |= dict.fromkeys(component, taken)
            for component in reversed(components):
                knows = gives[component[0]].union(*(given[at] for at in component))
                for at in component:
                    given[at] |= knows
                    for callee in edges[at]:
                        given[callee] |= knows
            further = {at: given[at] - edges[at] - above[at] for at in pointers}
            if not any(further.values()):
                break
            for at, targets in further.items():
                edges[at] |= targets
        for at in pointers:
            if _CALLS_OPERATORS.match(self._functions[at].name):
                edges[at] |= operators
        return edges

    def _above(self, below: int) -> set[int]:
        """Returns the function and all that call it, without pointers."""
        found = {below}
        waiting = [below]
        while waiting:
            callee = waiting.pop()
            callers = {at for at, function in self._functions.items() if callee in function.calls} - found
            found |= callers
            waiting.extend(callers)
        return found

    def _taken(self, words: Iterable[int]) -> set[int]:
        """Returns functions whose addresses are among words, or in tables to which words lead."""
        found: set[int] = set()
        seen: set[int] = set()
        waiting = list(words)
        while waiting:
            word = waiting.pop()
            if word & 1 and word & ~1 in self._functions:
                found.add(word & ~1)
                continue
            index = bisect_right(self._object_starts, word) - 1
            if index < 0 or index in seen:
                continue
            start, size, name = self._objects[index]
            if start <= word < start + size and not _TABLES["operators"].match(name):
                seen.add(index)
                waiting.extend(self._words(self._content(start, size)))
        return found

    def _taken_by(self, table: bytes) -> set[int]:
        return {word & ~1 for word in self._words(table) if word & 1 and word & ~1 in self._functions}

    def _content(self, start: int, size: int) -> bytes:
        for base, data in self._sections:
            if base <= start < base + len(data):
                return data[start - base : start - base + size]
        return b""


def _signed(value: int, bits: int) -> int:
    return value - (value >> (bits - 1) << bits)


def _expanded(value: int) -> int:
    """Returns a constant as Thumb's wide instructions encode it in 12 bits, those of more than one byte rotated."""
    return (0x80 | value & 0x7F) << (32 - (value >> 7))


def _total(chain: tuple[Level, ...]) -> int:
    return sum(level.size for level in chain)


def _components(nodes: Iterable[int], edges: dict[int, set[int]]) -> list[list[int]]:
    """Returns the strongly connected components of a graph, each after those that it leads to (Tarjan)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(edges[root]))]
        while work:
            node, rest = work[-1]
            for callee in rest:
                if callee not in index:
                    index[callee] = low[callee] = len(index)
                    stack.append(callee)
                    on_stack.add(callee)
                    work.append((callee, iter(edges[callee])))
                    break
                if callee in on_stack:
                    low[node] = min(low[node], index[callee])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        each = stack.pop()
                        on_stack.discard(each)
                        component.append(each)
                        if each == node:
                            break
                    found.append(component)
    return found
