"""Writes a program that is linked at build time in assembler, in the format of runtime/prelinked/prelinked.h."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tools.abi.layouts.layouts import (
    COUNT_BIT,
    DELEGATE,
    DELEGATE_BIT,
    DELEGATE_COUNT_BIT,
    DELEGATE_COUNTS_BIT,
    EVALUE_SIZE,
    IN_RAM,
    INSTRUCTION_KINDS,
    KERNEL_BIT,
    OFFSET_BITS,
    PRELINKED_MAGIC,
    PROGRAM_HEAD_SIZE,
    TAGS,
)
from tools.artifacts.kernel_table.kernel_table import Kernel
from tools.artifacts.program.program import ELEMENT_SIZES, ProgramFile, operator_name
from tools.pipeline.link.checks import check_method
from tools.pipeline.link.layout import MethodLayout, PrelinkError, elements, kind_of, tensor_problem

_CONSTANT_ALIGNMENT = 16


class _Table:
    """Assembler lines, with the number of their bytes."""

    def __init__(self, name: str, pointer: int) -> None:
        self.prefix = f".L{name}_"
        self.pointer = pointer
        self.lines: list[str] = []
        self.size = 0
        self._pool: dict[tuple[str, ...], str] = {}
        self._labels = 0

    def _put(self, line: str, size: int) -> None:
        self.lines.append(line)
        self.size += size

    def align(self, alignment: int) -> None:
        if self.size % alignment:
            self._put(f".balign {alignment}", -self.size % alignment)

    def label(self) -> str:
        """Defines a new label here."""
        self._labels += 1
        label = f"{self.prefix}{self._labels}"
        self.lines.append(f"{label}:")
        return label

    def words(self, *words: object) -> None:
        """Writes numbers, addresses, or expressions of these, of the size of a pointer."""
        if words:
            kind = ".word" if self.pointer == 4 else ".quad"
            self._put(f"{kind} {', '.join(map(str, words))}", self.pointer * len(words))

    def numbers(self, size: int, numbers: Sequence[int]) -> None:
        """Writes numbers of a size in bytes."""
        kind = {1: ".byte", 2: ".hword", 4: ".long", 8: ".quad"}[size]
        for i in range(0, len(numbers), 16):
            part = numbers[i : i + 16]
            self._put(f"{kind} {', '.join(str(number % 2 ** (8 * size)) for number in part)}", size * len(part))

    def part_of(self, path: Path, start: int, size: int) -> None:
        """Includes bytes of a file."""
        quoted = str(path).replace("\\", "\\\\").replace('"', '\\"')
        self._put(f'.incbin "{quoted}", {start}, {size}', size)

    def pooled(self, size: int, numbers: Sequence[int]) -> str:
        """Returns the address of an array of numbers, which is written once; 0 if it is empty."""
        if not numbers:
            return "0"
        key = (str(size), *map(str, numbers))
        if key not in self._pool:
            self.align(size)
            self._pool[key] = self.label()
            self.numbers(size, numbers)
        return self._pool[key]

    def text(self, text: str) -> str:
        """Returns the address of a C string, which is written once."""
        return self.pooled(1, [*text.encode(), 0])

    def once(self, key: tuple[str, ...]) -> str | None:
        """Returns the label that remember() recorded for a key."""
        return self._pool.get(key)

    def remember(self, key: tuple[str, ...], label: str) -> str:
        """Records a label for once(), and returns it."""
        self._pool[key] = label
        return label


def program_source(
    name: str, file: ProgramFile, layouts: Sequence[MethodLayout], kernels: Sequence[Kernel], pointer: int
) -> tuple[list[str], int]:
    """Returns the assembler lines of a program, and its size in bytes.

    The first line must follow the program's own label, `NAME_pte_data`, aligned to 16 bytes.

    Args:
      name: the program's name, a C identifier.
      file: the program; the assembler takes the constants from its .pte.
      layouts: the layouts of its methods, in the program's order.
      kernels: the image's kernel table.
      pointer: the bytes of a pointer on the core.

    Raises:
      PrelinkError: the program can't be linked at build time.
    """
    table = _Table(name, pointer)
    symbol = f"{name}_pte_data"
    table.numbers(1, list(PRELINKED_MAGIC))
    table.numbers(4, [len(layouts)])
    methods = f".L{name}_methods"
    table.words(symbol, methods)
    constants = _Constants(table, file)
    for layout in layouts:
        check_method(file, layout, {kernel.operator: kernel for kernel in kernels})
    names = [kernel.operator for kernel in kernels]
    rows = [_Method(table, constants, layout, names).row() for layout in layouts]
    table.align(pointer)
    table.lines.append(f"{methods}:")
    for row in rows:
        row()
    constants.place()
    while table.size < PROGRAM_HEAD_SIZE:
        table.numbers(4, [0])
    return table.lines, table.size


class _Constants:
    """The data of constant tensors, each once, after all tables: large ones determine the alignment of the whole."""

    def __init__(self, table: _Table, file: ProgramFile) -> None:
        self._table = table
        self.file = file
        self._constants = file.constants()
        self._sizes: dict[int, int] = {}
        # Delegates by (is a segment, index).
        self._delegates: dict[tuple[bool, int], tuple[str, int]] = {}

    def delegate(self, reference: Any) -> tuple[str, int]:
        """Returns the address of a delegate's payload, and its size in bytes."""
        key = (reference.location.name == "SEGMENT", reference.index)
        label = f"{self._table.prefix}delegate_{'segment' if key[0] else 'inline'}_{reference.index}"
        return self._delegates.setdefault(key, (label, len(self.file.delegate(reference))))

    def address(self, index: int, size: int) -> str:
        """Returns the address of the first `size` bytes of a constant of the program."""
        if not 0 < index < len(self._constants) or len(self._constants[index]) < size:
            raise PrelinkError(f"program {self.file.path} has no constant {index} of {size} bytes: it is corrupted")
        self._sizes[index] = max(self._sizes.get(index, 0), size)
        return f"{self._table.prefix}constant_{index}"

    def place(self) -> None:
        """Writes all constants whose addresses were requested."""
        for (is_segment, index), (label, size) in self._delegates.items():
            self._table.align(_CONSTANT_ALIGNMENT)
            self._table.lines.append(f"{label}:")
            if is_segment:
                start = self.file.segment_base_offset + self.file.program.segments[index].offset
                self._table.part_of(self.file.path, start, size)
            else:
                self._table.numbers(1, list(self.file.program.backend_delegate_data[index].data))
        segment = self.file.program.constant_segment
        offsets = list(segment.offsets or []) if segment is not None else []
        for index, size in sorted(self._sizes.items(), key=lambda item: (-min(item[1], _CONSTANT_ALIGNMENT), item[0])):
            alignment = 4
            while alignment < min(size, _CONSTANT_ALIGNMENT):
                alignment *= 2
            self._table.align(alignment)
            self._table.lines.append(f"{self._table.prefix}constant_{index}:")
            if len(offsets) > 1 and segment is not None:
                base = self.file.segment_base_offset + self.file.program.segments[segment.segment_index].offset
                self._table.part_of(self.file.path, base + offsets[index], size)
            else:
                self._table.numbers(1, list(self._constants[index][:size]))


class _Method:
    def __init__(self, table: _Table, constants: _Constants, layout: MethodLayout, kernels: Sequence[str]) -> None:
        self.table = table
        self.constants = constants
        self.layout = layout
        self.kernels = kernels
        self.path = constants.file.path
        self.values: list[Any] = layout.plan.values or []
        self.place = {index: i for i, index in enumerate(layout.in_ram)}

    def row(self) -> Any:
        """Writes the objects that the method refers to; returns a function that writes the method itself."""
        table, layout, plan = self.table, self.layout, self.layout.plan
        code, code_size = self.code()
        templates = [self.template(index) for index in layout.tensors]
        tensors = self.rows(4 if table.pointer == 4 else 8, [lambda t=t: self.tensor_words(*t) for t in templates])
        payloads = [self.payload(index) for index in layout.values]
        values = self.rows(8, [lambda p=p: self.value_words(*p) for p in payloads])
        lists = self.lists()
        interface = [self.place[i] for i in [*(plan.inputs or []), *(plan.outputs or [])]]
        inputs = table.pooled(2, interface)
        planned = list((plan.non_const_buffer_sizes or [])[1:])
        planned_sizes = table.pooled(4, planned)
        initial = self.initial_states()

        def state(address: str, *numbers: int) -> None:
            table.words(address)
            table.numbers(4, numbers)

        states = self.rows(table.pointer, [lambda s=s: state(*s) for s in initial])
        named = self.attributes()
        delegates = [self.delegate(entry) for entry in plan.delegates or []]
        attributes = self.rows(table.pointer, [lambda a=a: table.words(*a) for a in [*named, *delegates]])
        name = table.text(plan.name or "")

        def write() -> None:
            table.words(name, code, tensors, values, lists, inputs, planned_sizes, states, attributes)
            table.numbers(4, [code_size, len(layout.code), layout.shapes_size, layout.lists_size(table.pointer)])
            table.numbers(
                2,
                [
                    len(layout.tensors),
                    len(layout.values),
                    len(layout.lists),
                    len(plan.inputs or []),
                    len(plan.outputs or []),
                    len(planned),
                    len(initial),
                    len(named),
                ],
            )
            table.numbers(4, [layout.argument_count | len(delegates) << DELEGATE_COUNTS_BIT])
            table.align(table.pointer)

        return write

    def rows(self, alignment: int, writers: Sequence[Any]) -> str:
        """Returns the address of a table that the writers write; 0 if there are none."""
        if not writers:
            return "0"
        self.table.align(alignment)
        label = self.table.label()
        for write in writers:
            write()
        return label

    def reference(self, index: int) -> str:
        """Returns a reference to a value; -1 is a None."""
        if index in self.place:
            return str(EVALUE_SIZE * self.place[index] + IN_RAM)
        if index < 0:
            return self.flash_value("Null", "0")
        tag, payload = self.payload(index)
        return self.flash_value(tag, payload)

    def flash_value(self, tag: str, payload: str) -> str:
        key = ("value", tag, payload)
        known = self.table.once(key)
        if known is not None:
            return known
        self.table.align(8)
        label = self.table.label()
        self.value_words(tag, payload)
        return self.table.remember(key, label)

    def value_words(self, tag: str, payload: str) -> None:
        """Writes an EValue."""
        table = self.table
        if tag in ("Null", "Int", "Double", "Bool"):
            table.numbers(8, [int(payload)])
        else:
            table.words(payload)
            table.numbers(4, [0] * (2 - table.pointer // 4))
        table.numbers(4, [TAGS[tag][1], 0])

    def payload(self, index: int) -> tuple[str, str]:
        """Returns the schema's kind of a value outside of RAM, and its payload: an address, or bits as a number."""
        value = self.values[index]
        kind = kind_of(value)
        table = self.table
        if kind == "Null":
            return kind, "0"
        if kind == "Int":
            return kind, str(value.val.int_val)
        if kind == "Bool":
            return kind, str(int(value.val.bool_val))
        if kind == "Double":
            return kind, str(struct.unpack("<q", struct.pack("<d", value.val.double_val))[0])
        if kind == "Tensor":
            return kind, self.constant_tensor(index)
        if kind == "String":
            text = value.val.string_val or ""
            return kind, self.array(table.text(text), len(text.encode()))
        if kind == "BoolList":
            items = [int(item) for item in value.val.items or []]
            return kind, self.array(table.pooled(1, items), len(items))
        if kind == "DoubleList":
            bits = [struct.unpack("<q", struct.pack("<d", item))[0] for item in value.val.items or []]
            return kind, self.array(table.pooled(8, bits), len(bits))
        if kind == "IntList":
            items = [self.values[item].val.int_val for item in elements(value)]
            # PrelinkedIntList
            return kind, self.struct("ints", "0", str(len(items)), table.pooled(8, items))
        raise PrelinkError(f"program {self.path}: value {index} is of the unknown kind {kind}")

    def struct(self, key: str, *words: str) -> str:
        """Returns the address of some words, which are written once."""
        known = self.table.once((key, *words))
        if known is not None:
            return known
        self.table.align(self.table.pointer)
        label = self.table.label()
        self.table.words(*words)
        return self.table.remember((key, *words), label)

    def array(self, data: str, size: int) -> str:
        """Returns the address of an ArrayRef."""
        return self.struct("array", data, str(size))

    def shape(self, index: int) -> tuple[str, str, str, int, int]:
        """Returns the addresses of sizes, dim order and strides of a tensor, and its numbers of dimensions and of
        elements.
        """
        tensor = self.values[index].val
        sizes = list(tensor.sizes or [])
        order = list(tensor.dim_order or b"")
        if len(order) != len(sizes) or sorted(order) != list(range(len(sizes))) or any(size < 0 for size in sizes):
            raise PrelinkError(f"program {self.path}: the shape of tensor {index} is corrupted")
        strides = [1] * len(sizes)
        numel = 1
        step = 1
        for dim in reversed(order):
            strides[dim] = step
            # As in dim_order_to_stride_nocheck() of ExecuTorch's dim_order_util.h.
            step *= sizes[dim] or 1
            numel *= sizes[dim]
        if step * self.element_size(index) >= 2**31:
            raise PrelinkError(f"program {self.path}: tensor {index} is larger than the address space")
        table = self.table
        return (table.pooled(4, sizes), table.pooled(1, order), table.pooled(4, strides), len(sizes), numel)

    def element_size(self, index: int) -> int:
        dtype = self.values[index].val.scalar_type.name
        if dtype not in ELEMENT_SIZES:
            raise PrelinkError(f"program {self.path}: tensor {index} has dtype {dtype}, which is not supported")
        return ELEMENT_SIZES[dtype]

    def tensor_words(self, data: str, index: int, shape: tuple[str, str, str, int, int]) -> None:
        """Writes a TensorImpl."""
        sizes, order, strides, dim, numel = shape
        tensor = self.values[index].val
        self.table.words(sizes, order, strides, data, dim, numel, numel)
        self.table.numbers(1, [int(tensor.scalar_type), int(tensor.shape_dynamism), 0, 0])
        self.table.align(self.table.pointer)

    def check(self, index: int) -> None:
        """Refuses the tensors that the loader of .pte files refuses."""
        problem = tensor_problem(self.values[index].val)
        if problem:
            raise PrelinkError(f"program {self.path}: tensor {index} {problem}")

    def constant_tensor(self, index: int) -> str:
        """Returns the address of the TensorImpl of a constant."""
        key = ("tensor", str(index), str(id(self.layout)))
        known = self.table.once(key)
        if known is not None:
            return known
        self.check(index)
        shape = self.shape(index)
        data = self.constants.address(self.values[index].val.data_buffer_idx, shape[4] * self.element_size(index))
        self.table.align(self.table.pointer)
        label = self.table.label()
        self.tensor_words(data, index, shape)
        return self.table.remember(key, label)

    def template(self, index: int) -> tuple[str, int, tuple[str, str, str, int, int]]:
        """Returns address, index and shape of a tensor in RAM."""
        self.check(index)
        allocation = self.values[index].val.allocation_info
        if allocation is None:
            return "0", index, self.shape(index)
        offset = allocation.memory_offset_low | allocation.memory_offset_high << 32
        if offset >= 1 << OFFSET_BITS or not 0 < allocation.memory_id < 256:
            raise PrelinkError(
                f"program {self.path}: tensor {index} is at byte {offset} of memory {allocation.memory_id}; images "
                f"have at most 255 memories of {1 << OFFSET_BITS} bytes each"
            )
        shape = self.shape(index)
        planned = list((self.layout.plan.non_const_buffer_sizes or [])[1:])
        end = offset + shape[4] * self.element_size(index)
        if allocation.memory_id > len(planned) or end > planned[allocation.memory_id - 1]:
            raise PrelinkError(f"program {self.path}: tensor {index} lies outside its planned memory")
        return f"0x{allocation.memory_id << OFFSET_BITS | offset:x}", index, shape

    def lists(self) -> str:
        rows = []
        for index in self.layout.lists:
            references = [self.reference(item) for item in elements(self.values[index])]
            items = self.struct(f"list {len(references)}", *references) if references else "0"
            rows.append((items, len(references), TAGS[kind_of(self.values[index])][1]))
        table = self.table

        def write(row: tuple[str, int, int]) -> None:
            table.words(row[0])
            table.numbers(2, row[1:])
            table.align(table.pointer)

        return self.rows(table.pointer, [lambda r=r: write(r) for r in rows])

    def initial_states(self) -> list[tuple[str, int, int]]:
        """Returns the addresses, bytes and value indices of the initial contents of planned tensors."""
        result = []
        for index in self.layout.tensors:
            tensor = self.values[index].val
            if tensor.data_buffer_idx == 0:
                continue
            info = tensor.extra_tensor_info
            segment = info.mutable_data_segments_idx if info is not None else 0
            size = self.shape(index)[4] * self.element_size(index)
            result.append((self.state(segment, tensor.data_buffer_idx, size), size, self.place[index]))
        return result

    def state(self, segment: int, index: int, size: int) -> str:
        file = self.constants.file
        segments = file.program.mutable_data_segments or []
        if segment >= len(segments) or index >= len(segments[segment].offsets or []):
            raise PrelinkError(f"program {self.path} has no initial state {index}: it is corrupted")
        start = segments[segment].offsets[index]
        data = file.segment(segments[segment].segment_index)[start : start + size]
        if len(data) != size:
            raise PrelinkError(f"program {self.path}: initial state {index} lies outside its segment")
        self.table.align(4)
        return self.table.pooled(1, list(data))

    def attributes(self) -> list[tuple[str, str]]:
        """Returns the address of the name, and a reference, of each tensor that has a name."""
        result = []
        for index in [*self.layout.tensors, *self.layout.constants]:
            value = self.values[index]
            info = value.val.extra_tensor_info if kind_of(value) == "Tensor" else None
            if info is not None and info.fully_qualified_name:
                result.append((self.table.text(info.fully_qualified_name), self.reference(index)))
        return result

    def delegate(self, entry: Any) -> tuple[object, ...]:
        """Returns the words of a delegate."""
        table = self.table
        data, size = self.constants.delegate(entry.processed)
        specs = entry.compile_specs or []
        words = [
            word
            for spec in specs
            for word in (table.text(spec.key or ""), table.pooled(1, list(spec.value or b"")), len(spec.value or b""))
        ]
        return (
            table.text(entry.id or ""),
            data,
            size,
            self.struct("specs", *map(str, words)) if words else "0",
            len(specs),
        )

    def code(self) -> tuple[str, int]:
        """Returns the address and the words of the instructions."""
        starts = [0]
        for instruction in self.layout.code:
            starts.append(starts[-1] + 1 + len(instruction.values) + (instruction.kind == "JumpFalseCall"))
        words: list[list[str]] = []
        operators = self.layout.plan.operators or []
        for instruction in self.layout.code:
            head = DELEGATE if instruction.kind == "DelegateCall" else INSTRUCTION_KINDS[instruction.kind][1]
            if instruction.kind == "DelegateCall":
                head |= len(instruction.values) << DELEGATE_COUNT_BIT | instruction.operator << DELEGATE_BIT
            elif instruction.kind == "KernelCall":
                operator = operators[instruction.operator]
                name = operator_name(operator.name, operator.overload)
                head |= len(instruction.values) << COUNT_BIT | self.kernels.index(name) << KERNEL_BIT
            line = [str(head), *map(self.reference, instruction.values)]
            if instruction.kind == "JumpFalseCall":
                line.append(str(starts[instruction.destination]))
            words.append(line)
        if not words:
            return "0", 0
        self.table.align(self.table.pointer)
        label = self.table.label()
        for line in words:
            self.table.words(*line)
        return label, starts[-1]
