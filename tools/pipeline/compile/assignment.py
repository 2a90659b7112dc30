"""Writes addresses for chains into a method's plan."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tools.pipeline.compile.accesses import BEFORE, Contents
from tools.pipeline.compile.chain import Chain, Fusion
from tools.pipeline.compile.chain_memory import ChainMemory, Layout
from tools.pipeline.compile.layout import elements, kind_of
from tools.pipeline.compile.memories import Distribution
from tools.pipeline.placement.placement import EFFORT, MemoryPlan

# The index of a memory in the plan, and an offset in it.
_Address = tuple[int, int]


def assign(
    memory: ChainMemory,
    chains: tuple[Chain, ...],
    distribution: Distribution | None = None,
    memories: Sequence[str] = (),
) -> Fusion:
    """Writes addresses into a method's plan, and gives each content a tensor.

    Args:
        distribution: where the buffers are; None: in one memory.
        memories: the names of its memories but the last one.
    """
    layout = memory.layout(chains)
    if distribution is None:
        # Rows that are kept between bands leave gaps; a longer search closes some.
        plans, members = [layout.plan(3 * EFFORT)], [list(range(len(layout.buffers)))]
    else:
        # The last memory is the plan's first.
        plans, members = ([each[-1], *each[:-1]] for each in (distribution.plans, distribution.members))
    plan = memory.method.plan
    count = len(plan.values)
    tensors = _Tensors(memory, _addresses(layout, plans, members))
    _rewrite(memory, tensors)
    plan.non_const_buffer_sizes = [0, *(each.nbytes for each in plans)]
    placed, sizes = [], {}
    for chain in chains:
        layers = []
        for place, (layer, of_layer) in enumerate(zip(chain.layers, chain.lines, strict=True)):
            number = chain.first + place
            inputs = tuple(tensors.of(index, memory.accesses.reads[number][index]) for index in layer.inputs)
            out = tensors.own[memory.accesses.writes[number][layer.out]]
            layers.append(replace(layer, inputs=inputs, out=out))
            if of_layer is not None:
                sizes[out] = of_layer.rows * layer.out_bytes, of_layer.kept * layer.out_bytes
        placed.append(replace(chain, layers=tuple(layers)))
    others = dict(zip(memories, (each.nbytes for each in plans[1:]), strict=True))
    return Fusion(tuple(placed), count, sizes, others)


def _addresses(layout: Layout, plans: Sequence[MemoryPlan], members: Sequence[Sequence[int]]) -> dict[int, _Address]:
    """Returns the address of each content.

    Args:
        plans: the plan of each memory.
        members: the buffers of each memory.
    """
    buffers = {
        buffer: (number, offset)
        for number, (memory, inside) in enumerate(zip(plans, members, strict=True), start=1)
        for buffer, offset in zip(inside, memory.offsets, strict=True)
    }
    return {each: (buffers[buffer][0], buffers[buffer][1] + offset) for each, (buffer, offset) in layout.places.items()}


class _Tensors:
    """Tensors of a plan with the addresses of contents.

    Attributes:
        own: the tensor that has exactly a content.
    """

    def __init__(self, memory: ChainMemory, addresses: dict[int, _Address]) -> None:
        self._method = memory.method
        self._accesses = memory.accesses
        self._addresses = addresses
        self._taken: set[int] = set()
        self._parts: dict[tuple[int, _Address], int] = {}
        self.own: dict[int, int] = {}
        plan = self._method.plan
        fixed = {*(plan.inputs or []), *(plan.outputs or [])}

        def is_border(contents: Contents) -> bool:
            return contents.writer == BEFORE or (contents.is_output and contents.tensor in fixed)

        # Inputs and outputs stay the caller's: their own contents come first.
        for each, contents in sorted(enumerate(self._accesses.contents), key=lambda entry: not is_border(entry[1])):
            self.own[each] = self._placed(contents.tensor, addresses[each])
        for index, there in self._accesses.outputs.items():
            assert index in fixed and self.of(index, there) == index

    def _placed(self, index: int, place: _Address) -> int:
        """Gives a tensor an address; if it has one already, a copy of it."""
        values, own = self._method.plan.values, index
        if index in self._taken:
            own = len(values)
            values.append(copy.deepcopy(values[index]))
        self._taken.add(own)
        allocation = values[own].val.allocation_info
        allocation.memory_id, allocation.memory_offset_low, allocation.memory_offset_high = *place, 0
        return own

    def of(self, index: int, there: Sequence[int]) -> int:
        """Returns the tensor for the contents that a tensor has."""
        contents = self._accesses.contents
        if (
            contents[there[0]].tensor == index
            and len(there) == 1
            and self._accesses.is_whole(self._method, there[0], index)
        ):
            return self.own[there[0]]
        lowest = min(there, key=lambda each: contents[each].start)
        number, offset = self._addresses[lowest]
        place = number, offset + self._method.offsets[index] - contents[lowest].start
        if (index, place) not in self._parts:
            self._parts[index, place] = self._placed(index, place)
        return self._parts[index, place]


def _rewrite(memory: ChainMemory, tensors: _Tensors) -> None:
    """Makes the plan's instructions use the tensors with addresses."""
    accesses, plan = memory.accesses, memory.method.plan
    instructions: list[Any] = [instruction for chain in plan.chains for instruction in chain.instructions or []]
    for number, instruction in enumerate(instructions):
        new = {index: tensors.of(index, there) for index, there in accesses.reads[number].items()}
        results = {index: tensors.own[each] for index, each in accesses.writes[number].items()}
        arguments = instruction.instr_args.args
        for position, value in enumerate(arguments):
            # A call repeats its results after its arguments.
            given = len(memory.method.layout.code[number].values)
            is_result = position in accesses.results[number] or position >= given
            names = {**new, **results} if is_result else {**results, **new}
            items = elements(plan.values[value])
            if kind_of(plan.values[value]) in ("TensorList", "OptionalTensorList"):
                plan.values.append(copy.deepcopy(plan.values[value]))
                plan.values[-1].val.items = [names.get(item, item) for item in items]
                arguments[position] = len(plan.values) - 1
            else:
                arguments[position] = names.get(value, value)
