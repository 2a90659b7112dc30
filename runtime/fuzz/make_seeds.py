"""Makes the seeds of the fuzzer of programs: each program, and the offsets of its fields.

A seed is a program and a trailer of eight bytes: "SEED", its number (2 bytes) and two zero bytes. The trailer stays
with inputs that the fuzzer derives from the seed, whose fields keep their offsets. `fields.bin` has, for each seed in
the order of the numbers, the count of fields (4 bytes) and the fields, twelve bytes each as `Field` in mutator.h; then
for all of them the count of groups. All numbers are little-endian.
"""

import argparse
import enum
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.program import load
from tools.artifacts.program.program_schema import ENUMS, ROOT_TYPE, TABLES, UNIONS
from tools.quiet.tool import run_tool

TRAILER = struct.Struct("<4sHH")
FIELD = struct.Struct("<IIHBB")

_CONSTANT_HEAD = 64
"""Bytes at the beginning of a constant that get as many mutations as all that follow: those of a packed one are
parameters."""

_INDEX_FIELDS = {
    "ExecutionPlan.inputs": "values",
    "ExecutionPlan.outputs": "values",
    "Chain.inputs": "values",
    "Chain.outputs": "values",
    "TensorList.items": "values",
    "OptionalTensorList.items": "values",
    "IntList.items": "values",
    "KernelCall.args": "values",
    "KernelCall.op_index": "operators",
    "DelegateCall.args": "values",
    "DelegateCall.delegate_index": "delegates",
    "MoveCall.move_from": "values",
    "MoveCall.move_to": "values",
    "JumpFalseCall.cond_value_index": "values",
    "JumpFalseCall.destination_instruction": "instructions",
    "FreeCall.value_index": "values",
    "Tensor.data_buffer_idx": "constants",
}
"""Fields that refer to an object by its number, and the kind of that object."""


class Kind(enum.IntEnum):
    """The kind of a field; `extra` has further details."""

    SCALAR = 0
    """An integer or a floating-point number."""
    ENUM = 1
    """An enum's value or a union's type; extra: how many there are. After a union's type comes its value's OFFSET."""
    INDEX = 2
    """A number of a value, an operator, ...; extra: how many there are."""
    OFFSET = 3
    """The offset of a table, vector or string from here; extra: the number of its type."""
    LENGTH = 4
    """The number of elements of a vector or string, which follow. extra: 1 for a string."""
    TABLE = 5
    """The distance of a table's vtable before here."""
    SLOT = 6
    """Entry of a vtable."""
    BYTES = 7
    """Bytes; extra: how many."""


@dataclass(frozen=True)
class FieldAt:
    """A field of a seed: its offset, its kind, and the name of the group of fields that it belongs to."""

    offset: int
    kind: Kind
    width: int
    group: str
    extra: int


class _Walker:
    """Lists the fields of a flatbuffer (FlatBuffers documentation, "FlatBuffer Internals")."""

    def __init__(self, data: bytes, counts: dict[str, int]) -> None:
        self.data = data
        self.counts = counts
        self.seen: set[int] = set()
        self.pointees: dict[str, int] = {}

    def unpack(self, kind: str, position: int) -> int:
        return struct.unpack_from("<" + kind, self.data, position)[0]

    def pointee(self, name: str) -> int:
        return self.pointees.setdefault(name, len(self.pointees))

    def offset(self, position: int, group: str, pointee: str) -> tuple[FieldAt, int]:
        found = FieldAt(position, Kind.OFFSET, 4, group, self.pointee(pointee))
        return found, position + self.unpack("I", position)

    def scalar(self, position: int, kind: str, group: str) -> FieldAt:
        if kind in ENUMS:
            members, width = ENUMS[kind]
            return FieldAt(position, Kind.ENUM, struct.calcsize(width), group, max(members) + 1)
        width = struct.calcsize("<" + kind)
        if group in _INDEX_FIELDS:
            return FieldAt(position, Kind.INDEX, width, group, self.counts[_INDEX_FIELDS[group]])
        return FieldAt(position, Kind.SCALAR, width, group, 0)

    def vector(self, position: int, kind: str, group: str) -> Iterator[FieldAt]:
        if position in self.seen:
            return
        self.seen.add(position)
        count = self.unpack("I", position)
        yield FieldAt(position, Kind.LENGTH, 4, group + ".length", int(kind == "string"))
        if kind == "string":
            yield FieldAt(position + 4, Kind.BYTES, 1, group + ".characters", count)
            return
        if kind in TABLES:
            for index in range(count):
                found, target = self.offset(position + 4 + 4 * index, group, kind)
                yield found
                yield from self.table(target, kind)
            return
        if kind in "Bb?" and count > _CONSTANT_HEAD:
            yield FieldAt(position + 4, Kind.BYTES, 1, group, count)
            return
        width = struct.calcsize("<" + kind) if kind not in ENUMS else struct.calcsize(ENUMS[kind][1])
        for index in range(count):
            yield self.scalar(position + 4 + width * index, kind, group)

    def table(self, position: int, name: str) -> Iterator[FieldAt]:
        if position in self.seen:
            return
        self.seen.add(position)
        yield FieldAt(position, Kind.TABLE, 4, name + ".vtable", 0)
        vtable = position - self.unpack("i", position)
        slots = (self.unpack("H", vtable) - 4) // 2
        if vtable not in self.seen:
            self.seen.add(vtable)
            for entry in range(slots + 2):
                yield FieldAt(vtable + 2 * entry, Kind.SLOT, 2, name + ".slots", 0)

        def place(slot: int) -> int | None:
            within = self.unpack("H", vtable + 4 + 2 * slot) if slot < slots else 0
            return position + within if within else None

        for field_name, slot, kind, is_vector, _ in TABLES[name][1]:
            group = f"{name}.{field_name}"
            at = place(slot)
            if at is None:
                continue
            if kind in UNIONS and not is_vector:
                type_at = place(slot - 1)
                if type_at is None:
                    continue
                members = UNIONS[kind]
                yield FieldAt(type_at, Kind.ENUM, 1, group + ".type", max(members) + 1)
                found, target = self.offset(at, group, kind)
                yield found
                yield from self.table(target, members(self.unpack("B", type_at)).name)
            elif is_vector or kind == "string":
                found, target = self.offset(at, group, kind + "[]" * is_vector)
                yield found
                yield from self.vector(target, kind, group)
            elif kind in TABLES:
                found, target = self.offset(at, group, kind)
                yield found
                yield from self.table(target, kind)
            else:
                yield self.scalar(at, kind, group)


def fields_of(path: Path) -> list[FieldAt]:
    """Returns the fields of a program: of its flatbuffer, of the extended header, and the bytes of its constants."""
    file = load(path)
    plans = file.program.execution_plan
    counts = {
        "values": max(len(plan.values or []) for plan in plans),
        "operators": max(len(plan.operators or []) for plan in plans),
        "delegates": max(len(plan.delegates or []) for plan in plans),
        "instructions": max(
            (len(chain.instructions or []) for plan in plans for chain in plan.chains or []), default=0
        ),
        "constants": len(file.constants()),
    }
    walker = _Walker(file.data, counts)
    root, target = walker.offset(0, "root", ROOT_TYPE)
    fields = [root, *walker.table(target, ROOT_TYPE)]
    if file.segment_base_offset:
        fields.append(FieldAt(12, Kind.SCALAR, 4, "header.length", 0))
        fields += [FieldAt(offset, Kind.SCALAR, 8, "header.sizes", 0) for offset in (16, 24)]
        segments = file.program.segments or []
        table = file.program.constant_segment
        starts = list(table.offsets or []) if table is not None else []
        for index, segment in enumerate(segments):
            start = file.segment_base_offset + segment.offset
            if table is not None and index == table.segment_index and len(starts) > 1:
                # The first is a placeholder.
                for begin, end in zip(starts[1:], [*starts[2:], segment.size], strict=True):
                    head = min(_CONSTANT_HEAD, end - begin)
                    fields.append(FieldAt(start + begin, Kind.BYTES, 1, "constant.head", head))
                    if end - begin > head:
                        fields.append(FieldAt(start + begin + head, Kind.BYTES, 1, "constant.rest", end - begin - head))
            else:
                fields.append(FieldAt(start, Kind.BYTES, 1, "segment", segment.size))
    return [found for found in fields if found.extra or found.kind not in (Kind.BYTES, Kind.INDEX)]


def make(programs: dict[str, Path], output: Path) -> None:
    """Writes the seeds, their fields, and their names to a folder.

    Args:
      programs: Program files by the names that seeds get.
      output: The folder; gets `corpus/NNN_NAME`, `fields.bin` and `names.txt`.
    """
    (output / "corpus").mkdir(parents=True, exist_ok=True)
    groups: dict[str, int] = {}
    description = bytearray()
    for number, (name, path) in enumerate(sorted(programs.items())):
        fields = fields_of(path)
        description += struct.pack("<I", len(fields))
        for found in fields:
            group = groups.setdefault(found.group, len(groups))
            description += FIELD.pack(found.offset, found.extra, group, found.kind, found.width)
        (output / "corpus" / f"{number:03}_{name}").write_bytes(path.read_bytes() + TRAILER.pack(b"SEED", number, 0))
    description += struct.pack("<I", len(groups))
    (output / "fields.bin").write_bytes(description)
    (output / "names.txt").write_text("".join(f"{name}\n" for name in sorted(programs)), encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Makes the seeds of the fuzzer of programs.")
    parser.add_argument("--output", type=Path, required=True, help="the folder to write")
    parser.add_argument("programs", nargs="+", metavar="NAME=FILE", help="a program, or a folder of them")
    return run_tool("make_seeds", _run, parser.parse_args(arguments))


def _run(options: argparse.Namespace) -> None:
    programs: dict[str, Path] = {}
    for pair in options.programs:
        name, _, file = pair.partition("=")
        path = Path(file)
        for program in sorted(path.glob("*.pte")) if path.is_dir() else [path]:
            programs[f"{name}.{program.stem}" if path.is_dir() else name] = program
    make(programs, options.output)
