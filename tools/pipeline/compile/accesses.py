"""Follows the bytes of a method's tensors from the instructions that write them to those that read them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tools.pipeline.compile.layout import NEXT_ROWS, elements, is_constant, kind_of
from tools.pipeline.compile.program import VIEW, Method
from tools.pipeline.registry.catalog import read_catalog

# Operators in these namespaces take their scratch memory as tensors of bytes.
_WITH_SCRATCH = ("cortex_m::", "torch_fusion::")
# Larger arenas than these of microcontrollers, in bytes, are no work for what follows each byte.
_LARGEST = 1 << 28
# The instruction before the first one, which writes the inputs.
BEFORE = -1


@dataclass
class Contents:
    """The elements that an instruction writes to a tensor.

    Attributes:
        tensor: the index of the tensor.
        start, stop: the bytes in the arena.
        writer: the instruction; BEFORE for an input.
        is_scratch: whether only that instruction uses it.
        is_output: whether the caller reads it.
        readers: the instructions that read it, and for each one whether it reads all of it, and nothing else, with one
          argument.
    """

    tensor: int
    start: int
    stop: int
    writer: int
    is_scratch: bool = False
    is_output: bool = False
    readers: dict[int, bool] = field(default_factory=dict)

    @property
    def last(self) -> int:
        return max(self.readers, default=self.writer)


@dataclass
class Accesses:
    """The contents of a method's tensors, and where they are used.

    Attributes:
        contents: all of them, in the order of writing.
        reads: for each instruction, by tensor, the contents that it reads.
        writes: the same of what it writes.
        outputs: the contents of the method's outputs.
        joined: pairs of contents that one tensor consists of.
        results: for each instruction, the positions of the arguments that it writes.
        in_place: for each instruction, pairs of contents: an operand and a result that overlap.
    """

    contents: list[Contents] = field(default_factory=list)
    reads: list[dict[int, list[int]]] = field(default_factory=list)
    writes: list[dict[int, int]] = field(default_factory=list)
    results: list[tuple[int, ...]] = field(default_factory=list)
    outputs: dict[int, list[int]] = field(default_factory=dict)
    joined: list[tuple[int, int]] = field(default_factory=list)
    in_place: dict[int, list[tuple[int, int]]] = field(default_factory=dict)

    def is_whole(self, method: Method, content: int, index: int) -> bool:
        """Whether a content is all of a tensor."""
        contents, offset = self.contents[content], method.offsets[index]
        return (contents.start, contents.stop) == (offset, offset + method.shapes[index].nbytes)


def accesses_of(method: Method) -> Accesses | None:
    """Returns the accesses of a method that consists of calls of this project's operators with tensors of static shape
    in one block of memory, and keeps no state; None for any other method.
    """
    kernels = read_catalog()
    code = method.layout.code
    is_straight = bool(code) and all(instruction.kind in ("KernelCall", NEXT_ROWS) for instruction in code)
    if method.kept or method.values or len(method.planned) != 1 or not is_straight or method.arena_size > _LARGEST:
        return None
    names = [method.operator(instruction) for instruction in code]
    if VIEW in names or not all(name == NEXT_ROWS or name in kernels and name.endswith("out") for name in names):
        return None
    found = Accesses()
    owner = np.full(method.arena_size, -1)

    def place(index: int) -> slice:
        return slice(method.offsets[index], method.offsets[index] + method.shapes[index].nbytes)

    def write(index: int, writer: int, is_scratch: bool = False) -> int:
        where = place(index)
        found.contents.append(Contents(index, where.start, where.stop, writer, is_scratch))
        owner[where] = len(found.contents) - 1
        return len(found.contents) - 1

    def read(index: int) -> list[int] | None:
        where = place(index)
        there = [int(each) for each in np.unique(owner[where])]
        found.joined += zip(there, there[1:], strict=False)
        return None if -1 in there else there

    for index in method.plan.inputs or []:
        if index in method.offsets and not method.is_streamed:
            write(index, BEFORE)
    for number, (instruction, name) in enumerate(zip(code, names, strict=True)):
        reads: dict[int, list[int]] = {}
        writes: dict[int, int] = {}
        written: list[tuple[int, bool]] = []
        found.results.append(name != NEXT_ROWS and kernels[name].writes or (len(instruction.values) - 1,))
        for position, value in enumerate(instruction.values):
            for index in _tensors(method, value):
                is_result = position in found.results[-1]
                is_scratch = method.shapes[index].dtype == "BYTE" and name.startswith(_WITH_SCRATCH)
                if is_result or is_scratch:
                    written.append((index, is_scratch))
                    continue
                there = read(index)
                if there is None:
                    return None
                for each in there:
                    contents = found.contents[each]
                    is_whole = slice(contents.start, contents.stop) == place(index) and len(there) == 1
                    contents.readers[number] = is_whole and number not in contents.readers
                reads[index] = there
        for index, is_scratch in written:
            before = [each for there in reads.values() for each in there]
            where = place(index)
            writes[index] = write(index, number, is_scratch)
            found.in_place.setdefault(number, []).extend(
                (each, writes[index])
                for each in before
                if found.contents[each].start < where.stop and where.start < found.contents[each].stop
            )
        found.reads.append(reads)
        found.writes.append(writes)
    for index in method.plan.outputs or []:
        if index not in method.offsets:
            continue
        there = read(index)
        if there is None:
            return None
        found.outputs[index] = there
        for each in there:
            found.contents[each].is_output = True
    return found


def _tensors(method: Method, value: int) -> list[int]:
    """Returns the tensors in memory that an argument has."""
    kind = kind_of(method.value(value)) if value >= 0 else "Null"
    items = elements(method.value(value)) if kind in ("TensorList", "OptionalTensorList") else [value]
    return [
        index
        for index in items
        if index >= 0 and kind_of(method.value(index)) == "Tensor" and not is_constant(method.value(index))
    ]
