"""Writes a program as a .pte file that is as small as ExecuTorch's schema (schema/program.fbs) allows.

ExecuTorch's own serializer writes every table anew. Here equal strings, vectors and tables are written once and shared,
which flatbuffers permit and every reader supports, and fields that only describe the Python side are omitted. The file
is in the device's flash.
"""

import struct
from collections.abc import Sequence
from typing import Any

import flatbuffers
from executorch.exir.schema import (
    Bool,
    BoolList,
    Double,
    DoubleList,
    ExecutionPlan,
    Int,
    IntList,
    Null,
    OptionalTensorList,
    Program,
    String,
    Tensor,
    TensorList,
)

# The alignment of constants in the file; kernels read them in place.
CONSTANT_ALIGNMENT = 16

# The index of a type in the union KernelTypes, counted from 1.
_KERNEL_TYPES = (
    Null, Int, Bool, Double, Tensor, String, IntList, DoubleList, BoolList, TensorList, OptionalTensorList,
)  # fmt: skip
# The index of KernelCall in the union InstructionArguments.
_KERNEL_CALL = 1

# The extended header between the file identifier and the flatbuffer: magic, own length, size of the program, offset and
# size of the segments.
_HEADER = struct.Struct("<4sIQQQ")
_HEADER_MAGIC = b"eh00"


def serialize(program: Program, constants: Sequence[bytes], states: Sequence[bytes] = ()) -> bytes:
    """Returns the .pte file of a program whose execution plans only have kernel calls.

    Args:
      program: the program; its constants are taken from `constants`.
      constants: the bytes of each constant, at the index that Tensor.data_buffer_idx names. Index 0 is reserved.
      states: the initial bytes of planned tensors, in the same way.
    """
    data, offsets = _segment(constants, CONSTANT_ALIGNMENT)
    # States need no alignment, because they are copied when the program is loaded.
    initial, initial_offsets = _segment(states, 1)
    flatbuffer = _Writer().program(program, offsets if data else [0], len(data), initial_offsets, len(initial))
    segment = data + initial
    if not segment:
        # Names of operators and delegates are behind all tables. Without any, something else has to be: the runtime
        # reads up to kUnstated bytes beyond a table (runtime/flatbuffer/flatbuffer.h).
        has_names = any(plan.operators or plan.delegates for plan in program.execution_plan)
        return flatbuffer if has_names else flatbuffer + bytes(8)
    header_size = _HEADER.size
    program_size = len(flatbuffer) + header_size
    base = -(-program_size // CONSTANT_ALIGNMENT) * CONSTANT_ALIGNMENT
    header = _HEADER.pack(_HEADER_MAGIC, header_size, program_size, base, len(segment))
    # The root offset is relative to the start of the file, every other offset to its own position.
    root = struct.unpack_from("<I", flatbuffer)[0] + header_size
    file = struct.pack("<I", root) + flatbuffer[4:8] + header + flatbuffer[8:]
    return file + bytes(base - program_size) + bytes(segment)


def _segment(items: Sequence[bytes], alignment: int) -> tuple[bytes, list[int]]:
    """Concatenates the items after the reserved one; returns the offset of each, and 0 for the reserved one."""
    segment = bytearray()
    offsets = [0]
    for item in items[1:]:
        segment.extend(bytes(-len(segment) % alignment))
        offsets.append(len(segment))
        segment.extend(item)
    return bytes(segment), offsets


class _Writer:
    """A flatbuffer builder that writes nothing twice."""

    def __init__(self) -> None:
        self._builder = flatbuffers.Builder(1024)
        self._written: dict[Any, int] = {}
        # The builder shares vtables, but before flatbuffers 25.12 also between tables of different sizes, which a
        # vtable contains. So there is a set of vtables for each size.
        self._vtables: dict[int, dict[Any, int]] = {}

    def program(
        self,
        program: Program,
        constant_offsets: list[int],
        segment_size: int,
        state_offsets: list[int],
        states_size: int,
    ) -> bytes:
        plans = self._offsets([self._plan(plan) for plan in program.execution_plan])
        sizes = [size for size in (segment_size, states_size) if size]
        segments = None
        if sizes:
            starts = [sum(sizes[:index]) for index in range(len(sizes))]
            tables = [
                self._table([("uint64", start), ("uint64", size)]) for start, size in zip(starts, sizes, strict=True)
            ]
            segments = self._offsets(tables)
        states = None
        if states_size:
            offsets = self._scalars("uint64", state_offsets)
            states = self._offsets([self._table([("uint32", len(sizes) - 1), ("offset", offsets)])])
        # ExecuTorch refuses a program without this table as one from before segments existed.
        constant_segment = self._table([("uint32", 0), ("offset", self._scalars("uint64", constant_offsets))])
        root = self._table(
            [
                ("uint32", program.version),
                ("offset", plans),
                None,
                None,
                ("offset", segments),
                ("offset", constant_segment),
                *([("offset", states)] if states else []),
            ]
        )
        self._builder.Finish(root, file_identifier=b"ET12")
        return bytes(self._builder.Output())

    def _plan(self, plan: ExecutionPlan) -> int:
        # The builder writes back to front: what is read first at load is closest to the root.
        operators = [
            self._table([("offset", self._string(op.name)), ("offset", self._string(op.overload))])
            for op in plan.operators
        ]
        instructions = []
        for instruction in plan.chains[0].instructions:
            call = instruction.instr_args
            arguments = self._scalars("int32", call.args)
            kernel_call = self._table([("int32", call.op_index), ("offset", arguments)])
            instructions.append(self._table([("uint8", _KERNEL_CALL), ("offset", kernel_call)]))
        chain = self._table([None, None, ("offset", self._offsets(instructions))])
        values = [
            self._table([("uint8", _KERNEL_TYPES.index(type(value.val)) + 1), ("offset", self._value(value.val))])
            for value in plan.values
        ]
        return self._table(
            [
                ("offset", self._string(plan.name)),
                None,
                ("offset", self._offsets(values)),
                ("offset", self._scalars("int32", plan.inputs)),
                ("offset", self._scalars("int32", plan.outputs)),
                ("offset", self._offsets([chain])),
                ("offset", self._offsets(operators)),
                # ExecuTorch refuses a plan without the list of delegates, even if it is empty.
                ("offset", self._offsets([])),
                ("offset", self._scalars("int64", plan.non_const_buffer_sizes)),
            ]
        )

    def _value(self, value: Any) -> int:
        if isinstance(value, Tensor):
            return self._tensor(value)
        if isinstance(value, Null):
            return self._table([])
        if isinstance(value, Int):
            return self._table([("int64", value.int_val)])
        if isinstance(value, Bool):
            return self._table([("bool", value.bool_val)])
        if isinstance(value, Double):
            return self._table([("float64", float(value.double_val))])
        if isinstance(value, String):
            return self._table([("offset", self._string(value.string_val))])
        kind = {IntList: "int64", DoubleList: "float64", BoolList: "bool"}.get(type(value), "int32")
        return self._table([("offset", self._scalars(kind, value.items))])

    def _tensor(self, tensor: Tensor) -> int:
        allocation = None
        if tensor.allocation_info is not None:
            place = tensor.allocation_info
            allocation = self._table(
                [("uint32", place.memory_id), ("uint32", place.memory_offset_low), ("uint32", place.memory_offset_high)]
            )
        return self._table(
            [
                ("int8", int(tensor.scalar_type)),
                ("int32", tensor.storage_offset),
                ("offset", self._scalars("int32", tensor.sizes)),
                ("offset", self._scalars("uint8", tensor.dim_order)),
                # requires_grad has no meaning on a device.
                None,
                ("uint32", tensor.data_buffer_idx),
                ("offset", allocation),
                ("int8", tensor.layout),
                ("int8", int(tensor.shape_dynamism)),
            ]
        )

    def _table(self, fields: Sequence[tuple[str, Any] | None]) -> int:
        """Writes a table with the fields in the schema's order; None and zero are the defaults and take no space."""
        key = ("table", *fields)
        if key not in self._written:
            builder = self._builder
            builder.StartObject(len(fields))
            # Writing large fields first keeps the padding small.
            for slot, entry in sorted(enumerate(fields), key=lambda item: -_WIDTHS[item[1][0]] if item[1] else 0):
                if entry is None or entry[1] is None:
                    continue
                kind, value = entry
                if kind == "offset":
                    builder.PrependUOffsetTRelativeSlot(slot, value, 0)
                else:
                    getattr(builder, f"Prepend{_NAMES[kind]}Slot")(slot, value, 0)
            size = -(-builder.Offset() // 4) * 4 - builder.objectEnd
            builder.vtables = self._vtables.setdefault(size, {})
            self._written[key] = builder.EndObject()
        return self._written[key]

    def _string(self, text: str) -> int:
        key = ("string", text)
        if key not in self._written:
            self._written[key] = self._builder.CreateString(text)
        return self._written[key]

    def _scalars(self, kind: str, items: Sequence[Any]) -> int:
        key = (kind, *items)
        if key not in self._written:
            width = _WIDTHS[kind]
            self._builder.StartVector(width, len(items), width)
            for item in reversed(items):
                getattr(self._builder, f"Prepend{_NAMES[kind]}")(item)
            self._written[key] = self._builder.EndVector()
        return self._written[key]

    def _offsets(self, items: Sequence[int]) -> int:
        self._builder.StartVector(4, len(items), 4)
        for item in reversed(items):
            self._builder.PrependUOffsetTRelative(item)
        return self._builder.EndVector()


_NAMES = {
    "bool": "Bool",
    "int8": "Int8",
    "uint8": "Uint8",
    "int32": "Int32",
    "uint32": "Uint32",
    "int64": "Int64",
    "uint64": "Uint64",
    "float64": "Float64",
}
_WIDTHS = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int32": 4,
    "uint32": 4,
    "offset": 4,
    "int64": 8,
    "uint64": 8,
    "float64": 8,
}
