"""Optimizes an emitted execution plan whose shapes are all static.

ExecuTorch's plan has one instruction per operator and memory for every tensor. The passes remove operators that only
reinterpret memory, let results reuse the memory of operands that are no longer needed, and plan the memory of the rest.
They work on the plan rather than torch's graph, because only the plan tells which values share memory.
"""

from __future__ import annotations

import bisect
import copy
import dataclasses
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch
from executorch.exir.schema import (
    AllocationDetails,
    EValue,
    ExecutionPlan,
    Instruction,
    IntList,
    Null,
    OptionalTensorList,
    Tensor,
    TensorList,
)

from tools.pipeline.export.ir.scalar_types import itemsize
from tools.pipeline.placement.placement import Buffer, Lead, MemoryPlan, Overlap, plan_memory

# Key in a node's meta: the Lead of its result over its first operand, if the operator allows them to overlap.
LEAD = "lead"

# Operators that move data without changing it. If the data already has the right order in memory, the result is an
# alias.
_DATA_MOVEMENT = {
    ("aten::_reshape_copy", "out"),
    ("aten::alias_copy", "out"),
    ("aten::clone", "out"),
    ("aten::detach_copy", "out"),
    ("aten::expand_copy", "out"),
    ("aten::lift_fresh_copy", "out"),
    ("aten::permute_copy", "out"),
    ("aten::repeat", "out"),
    ("aten::select_copy", "int_out"),
    ("aten::slice_copy", "Tensor_out"),
    ("aten::split_copy", "Tensor_out"),
    ("aten::split_with_sizes_copy", "out"),
    ("aten::squeeze_copy", "dim_out"),
    ("aten::squeeze_copy", "dims_out"),
    ("aten::squeeze_copy", "out"),
    ("aten::t_copy", "out"),
    ("aten::transpose_copy", "int_out"),
    ("aten::unbind_copy", "int_out"),
    ("aten::unsqueeze_copy", "out"),
    ("aten::view_copy", "out"),
    ("dim_order_ops::_clone_dim_order", "out"),
    ("dim_order_ops::_to_dim_order_copy", "out"),
}

# Operators whose result at an index only depends on the operands at that index, so that a kernel may overwrite an
# operand of the result's shape.
_ELEMENTWISE = {
    "aten::abs",
    "aten::add",
    "aten::clamp",
    "aten::div",
    "aten::elu",
    "aten::exp",
    "aten::gelu",
    "aten::hardsigmoid",
    "aten::hardswish",
    "aten::hardtanh",
    "aten::leaky_relu",
    "aten::log",
    "aten::maximum",
    "aten::minimum",
    "aten::mish",
    "aten::mul",
    "aten::neg",
    "aten::reciprocal",
    "aten::relu",
    "aten::rsqrt",
    "aten::rsub",
    "aten::sigmoid",
    "aten::silu",
    "aten::softplus",
    "aten::sqrt",
    "aten::sub",
    "aten::tanh",
    "aten::threshold",
    "cortex_m::maximum",
    "cortex_m::minimum",
    "cortex_m::quantized_activation",
    "cortex_m::quantized_add",
    "cortex_m::quantized_mul",
    "torch_fusion::quantized_prelu",
}

_CONCATENATION = ("aten::cat", "out")


@dataclass
class PlanReport:
    """The result of the passes.

    Attributes:
      kept: the indices of the remaining instructions in the original plan.
      memory: the memory plan.
    """

    kept: list[int]
    memory: MemoryPlan


def optimize_plan(plan: ExecutionPlan, leads: Mapping[int, Lead] | None = None) -> PlanReport:
    """Removes aliases, shares memory, plans it anew and drops unused values, in place.

    The plan must have one chain of kernel calls with static shapes. Its results don't change.

    Args:
      leads: maps indices of instructions that may write their result over their first operand to their leads.
    """
    # Computing the operands of a concatenation in place saves the copy, but keeps the whole result live from its first
    # operand on, and one way of sharing memory can prevent another: the smallest plan wins.
    layouts = [_Layout(copy.deepcopy(plan), passes, leads or {}) for passes in _PASSES]
    layout = min(layouts, key=lambda candidate: (candidate.memory.nbytes, len(candidate.kept)))
    layout.check()
    plan.values, plan.chains = layout.plan.values, layout.plan.chains
    layout.assign(plan)
    _drop_values(plan)
    drop_operators(plan)
    return PlanReport(layout.kept, layout.memory)


def constant_only_instructions(plan: ExecutionPlan) -> list[int]:
    """Returns the indices of instructions that only read constants, or nothing, which the export should have computed.

    Instructions that write an output of the program are excluded: they produce a constant output.
    """
    found = []
    for index, instruction in enumerate(plan.chains[0].instructions):
        reads, writes = reads_and_writes(plan, instruction)
        if set(writes) & set(plan.outputs):
            continue
        if all(is_constant(plan.values[read].val) for read in reads) and not is_random(plan, instruction):
            found.append(index)
    return found


def _schema_of(plan: ExecutionPlan, instruction: Instruction) -> torch.FunctionSchema:
    """Returns the torch schema of the operator that the instruction calls."""
    operator = plan.operators[instruction.instr_args.op_index]
    namespace, name = operator.name.split("::")
    return getattr(getattr(getattr(torch.ops, namespace), name), operator.overload or "default")._schema


@dataclass
class Region:
    """The memory of a tensor: `nbytes` from `offset` on, in a storage named after one of its tensors."""

    storage: int
    offset: int
    nbytes: int

    def overlaps(self, other: Region) -> bool:
        return (
            self.storage == other.storage
            and self.offset < other.offset + other.nbytes
            and other.offset < self.offset + self.nbytes
        )


@dataclass
class _Accesses:
    """The instructions that access a value."""

    reads: list[int] = field(default_factory=list)
    writes: list[int] = field(default_factory=list)

    @property
    def first(self) -> int:
        return min(self.reads + self.writes)

    @property
    def last(self) -> int:
        return max(self.reads + self.writes)


class _Layout:
    """Assigns a region to every planned tensor, and an offset to every storage."""

    def __init__(
        self, plan: ExecutionPlan, passes: Sequence[Callable[[_Layout], None]], leads: Mapping[int, Lead]
    ) -> None:
        self.plan = plan
        self.leads = leads
        self.instructions: dict[int, Instruction] = dict(enumerate(plan.chains[0].instructions))
        self.end = len(self.instructions)
        self.touched = {index: reads_and_writes(plan, call) for index, call in self.instructions.items()}
        self.inputs = set(plan.inputs)
        self.outputs = set(plan.outputs)
        self.moved: dict[int, dict[int, list[_Part]]] = {}
        self.regions: dict[int, Region] = {}
        for index, value in enumerate(plan.values):
            if isinstance(value.val, Tensor) and value.val.allocation_info is not None:
                self.regions[index] = Region(index, 0, nbytes_of(value.val))
        self.sizes = {index: region.nbytes for index, region in self.regions.items()}
        self._note_scratch()
        self._accessed: dict[int, _Accesses] = {}
        # Storages that exist before the first instruction or are written from outside: state of the model and inputs.
        accesses = self._accesses()
        self.state = {
            index
            for index, access in accesses.items()
            if index in self.regions and index not in self.inputs and access.first in access.reads
        }
        self.written_inputs = {index for index in self.inputs if index in accesses and accesses[index].writes}

        for run in passes:
            run(self)
        self.kept = sorted(self.instructions)
        lasting = self._accesses().keys() | self.inputs | self.outputs
        self.storages = sorted({region.storage for index, region in self.regions.items() if index in lasting})
        self.overlaps = self._overlaps()
        self.buffers = self._buffers()
        self.memory = plan_memory(self.buffers, self.overlaps)

    def check(self) -> None:
        """Follows every byte through the plan; raises AssertionError if an instruction would read a wrong one.

        The planned memory is compared with one in which every value has its own; both hold names of bytes instead of
        data.
        """
        offsets = dict(zip(self.storages, self.memory.offsets, strict=True))
        memory = numpy.full(self.memory.nbytes, -1, dtype=numpy.int64)
        own: dict[int, numpy.ndarray] = {}
        names = itertools.count(step=max(self.sizes.values(), default=0))

        def place(value: int) -> slice:
            region = self.regions[value]
            start = offsets[region.storage] + region.offset
            return slice(start, start + region.nbytes)

        def write(value: int) -> None:
            own[value] = next(names) + numpy.arange(self.regions[value].nbytes)
            memory[place(value)] = own[value]

        def read(value: int, reader: object) -> None:
            assert numpy.array_equal(memory[place(value)], own[value]), f"{reader} finds value {value} overwritten"

        for value in sorted((self.inputs & self.regions.keys()) | self.state):
            write(value)
        for index, (reads, writes) in self.touched.items():
            if index in self.instructions:
                for value in reads:
                    if value in self.regions:
                        read(value, self._name(self.instructions[index]))
                        for result in writes:
                            self._check_overlap(index, value, place(value), result, place(result))
                for value in writes:
                    write(value)
                continue
            for value, parts in self.moved[index].items():
                own[value] = numpy.full(self.regions[value].nbytes, -1, dtype=numpy.int64)
                for part in parts:
                    moved = own[part.operand][part.source : part.source + part.nbytes]
                    own[value][part.target : part.target + part.nbytes] = moved
        for value in sorted((self.outputs & self.regions.keys()) | self.state):
            read(value, "the caller")

    def _check_overlap(self, index: int, operand: int, read: slice, result: int, written: slice) -> None:
        """Asserts that an instruction only overwrites its operand in permitted ways."""
        if max(read.start, written.start) >= min(read.stop, written.stop):
            return
        name = self._name(self.instructions[index])
        reads, writes = self.touched[index]
        in_place = (name[0] in _ELEMENTWISE and read == written) or operand in writes
        is_led = index in self.leads and (operand, result) == (reads[0], writes[0])
        assert in_place or (is_led and self.leads[index].allows(read.start - written.start)), (
            f"{name} finds value {operand} overwritten by its result"
        )

    def assign(self, plan: ExecutionPlan) -> None:
        """Writes the result into the plan."""
        plan.chains[0].instructions = [self.instructions[index] for index in self.kept]
        offsets = dict(zip(self.storages, self.memory.offsets, strict=True))
        for index, region in self.regions.items():
            if region.storage not in offsets:
                continue
            offset = offsets[region.storage] + region.offset
            plan.values[index].val.allocation_info = AllocationDetails(1, offset & 0xFFFFFFFF, offset >> 32)
        # Buffer 0 is reserved for the constants.
        plan.non_const_buffer_sizes = [0, self.memory.nbytes]

    def alias(self) -> None:
        """Drops instructions whose results are already in memory."""
        for index, instruction in list(self.instructions.items()):
            if self._name(instruction) not in _DATA_MOVEMENT or index not in self.instructions:
                continue
            reads, writes = self.touched[index]
            if len(reads) != 1 or reads[0] not in self.regions:
                continue
            moved = _moved(self.plan, instruction, reads, writes) if self._may_alias(reads[0], writes) else None
            if moved is None:
                self._alias_pair(index)
                continue
            base = self.regions[reads[0]]
            for write, parts in moved.items():
                self._move(write, base.storage, base.offset + parts[0].source)
            self._remove(index, moved)

    def _alias_pair(self, index: int) -> None:
        """Drops an instruction and the only reader of its result if together they move no data.

        An example is an image that is copied to channels-last order and then transposed, or the reverse.
        """
        (operand, *_), results = self.touched[index]
        readers = [other for other, (reads, _) in self.touched.items() if not set(results).isdisjoint(reads)]
        if len(results) != 1 or len(readers) != 1 or not self.outputs.isdisjoint(results):
            return
        reader = self.instructions.get(readers[0])
        reads, writes = self.touched[readers[0]]
        if reader is None or self._name(reader) not in _DATA_MOVEMENT or reads != results or len(writes) != 1:
            return
        values = [self.plan.values[value].val for value in (operand, *results, *writes)]
        if not self._may_alias(operand, writes) or len({value.scalar_type for value in values}) != 1:
            return
        (between,) = _run(self.plan, self.instructions[index], {operand: _positions(values[0], 0)})
        (result,) = _run(self.plan, reader, {results[0]: between})
        if list(between.shape) != values[1].sizes or list(result.shape) != values[2].sizes:
            return
        positions = result.permute(values[2].dim_order).reshape(-1)
        if not torch.equal(positions, torch.arange(math.prod(values[0].sizes))):
            return
        base = self.regions[operand]
        self._move(writes[0], base.storage, base.offset)
        self._remove(index, {results[0]: []})
        self._remove(readers[0], {writes[0]: [_Part(operand, 0, 0, base.nbytes)]})

    def _may_alias(self, base: int, results: list[int]) -> bool:
        storage = self.regions[base].storage
        if storage in self.state or storage in self.written_inputs:
            return False
        if self.outputs.isdisjoint(results):
            return True
        # An output in the memory of an input or of another output would change when the caller writes that one.
        return storage not in self.inputs and not any(
            self.regions[output].storage == storage for output in self.outputs if output in self.regions
        )

    def reuse_operands(self) -> None:
        """Lets elementwise results reuse the memory of an operand that is not needed afterwards."""
        accesses = self._accesses()
        for index, instruction in self.instructions.items():
            if self._name(instruction)[0] not in _ELEMENTWISE:
                continue
            reads, writes = self.touched[index]
            if len(writes) != 1 or not self._fills_storage(writes[0]):
                continue
            for operand in reads:
                if self._may_overwrite(index, operand, accesses):
                    region = self.regions[operand]
                    self._move(writes[0], region.storage, region.offset)
                    break

    def _may_overwrite(self, index: int, operand: int, accesses: dict[int, _Accesses]) -> bool:
        operands, (result,) = self.touched[index]
        region = self.regions.get(operand)
        if region is None or region.storage == self.regions[result].storage:
            return False
        if region.storage in self.state or (region.storage in self.inputs and result in self.outputs):
            return False
        if not _same_layout(self.plan.values[operand].val, self.plan.values[result].val):
            return False
        for other, other_region in self.regions.items():
            if not other_region.overlaps(region):
                continue
            if other in self.outputs or (other in accesses and accesses[other].last > index):
                return False
            # Another view of the same bytes may be read at another index than it is written.
            same = other_region == region and _same_layout(self.plan.values[other].val, self.plan.values[operand].val)
            if other in operands and not same:
                return False
        return True

    def join_parts(self) -> None:
        """Drops concatenations along the outermost dimension in memory by computing the operands in place."""
        for index, instruction in list(self.instructions.items()):
            if self._name(instruction) != _CONCATENATION:
                continue
            reads, writes = self.touched[index]
            result = self.regions.get(writes[0])
            if result is None or len(set(reads)) != len(reads):
                continue
            accesses = self._accesses()
            if any(accesses[other].first < index for other in self._members(result.storage)):
                continue
            # A later write to the result must not hit an operand that is still read.
            end = min(
                (write for other in self._members(result.storage) for write in accesses[other].writes if write > index),
                default=self.end,
            )
            if not all(self._is_movable_part(read, index, end, accesses) for read in reads):
                continue
            if len({self.regions[read].storage for read in reads}) != len(reads):
                continue
            moved = _moved(self.plan, instruction, reads, writes)
            if moved is None:
                continue
            for part in moved[writes[0]]:
                self._move(part.operand, result.storage, result.offset + part.target)
            self._remove(index, moved)

    def _is_movable_part(self, value: int, index: int, end: int, accesses: dict[int, _Accesses]) -> bool:
        """Whether the value fills a storage of its own, written before `index` and not accessed from `end` on."""
        if not self._fills_storage(value):
            return False
        storage = self.regions[value].storage
        members = self._members(storage)
        return (
            storage not in self.state
            and storage not in self.inputs
            and self.outputs.isdisjoint(members)
            and all(max(accesses[member].writes, default=-1) < index for member in members)
            and all(accesses[member].last < end for member in members)
        )

    def _fills_storage(self, value: int) -> bool:
        region = self.regions.get(value)
        return region is not None and region.offset == 0 and region.nbytes == self.sizes[region.storage]

    def _members(self, storage: int) -> list[int]:
        """Returns the values of a storage that instructions access."""
        touched = self._accesses()
        return [index for index, region in self.regions.items() if region.storage == storage and index in touched]

    def _remove(self, index: int, moved: dict[int, list[_Part]]) -> None:
        self.moved[index] = moved
        del self.instructions[index]
        self._accessed = {}

    def _move(self, value: int, storage: int, offset: int) -> None:
        """Moves the storage of `value` into another storage."""
        old_storage, distance = self.regions[value].storage, offset - self.regions[value].offset
        for region in self.regions.values():
            if region.storage == old_storage:
                region.storage, region.offset = storage, region.offset + distance

    def _note_scratch(self) -> None:
        """Makes scratch memory, which is never written by an instruction, a result of the instruction that takes it."""
        written = {value for _, writes in self.touched.values() for value in writes}
        for reads, writes in self.touched.values():
            for value in set(reads) & self.regions.keys() - written - self.inputs:
                if self.plan.values[value].val.data_buffer_idx == 0:
                    reads.remove(value)
                    writes.append(value)

    def _overlaps(self) -> list[Overlap]:
        """Lists the results that may overlap the first operand of their instruction."""
        accesses = self._accesses()
        overlaps = []
        for index, lead in self.leads.items():
            if index not in self.instructions:
                continue
            (operand, *others), (result, *_) = self.touched[index]
            to, source = self.regions.get(result), self.regions.get(operand)
            if to is None or source is None or to.storage == source.storage:
                continue
            before, after = self._members(source.storage), self._members(to.storage)
            if (
                {source.storage, to.storage} & self.state
                or self.outputs & set(before)
                or self.inputs & set(after)
                # The caller may run the program again without setting its inputs anew.
                or (self.inputs & set(before) and self.outputs & set(after))
                or any(accesses[member].last > index for member in before)
                or any(accesses[member].first < index for member in after)
                or any(other in before for other in others)
            ):
                continue
            overlaps.append(
                Overlap(
                    self.storages.index(to.storage),
                    self.storages.index(source.storage),
                    lead.moved(to.offset - source.offset),
                )
            )
        return overlaps

    def _buffers(self) -> list[Buffer]:
        accesses = self._accesses()
        buffers = []
        for storage in self.storages:
            members = [index for index, region in self.regions.items() if region.storage == storage]
            touched = [accesses[index] for index in members if index in accesses]
            first = min((access.first for access in touched), default=0)
            last = max((access.last for access in touched), default=first)
            if self.inputs & set(members):
                first = -1
            if self.outputs & set(members):
                last = self.end
            if storage in self.state:
                first, last = -1, self.end
            alignment = max(4, *(itemsize(self.plan.values[index].val.scalar_type) for index in members))
            buffers.append(Buffer(self.sizes[storage], alignment, first, last))
        return buffers

    def _accesses(self) -> dict[int, _Accesses]:
        """Returns the instructions that access each value; callers change nothing in it."""
        if not self._accessed:
            for index in self.instructions:
                reads, writes = self.touched[index]
                for read in reads:
                    self._accessed.setdefault(read, _Accesses()).reads.append(index)
                for write in writes:
                    self._accessed.setdefault(write, _Accesses()).writes.append(index)
        return self._accessed

    def _name(self, instruction: Instruction) -> tuple[str, str]:
        operator = self.plan.operators[instruction.instr_args.op_index]
        return operator.name, operator.overload


_PASSES = (
    (_Layout.alias, _Layout.join_parts, _Layout.reuse_operands),
    (_Layout.alias, _Layout.reuse_operands, _Layout.join_parts),
    (_Layout.alias, _Layout.reuse_operands),
)


def reads_and_writes(plan: ExecutionPlan, instruction: Instruction) -> tuple[list[int], list[int]]:
    """Returns the indices of the tensors that an instruction reads and of those it writes."""
    reads: list[int] = []
    writes: list[int] = []
    schema = _schema_of(plan, instruction)
    # After the arguments, the call repeats the out arguments as its results.
    for argument, index in zip(schema.arguments, instruction.instr_args.args, strict=False):
        # Scratch memory counts as an operand: its contents are never read afterwards.
        is_written = argument.alias_info is not None and argument.alias_info.is_write and argument.name != "scratch"
        # An in-place operator reads the tensor that it writes.
        if is_written and not argument.is_out:
            reads += _tensors(plan, index)
        (writes if is_written else reads).extend(_tensors(plan, index))
    return reads, writes


def _tensors(plan: ExecutionPlan, index: int) -> list[int]:
    value = plan.values[index].val
    if isinstance(value, Tensor):
        return [index]
    if isinstance(value, (TensorList, OptionalTensorList)):
        return [item for item in value.items if item >= 0 and isinstance(plan.values[item].val, Tensor)]
    return []


@dataclass(frozen=True)
class _Part:
    """`nbytes` bytes that an instruction moves from `source` in an operand to `target` in its result."""

    operand: int
    source: int
    target: int
    nbytes: int


def _moved(
    plan: ExecutionPlan, instruction: Instruction, reads: list[int], writes: list[int]
) -> dict[int, list[_Part]] | None:
    """Returns the bytes that the instruction moves to each of its results, if they form one run per operand; None
    otherwise.

    The operator runs on operands whose elements are their own positions.
    """
    tensors = [plan.values[index].val for index in reads + writes]
    if len({tensor.scalar_type for tensor in tensors}) != 1 or any(0 in tensor.sizes for tensor in tensors):
        return None
    width = itemsize(tensors[0].scalar_type)
    starts = list(itertools.accumulate((math.prod(plan.values[read].val.sizes) for read in reads), initial=0))
    operands = {read: _positions(plan.values[read].val, start) for read, start in zip(reads, starts, strict=False)}
    moved = {}
    for write, result in zip(writes, _run(plan, instruction, operands), strict=True):
        tensor = plan.values[write].val
        if list(result.shape) != tensor.sizes:
            return None
        positions = result.permute(tensor.dim_order).reshape(-1)
        parts = []
        target = 0
        while target < len(positions):
            first = int(positions[target])
            operand = bisect.bisect_right(starts, first) - 1
            count = min(len(positions) - target, starts[operand + 1] - first)
            if not torch.equal(positions[target : target + count], torch.arange(first, first + count)):
                return None
            source = first - starts[operand]
            parts.append(_Part(reads[operand], source * width, target * width, count * width))
            target += count
        if len(parts) != len(reads):
            return None
        moved[write] = parts
    return moved


def _positions(tensor: Tensor, start: int) -> torch.Tensor:
    """Returns a tensor of the same sizes and dim order whose elements are their positions in memory."""
    order = tensor.dim_order
    in_memory = torch.arange(start, start + math.prod(tensor.sizes)).reshape([tensor.sizes[dim] for dim in order])
    return in_memory.permute([order.index(dim) for dim in range(len(order))])


def _run(plan: ExecutionPlan, instruction: Instruction, operands: dict[int, torch.Tensor]) -> list[torch.Tensor]:
    """Returns the results of the instruction for other operands."""

    def python_value(index: int) -> Any:
        value = plan.values[index].val
        if isinstance(value, Tensor):
            return operands[index]
        if isinstance(value, IntList):
            return [plan.values[item].val.int_val for item in value.items]
        if isinstance(value, (TensorList, OptionalTensorList)):
            return [operands[item] if item >= 0 else None for item in value.items]
        if isinstance(value, Null):
            return None
        # Int, Bool, Double, String, BoolList and DoubleList have one field each.
        return getattr(value, dataclasses.fields(value)[0].name)

    schema = _schema_of(plan, instruction)
    operator = getattr(getattr(torch.ops, schema.name.split("::")[0]), schema.name.split("::")[1])
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    outs: list[torch.Tensor] = []
    for argument, index in zip(schema.arguments, instruction.instr_args.args, strict=False):
        if argument.is_out:
            written = _tensors(plan, index)
            outs += [torch.empty(0, dtype=torch.int64) for _ in written]
            is_list = isinstance(plan.values[index].val, TensorList)
            keywords[argument.name] = outs[-len(written) :] if is_list else outs[-1]
        elif argument.name == "dtype":
            keywords[argument.name] = None
        elif argument.kwarg_only:
            keywords[argument.name] = python_value(index)
        else:
            arguments.append(python_value(index))
    getattr(operator, schema.overload_name)(*arguments, **keywords)
    return outs


def _drop_values(plan: ExecutionPlan) -> None:
    """Drops unused values and merges equal ones."""
    used: set[int] = set()

    def use(index: int) -> None:
        if index < 0 or index in used:
            return
        used.add(index)
        value = plan.values[index].val
        if isinstance(value, (IntList, TensorList, OptionalTensorList)):
            for item in value.items:
                use(item)

    for index in [*plan.inputs, *plan.outputs]:
        use(index)
    for instruction in plan.chains[0].instructions:
        for index in instruction.instr_args.args:
            use(index)

    fixed = {*plan.inputs, *plan.outputs}
    new_index: dict[int, int] = {-1: -1}
    values: list[EValue] = []
    by_content: dict[str, int] = {}

    def place(index: int) -> int:
        if index not in new_index:
            value = plan.values[index].val
            if isinstance(value, (IntList, TensorList, OptionalTensorList)):
                value = type(value)([place(item) for item in value.items])
            # Tensors of the same address, type and shape are merged; the caller's own keep their identity.
            content = f"{type(value).__name__} {value!r} {index if index in fixed else ''}"
            if content not in by_content:
                by_content[content] = len(values)
                values.append(EValue(value))
            new_index[index] = by_content[content]
        return new_index[index]

    for index in sorted(used):
        place(index)
    plan.values = values
    plan.inputs = [new_index[index] for index in plan.inputs]
    plan.outputs = [new_index[index] for index in plan.outputs]
    for instruction in plan.chains[0].instructions:
        instruction.instr_args.args = [new_index[index] for index in instruction.instr_args.args]


def drop_operators(plan: ExecutionPlan) -> None:
    """Drops operators that no instruction calls, in place."""
    used = sorted({instruction.instr_args.op_index for instruction in plan.chains[0].instructions})
    plan.operators = [plan.operators[index] for index in used]
    for instruction in plan.chains[0].instructions:
        instruction.instr_args.op_index = used.index(instruction.instr_args.op_index)


def is_random(plan: ExecutionPlan, instruction: Instruction) -> bool:
    """Whether an instruction draws random numbers."""
    operator = _schema_of(plan, instruction).name.split("::")
    overload = plan.operators[instruction.instr_args.op_index].overload or "default"
    return (
        torch.Tag.nondeterministic_seeded
        in getattr(getattr(getattr(torch.ops, operator[0]), operator[1]), overload).tags
    )


def _same_layout(one: Tensor, other: Tensor) -> bool:
    return (one.scalar_type, one.sizes, one.dim_order) == (other.scalar_type, other.sizes, other.dim_order)


def is_constant(tensor: Tensor) -> bool:
    """Whether the tensor's data is stored in the program."""
    return tensor.data_buffer_idx > 0 and tensor.allocation_info is None


def nbytes_of(tensor: Tensor) -> int:
    """Returns the bytes of a tensor's elements."""
    return math.prod(tensor.sizes) * itemsize(tensor.scalar_type)
