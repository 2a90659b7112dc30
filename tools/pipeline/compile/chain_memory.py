"""Lays out a method's tensors in memory if chains of its layers pass each other rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tools.artifacts.program.program import ELEMENT_SIZES
from tools.pipeline.compile.accesses import BEFORE, Accesses
from tools.pipeline.compile.chain import Chain
from tools.pipeline.compile.memories import Distribution, distribute
from tools.pipeline.compile.program import Method
from tools.pipeline.placement.leads import LANES, lead
from tools.pipeline.placement.placement import Buffer, Lead, MemoryPlan, Overlap, plan_memory

# Layers whose results may overlap their operands.
_LEADING = (
    "torch_fusion::convolution.out",
    "torch_fusion::depthwise_convolution.out",
    "torch_fusion::grouped_convolution.out",
    "torch_fusion::linear.out",
    "torch_fusion::linear_rows.out",
)


@dataclass
class Layout:
    """The buffers of a method's tensors.

    Attributes:
        buffers: the buffers.
        overlaps: the pairs of them that may overlap.
        places: the buffer of each content, and its offset in that.
    """

    buffers: list[Buffer] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def plan(self, effort: int) -> MemoryPlan:
        """Returns addresses for the buffers."""
        return plan_memory(self.buffers, self.overlaps, effort)

    def profile(self, memory: MemoryPlan, end: int) -> list[int]:
        """Returns the bytes in use at each instruction, the largest first."""
        found = []
        for number in range(end):
            nbytes = last = 0
            for offset, size in sorted((o, b.live(number)) for o, b in zip(memory.offsets, self.buffers, strict=True)):
                nbytes += max(0, offset + size - max(last, offset))
                last = max(last, offset + size)
            found.append(nbytes)
        return found


@dataclass(frozen=True)
class ChainMemory:
    """Lays out a method's tensors.

    Attributes:
        accesses: where the contents of its tensors are used.
    """

    method: Method
    accesses: Accesses

    def layout(self, chains: Sequence[Chain]) -> Layout:
        """Returns the buffers for some chains."""
        lines = {
            self.accesses.writes[chain.first + place][chain.layers[place].out]: (chain, place)
            for chain in chains
            for place, of_layer in enumerate(chain.lines)
            if of_layer is not None
        }
        chained = {place: chain for chain in chains for place in range(chain.first, chain.last + 1)}
        storages = self._storages(lines, chained)
        layout = Layout()
        for members in storages:
            start = min(self.accesses.contents[each].start for each in members)
            for each in members:
                layout.places[each] = len(layout.buffers), self.accesses.contents[each].start - start
            layout.buffers.append(self._buffer(members, lines, chained, start))
        for number, instruction in enumerate(self.method.layout.code):
            if number not in chained:
                self._lead(layout, number, self.method.operator(instruction), instruction.values)
        for chain in chains:
            self._lead_chain(layout, chain)
        return layout

    def _storages(self, lines: Mapping[int, Any], chained: Mapping[int, Chain]) -> list[list[int]]:
        """Returns contents that have fixed distances from each other, in groups."""
        parents = list(range(len(self.accesses.contents)))

        def find(each: int) -> int:
            while parents[each] != each:
                each = parents[each]
            return each

        pairs = list(self.accesses.joined)
        for number, overlapping in self.accesses.in_place.items():
            if number not in chained and self.method.operator(self.method.layout.code[number]) not in _LEADING:
                pairs += overlapping
        for one, other in pairs:
            if one not in lines and other not in lines:
                parents[find(one)] = find(other)
        groups: dict[int, list[int]] = {}
        for each in range(len(self.accesses.contents)):
            groups.setdefault(find(each), []).append(each)
        return list(groups.values())

    def _buffer(
        self, members: Sequence[int], lines: Mapping[int, tuple[Chain, int]], chained: Mapping[int, Chain], start: int
    ) -> Buffer:
        contents = [self.accesses.contents[each] for each in members]
        nbytes = max(each.stop for each in contents) - start
        alignment = max(4, *(ELEMENT_SIZES[self.method.shapes[each.tensor].dtype] for each in contents))
        if members[0] in lines:
            chain, place = lines[members[0]]
            of_layer = chain.lines[place]
            assert of_layer is not None
            row = chain.layers[place].out_bytes
            kept = (chain.first, chain.last) if of_layer.kept else (0, -1)
            span = (chain.first + place, chain.first + of_layer.last_reader)
            return Buffer(of_layer.rows * row, alignment, *span, of_layer.kept * row, *kept)
        first = min(chained[each.writer].first if each.writer in chained else each.writer for each in contents)
        last = max(chained[each.last].last if each.last in chained else each.last for each in contents)
        if contents[0].is_scratch:
            first = last = contents[0].writer
        return Buffer(
            nbytes, alignment, first, len(self.method.layout.code) if any(c.is_output for c in contents) else last
        )

    def _is_free(self, layout: Layout, operand: int, result: int, first: int, last: int) -> bool:
        """Whether a result that is written from an instruction on may overlap an operand that is read for the last
        time up to another one.
        """
        before = [each for each in self._together(layout, operand) if each != operand]
        after = [each for each in self._together(layout, result) if each != result]
        contents = [self.accesses.contents[each] for each in (operand, *before)]
        results = [self.accesses.contents[each] for each in (result, *after)]
        is_input = any(each.writer == BEFORE for each in contents)
        return (
            layout.places[operand][0] != layout.places[result][0]
            and not any(each.is_output for each in contents)
            # The caller may run the program again without setting its inputs anew.
            and not (is_input and any(each.is_output for each in results))
            and all(self.accesses.contents[each].last < first for each in before)
            and self.accesses.contents[operand].last <= last
            and all(self.accesses.contents[each].writer > last for each in after)
        )

    def _together(self, layout: Layout, content: int) -> list[int]:
        buffer = layout.places[content][0]
        return [each for each, (other, _) in layout.places.items() if other == buffer]

    def _overlap(self, layout: Layout, operand: int, result: int, of_layer: Lead) -> None:
        source, to = layout.places[operand], layout.places[result]
        layout.overlaps.append(Overlap(to[0], source[0], of_layer.moved(to[1] - source[1])))

    def _lead(self, layout: Layout, number: int, operator: str, values: Sequence[int]) -> None:
        """Lets the result of a packed layer overlap its operand."""
        head = self.method.packed.get(values[1]) if operator in _LEADING else None
        if head is None or values[-1] not in self.accesses.writes[number]:
            return
        if any(self.method.shapes[index].dtype != "CHAR" for index in (values[0], values[-1])):
            return
        operands, result = self.accesses.reads[number].get(values[0], []), self.accesses.writes[number][values[-1]]
        if len(operands) == 1 and self.accesses.is_whole(self.method, operands[0], values[0]):
            shapes = [self.method.shapes[index].sizes for index in (values[0], values[-1])]
            together = LANES if operator == "torch_fusion::linear_rows.out" else 1
            if self._is_free(layout, operands[0], result, number, number):
                self._overlap(layout, operands[0], result, lead(head, shapes[0], shapes[1], together))

    def _lead_chain(self, layout: Layout, chain: Chain) -> None:
        """Lets what a chain writes overlap the rows of its operands that have been read before."""
        operands: dict[int, list[int]] = {}
        for place, (layer, of_layer) in enumerate(zip(chain.layers, chain.sources, strict=True)):
            for index, source in zip(layer.inputs, of_layer, strict=True):
                there = self.accesses.reads[chain.first + place][index]
                if source is None and len(there) == 1 and self.accesses.is_whole(self.method, there[0], index):
                    operands.setdefault(there[0], []).append(place)
        for operand, readers in operands.items():
            for place, layer in enumerate(chain.layers):
                for index, result in self.accesses.writes[chain.first + place].items():
                    if self._is_free(layout, operand, result, chain.first, chain.last):
                        is_result = index == layer.out
                        scratch = 0 if is_result else layout.buffers[layout.places[result][0]].nbytes
                        nbytes = scratch + self._chain_lead(chain, readers, place, is_result)
                        self._overlap(layout, operand, result, Lead(nbytes))

    def _chain_lead(self, chain: Chain, readers: Sequence[int], place: int, is_result: bool) -> int:
        """Returns the lead of a layer's result, or of its scratch memory less its size, over an operand of a chain."""
        layer, lines = chain.layers[place], chain.lines[place]
        before: Sequence[int] = [0] * len(chain.layers)
        begin = 0
        found = []
        for ends in chain.ends:
            consumed = []
            for reader in readers:
                end = ends[reader] if reader < place else before[reader]
                window = chain.layers[reader].window
                rows = window.size if end == chain.ends[-1][reader] else min(window.first_row(end), window.size)
                consumed.append(rows * chain.layers[reader].in_bytes)
            if ends[place] > before[place]:
                found.append((ends[place] - begin) * layer.out_bytes * is_result - min(consumed))
            if lines is not None:
                begin = max(begin, chain.first_read(place, ends))
            before = ends
        return max(found)

    def distribute(self, chains: tuple[Chain, ...], rooms: Mapping[str, int]) -> Distribution:
        """Distributes the buffers over memories by their accesses; that of an output is in the last one."""
        layout = self.layout(chains)
        heat = [0] * len(layout.buffers)
        writes = [{index: [each] for index, each in of_call.items()} for of_call in self.accesses.writes]
        for accesses in (*self.accesses.reads, *writes):
            for index, there in accesses.items():
                for each in there:
                    nbytes = self.accesses.contents[each].stop - self.accesses.contents[each].start
                    heat[layout.places[each][0]] += min(self.method.shapes[index].nbytes, nbytes)
        pinned = {layout.places[each][0] for each, contents in enumerate(self.accesses.contents) if contents.is_output}
        return distribute(layout.buffers, layout.overlaps, heat, sorted(pinned), rooms)
