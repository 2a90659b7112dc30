"""Reads programs (.pte files) without torch, by the tables that //tools/abi/schema generates from ExecuTorch's schema.

A program is a flatbuffer (file identifier ET12), which may be followed by segments with constants and other data. Then
an extended header stands at byte 8: "eh00", its length (4 bytes), the flatbuffer's size, the offset of the segments in
the file and, in newer programs, their size (8 bytes each); all little-endian.
"""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any

from tools.quiet.console import UserError

from .program_schema import (
    ENUMS,
    FILE_IDENTIFIER,
    ROOT_TYPE,
    TABLES,
    UNIONS,
    DelegateCall,
    ExecutionPlan,
    FreeCall,
    Int,
    IntList,
    JumpFalseCall,
    KernelCall,
    MoveCall,
    OptionalTensorList,
    Program,
    ScalarType,
    Tensor,
    TensorList,
)

__all__ = [
    "DTYPES",
    "ELEMENT_SIZES",
    "PLANNED_ALIGNMENT",
    "Program",
    "ProgramError",
    "ProgramFile",
    "ScalarType",
    "Tensor",
    "aligned",
    "constant_bytes",
    "load",
    "operator_name",
    "output_places",
    "read",
    "unwritten_bytes",
]

#: What an image aligns each buffer of planned memory to: kernels may load it in units of up to 16 bytes.
PLANNED_ALIGNMENT = 16


@dataclass(frozen=True)
class Dtype:
    """A dtype's name in C++, its name in PyTorch, and the bytes of an element."""

    cpp: str
    pytorch: str
    size: int


DTYPES = {
    "BYTE": Dtype("Byte", "uint8", 1),
    "CHAR": Dtype("Char", "int8", 1),
    "SHORT": Dtype("Short", "int16", 2),
    "INT": Dtype("Int", "int32", 4),
    "LONG": Dtype("Long", "int64", 8),
    "HALF": Dtype("Half", "float16", 2),
    "FLOAT": Dtype("Float", "float32", 4),
    "DOUBLE": Dtype("Double", "float64", 8),
    "BOOL": Dtype("Bool", "bool", 1),
    "BFLOAT16": Dtype("BFloat16", "bfloat16", 2),
    "UINT16": Dtype("UInt16", "uint16", 2),
    "UINT32": Dtype("UInt32", "uint32", 4),
    "UINT64": Dtype("UInt64", "uint64", 8),
}
"""The dtypes by the schema's names; the runtime refuses others when it loads a program."""

ELEMENT_SIZES = {name: dtype.size for name, dtype in DTYPES.items()}

# ExecuTorch writes these numbers of torch's ScalarType, which its schema doesn't have.
_COMPLEX = {8: "complex32", 9: "complex64", 10: "complex128"}

_HEADER_OFFSET = 8
_HEADER_MAGIC = b"eh00"
_HEADER_MINIMUM_LENGTH = 24


class ProgramError(UserError):
    """A file that is no program, or a corrupted one; the message names the file and what is wrong with it."""


class _ComplexDtype(Exception):
    """The dtype of a tensor is complex; the message names it."""


@dataclass
class ProgramFile:
    """A program and the data that goes with it.

    Attributes:
      path: where it was read from, for messages.
      program: the root table.
      data: the whole file.
      flatbuffer_size: bytes of the flatbuffer, extended header included.
      segment_base_offset: where the segments begin in the file; 0 if there are none.
    """

    path: Path
    program: Program
    data: bytes
    flatbuffer_size: int
    segment_base_offset: int

    def segment(self, index: int) -> bytes:
        """The bytes of a segment."""
        segments = self.program.segments or []
        if not self.segment_base_offset or not 0 <= index < len(segments):
            raise ProgramError(f"{self.path} has no segment {index}: it is corrupted")
        start = self.segment_base_offset + segments[index].offset
        end = start + segments[index].size
        if end > len(self.data):
            raise ProgramError(f"{self.path}: segment {index} ends at byte {end} of {len(self.data)}: it is truncated")
        return self.data[start:end]

    def constants(self) -> list[bytes]:
        """The bytes from each constant's beginning to the next one's; the first is a placeholder, not a constant."""
        table = self.program.constant_segment
        offsets = list(table.offsets or []) if table is not None else []
        if len(offsets) > 1:
            segment = self.segment(table.segment_index)
            return [segment[start:end] for start, end in zip(offsets, [*offsets[1:], len(segment)], strict=True)]
        return [buffer.storage or b"" for buffer in self.program.constant_buffer or []]

    def delegate(self, reference: Any) -> bytes:
        """The bytes that a backend made of a subgraph: of the `processed` of an entry of a method's delegates."""
        if reference.location.name == "SEGMENT":
            return self.segment(reference.index)
        inline = self.program.backend_delegate_data or []
        if not 0 <= reference.index < len(inline):
            raise ProgramError(f"{self.path} has no delegate data {reference.index}: it is corrupted")
        return inline[reference.index].data or b""


def load(path: Path) -> ProgramFile:
    """Reads a program with its segments.

    Raises:
      ProgramError: the file cannot be read, is no program, or is corrupted.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ProgramError(f"program {path}: {error.strerror}; pass a .pte file") from error
    if len(data) < _HEADER_OFFSET + 8:
        raise ProgramError(f"{path}: {len(data)} bytes are too few for a program")
    identifier = data[4:8]
    if identifier != FILE_IDENTIFIER:
        if identifier.startswith(b"ET"):
            raise ProgramError(
                f"{path}: program format {identifier.decode('latin-1')} is not {FILE_IDENTIFIER.decode()}, the one "
                "that this release reads; export the model again with an ExecuTorch release of that format"
            )
        raise ProgramError(f"{path} is not an ExecuTorch program; pass a .pte file")
    flatbuffer_size, segment_base_offset = len(data), 0
    if data[_HEADER_OFFSET : _HEADER_OFFSET + 4] == _HEADER_MAGIC:
        try:
            length, flatbuffer_size, segment_base_offset = struct.unpack_from("<IQQ", data, _HEADER_OFFSET + 4)
        except struct.error:
            raise ProgramError(f"{path}: the extended header is truncated") from None
        if length < _HEADER_MINIMUM_LENGTH:
            raise ProgramError(f"{path}: the extended header is corrupted")
        if max(flatbuffer_size, segment_base_offset) > len(data):
            raise ProgramError(f"{path} is truncated: {len(data)} of at least {flatbuffer_size} bytes")
    reader = _Reader(data[:flatbuffer_size])
    try:
        program = reader.table(ROOT_TYPE, reader.unpack("I", 0))
    except _ComplexDtype as error:
        raise ProgramError(
            f"{path} has a tensor of {error}, which no runtime takes; export the model with torch_program, which "
            "computes with real and imaginary parts"
        ) from None
    except (struct.error, IndexError, KeyError, ValueError, UnicodeDecodeError) as error:
        raise ProgramError(f"{path} is corrupted or truncated ({error})") from None
    if not program.execution_plan:
        raise ProgramError(f"{path} has no method")
    for plan in program.execution_plan:
        # A vector without elements may be left out.
        for name in ("values", "inputs", "outputs", "chains", "operators", "delegates", "non_const_buffer_sizes"):
            if getattr(plan, name) is None:
                setattr(plan, name, [])
        if any(operator.name is None for operator in plan.operators):
            raise ProgramError(f"{path} is corrupted: method {plan.name}: an operator has no name")
        for chain in plan.chains:
            chain.instructions = chain.instructions or []
        for call in calls_of(plan):
            if isinstance(call, KernelCall | DelegateCall):
                call.args = call.args or []
        for what, index, count in _references(plan):
            if not 0 <= index < count:
                raise ProgramError(f"{path} is corrupted: method {plan.name}: {what} {index} of {count}")
        if problem := _problem(plan):
            raise ProgramError(f"{path} is corrupted: method {plan.name}: {problem}")
    return ProgramFile(path, program, data, flatbuffer_size, segment_base_offset)


def _references(plan: ExecutionPlan) -> Iterator[tuple[str, int, int]]:
    """Yields what a method refers to by number: the kind of thing, the number, and how many such things there are."""
    values, operators = plan.values, plan.operators
    indices = [*plan.inputs, *plan.outputs]
    for value in values:
        if isinstance(value.val, IntList | TensorList):
            indices += value.val.items or []
        elif isinstance(value.val, OptionalTensorList):
            # -1 stands for None.
            indices += [index for index in value.val.items or [] if index != -1]
    for call in calls_of(plan):
        if isinstance(call, KernelCall):
            yield "operator", call.op_index, len(operators)
            indices += call.args
        elif isinstance(call, DelegateCall):
            indices += call.args
        elif isinstance(call, MoveCall):
            indices += [call.move_from, call.move_to]
        elif isinstance(call, JumpFalseCall):
            indices.append(call.cond_value_index)
        elif isinstance(call, FreeCall):
            indices.append(call.value_index)
    for index in indices:
        yield "value", index, len(values)


def _problem(plan: ExecutionPlan) -> str:
    """Says what a method has that no runtime takes; empty if there is nothing."""
    if any(not 0 <= size < 2**32 for size in plan.non_const_buffer_sizes):
        return f"planned buffers of {plan.non_const_buffer_sizes} bytes"
    for value in plan.values:
        items = value.val.items or [] if isinstance(value.val, IntList) else ()
        if any(not isinstance(plan.values[index].val, Int) for index in items):
            return "a list of integers has something else"
    if any(call is None for call in calls_of(plan)):
        return "an instruction does nothing"
    return ""


def read(path: Path) -> Program:
    """Reads a program's root table. See load()."""
    return load(path).program


def with_first_method(file: ProgramFile, name: str) -> bytes:
    """A program whose first method, in place of another one, is that of a name: for what runs the first one.

    Raises:
      ProgramError: it has no such method.
    """
    names = [str(plan.name) for plan in file.program.execution_plan or []]
    if name not in names:
        raise ProgramError(f"{file.path} has no method {name}; it has {', '.join(names)}")
    reader = _Reader(file.data[: file.flatbuffer_size])
    position = reader.target(reader.address(ROOT_TYPE, "execution_plan", reader.unpack("I", 0))) + 4
    places = (position, position + 4 * names.index(name))
    first, chosen = (reader.target(place) for place in places)
    data = bytearray(file.data)
    # References of a flatbuffer count from where they are.
    for place, target in zip(places, (chosen, first), strict=True):
        struct.pack_into("<I", data, place, target - place)
    return bytes(data)


def operator_name(name: str, overload: str | None) -> str:
    """Returns the full name of a program's operator, such as `aten::add.out`."""
    return f"{name}.{overload}" if overload else name


def aligned(size: int, alignment: int = PLANNED_ALIGNMENT) -> int:
    """The next multiple of an alignment, planned memory's by default: where something begins behind `size` bytes."""
    return -(-size // alignment) * alignment


def calls_of(plan: ExecutionPlan) -> list[Any]:
    """Returns what each instruction of a method does, such as a KernelCall, in the order of its chains."""
    return [instruction.instr_args for chain in plan.chains or [] for instruction in chain.instructions or []]


def output_places(plan: ExecutionPlan) -> tuple[int | None, ...]:
    """Returns the offsets of a method's outputs in its buffers of planned memory, which an image has one after the
    other, each at a multiple of PLANNED_ALIGNMENT; None for an output that is in none of them.
    """
    starts = [0]
    for size in (plan.non_const_buffer_sizes or [])[1:]:
        starts.append(starts[-1] + aligned(size))
    places: list[int | None] = []
    for index in plan.outputs or []:
        value = (plan.values or [])[index].val
        allocation = value.allocation_info if isinstance(value, Tensor) else None
        if allocation is None or not 0 < allocation.memory_id < len(starts):
            places.append(None)
        else:
            places.append(starts[allocation.memory_id - 1] + allocation.memory_offset_low)
    return tuple(places)


def unwritten_bytes(plan: ExecutionPlan, memory: int | None = None) -> int:
    """Bytes at the end of a method's buffer of planned memory, the last one by default, that an inference need not
    write: kernels don't write all of the scratch memory that the largest window would need, and of two branches one is
    taken.
    """
    values = plan.values or []
    sizes = (plan.non_const_buffer_sizes or [])[: None if memory is None else memory + 1]
    calls = calls_of(plan)
    written = {*(plan.inputs or []), *(plan.outputs or [])}
    if not any(isinstance(call, JumpFalseCall) for call in calls):
        for call in calls:
            if not isinstance(call, KernelCall):
                written.update(getattr(call, "args", None) or [])
                continue
            is_own = (plan.operators or [])[call.op_index].name.partition("::")[0] in _WITH_SCRATCH
            written.update(index for index in call.args or [] if not (is_own and _is_bytes(values[index].val)))
    end = 0
    for index in written:
        tensor = values[index].val if index >= 0 else None
        if not isinstance(tensor, Tensor):
            continue
        place = tensor.allocation_info
        if place is not None and place.memory_id == len(sizes) - 1:
            nbytes = math.prod(tensor.sizes or []) * ELEMENT_SIZES[tensor.scalar_type.name]
            end = max(end, place.memory_offset_low + nbytes)
    return max(sizes[-1] - end, 0) if sizes else 0


# The namespaces of operators whose operands of bytes are scratch memory.
_WITH_SCRATCH = ("cortex_m", "torch_fusion")


def _is_bytes(value: Any) -> bool:
    return isinstance(value, Tensor) and value.scalar_type == ScalarType.BYTE


def constant_bytes(path: Path) -> int:
    """Bytes that a program's constants take in its file, their alignment included."""
    return sum(len(constant) for constant in load(path).constants())


def _member(enum: type[IntEnum], number: int) -> IntEnum:
    """Returns the member of an enumeration that a number stands for."""
    if enum is ScalarType and number in _COMPLEX:
        raise _ComplexDtype(_COMPLEX[number])
    return enum(number)


class _Reader:
    """Decodes tables of a flatbuffer (FlatBuffers documentation, "FlatBuffer Internals")."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def unpack(self, kind: str, position: int) -> Any:
        if position < 0:
            raise IndexError(f"position {position}")
        return struct.unpack_from("<" + kind, self.data, position)[0]

    def table(self, name: str, position: int) -> Any:
        vtable = position - self.unpack("i", position)
        vtable_size = self.unpack("H", vtable)
        cls, fields = TABLES[name]

        def address(slot: int) -> int | None:
            place = 4 + 2 * slot
            offset = self.unpack("H", vtable + place) if place + 2 <= vtable_size else 0
            return position + offset if offset else None

        values: dict[str, Any] = {}
        for field, slot, kind, is_vector, default in fields:
            place = address(slot)
            if kind in UNIONS and not is_vector:
                type_place = address(slot - 1)
                member = UNIONS[kind](self.unpack("B", type_place) if type_place is not None else 0)
                if place is None or member.value == 0:
                    values[field] = None
                else:
                    values[field] = self.table(member.name, self.target(place))
            elif place is None:
                values[field] = ENUMS[kind][0](default) if kind in ENUMS and default is not None else default
            elif is_vector:
                values[field] = self.vector(kind, self.target(place))
            else:
                values[field] = self.value(kind, place)
        return cls(**values)

    def address(self, table: str, field: str, position: int) -> int:
        """Returns the position of a field that a table has."""
        (slot,) = [slot for name, slot, *_ in TABLES[table][1] if name == field]
        return position + int(self.unpack("H", position - self.unpack("i", position) + 4 + 2 * slot))

    def target(self, place: int) -> int:
        return place + self.unpack("I", place)

    def value(self, kind: str, place: int) -> Any:
        if kind == "string":
            position = self.target(place)
            size = self.unpack("I", position)
            text = self.data[position + 4 : position + 4 + size]
            if len(text) != size:
                raise IndexError(f"string at {position}")
            return text.decode("utf-8")
        if kind in ENUMS:
            enum, underlying = ENUMS[kind]
            return _member(enum, self.unpack(underlying, place))
        if kind in TABLES:
            return self.table(kind, self.target(place))
        return self.unpack(kind, place)

    def vector(self, kind: str, position: int) -> Any:
        count = self.unpack("I", position)
        start = position + 4
        if kind == "B":
            if start + count > len(self.data):
                raise IndexError(f"vector at {position}")
            return self.data[start : start + count]
        if kind == "string" or kind in TABLES:
            if start + 4 * count > len(self.data):
                raise IndexError(f"vector at {position}")
            return [self.value(kind, start + 4 * i) for i in range(count)]
        if kind in ENUMS:
            enum, underlying = ENUMS[kind]
            return [_member(enum, item) for item in struct.unpack_from(f"<{count}{underlying}", self.data, start)]
        return list(struct.unpack_from(f"<{count}{kind}", self.data, start))
