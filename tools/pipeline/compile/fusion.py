"""Plans a method's memory anew so that layers on images pass each other rows instead of whole tensors.

The layers of a chain are computed band by band: as many rows of each as the last layer's next rows need. What a layer
writes for others of the chain alone has memory for a few rows, of which those that are needed again are kept. Nothing
is computed twice, and each row is computed as it would be without bands.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tools.artifacts.program.program import ELEMENT_SIZES
from tools.pipeline.compile.accesses import BEFORE, Accesses, accesses_of
from tools.pipeline.compile.chain import LAYERS, Chain, Fusion, Lines, RowLayer
from tools.pipeline.compile.layout import NEXT_ROWS, elements, kind_of
from tools.pipeline.compile.memories import Distribution, distribute
from tools.pipeline.compile.program import Method
from tools.pipeline.compile.rows import row_layer
from tools.pipeline.placement.leads import LANES, lead
from tools.pipeline.placement.placement import EFFORT, Buffer, Lead, MemoryPlan, Overlap, plan_memory
from tools.quiet.console import UserError
from tools.quiet.table import text_table

# The most layers of a chain, and the numbers of rows of its last layer that are computed at a time.
_MAX_LAYERS = 24
_BANDS = (1, 2, 3, 4, 6, 8)
# More rows than any image has.
_MOST = 1 << 40
# Layers whose results may overlap their operands.
_LEADING = (
    "torch_fusion::convolution.out",
    "torch_fusion::depthwise_convolution.out",
    "torch_fusion::grouped_convolution.out",
    "torch_fusion::linear.out",
    "torch_fusion::linear_rows.out",
)


def arena_and_inputs(method: Method) -> int:
    """Returns the bytes of a method's arena, and of its inputs, which an application has beside it unless it hands
    over their rows.
    """
    inputs = [each for each in method.plan.inputs or [] if each in method.offsets and not method.is_streamed]
    return method.arena_size + sum(map(method.nbytes, inputs))


def fusion_of(method: Method, memory: str, room: int | None) -> Fusion:
    """Returns the chains of a method, see fuse(): those of memory = "smallest", also where its arena and
    inputs have more bytes than there is room for.
    """
    is_small = room is None or arena_and_inputs(method) <= room
    return Fusion() if memory == LAYERS and is_small else fuse(method)


def fuse(method: Method) -> Fusion:
    """Changes the addresses of a method's tensors in its plan, if chains of layers make its memory smaller.

    A tensor that has several contents at different addresses becomes several tensors, behind the plan's other values.
    """
    accesses = accesses_of(method)
    if accesses is None:
        return Fusion()
    planner = _Planner(method, accesses)
    chains = planner.search()
    return planner.assign(chains) if chains else Fusion()


def split(method: Method, memory: str | None, rooms: Mapping[str, int]) -> Fusion:
    """Distributes a method's tensors over several memories, in its plan: see distribute(). Chains of layers make them
    smaller with memory = "smallest", and where they would not fit.

    The last memory has the instance with its outputs; its buffer is the plan's first.

    Args:
        memory: one of MEMORY; None: there are no chains, as where the runtime loads the program.
        rooms: the bytes of each memory by its name, the fastest one first; an application has the inputs beside the
          instance, too.

    Raises:
        UserError: the method can't be planned anew, or doesn't fit.
    """
    *faster, last = rooms
    accesses = accesses_of(method)
    if accesses is None:
        raise UserError(
            f"program {method.file.path}: its arena can't be split over {', '.join(rooms)}: it has state, dynamic "
            f"shapes, branches, an NPU's part or operators of your own; give arena_memories {last} alone"
        )
    planner = _Planner(method, accesses)
    rooms = {**rooms, last: rooms[last] - (arena_and_inputs(method) - method.arena_size)}
    chains = planner.search() if memory not in (None, LAYERS) else ()
    found = planner.distribute(chains, rooms)
    if found.excess and memory == LAYERS and (chains := planner.search()):
        found = planner.distribute(chains, rooms)
    if found.excess:
        taken = zip(rooms.items(), found.plans, strict=True)
        rows = [[name, f"{room:,}", f"{plan.nbytes:,}"] for (name, room), plan in taken]
        raise UserError(
            f"program {method.file.path}: its tensors are {found.excess:,} bytes too many for {last}, which has what "
            f"the other memories have no room for; use a smaller model or input, or further arena_memories:\n"
            + "\n".join(text_table([["memory", "bytes", "taken"], *rows], {0}))
        )
    total = max(sum(found.heat), 1)
    shares = ", ".join(f"{name} {share / total:.0%}" for name, share in zip(rooms, found.heat, strict=True))
    # Bazel shows the standard output of a build action.
    by_rows = "; layers pass each other rows of images" if chains else ""
    print(f"{method.file.path.stem}: of the bytes that an inference reads and writes are in {shares}{by_rows}")
    return planner.assign(chains, found, faster)


@dataclass
class _Layout:
    """Buffers for some chains, and the buffer and the offset in it of each content."""

    buffers: list[Buffer] = field(default_factory=list)
    overlaps: list[Overlap] = field(default_factory=list)
    places: dict[int, tuple[int, int]] = field(default_factory=dict)

    def plan(self, effort: int) -> MemoryPlan:
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


class _Planner:
    def __init__(self, method: Method, accesses: Accesses) -> None:
        self.method = method
        self.accesses = accesses
        self.contents = accesses.contents
        self.code = method.layout.code
        self.layers = [row_layer(method.named_at(number), each) for number, each in enumerate(self.code)]

    # ---- Chains

    def search(self) -> tuple[Chain, ...]:
        """Adds chains around the peak until the memory stops shrinking, and widens their bands."""
        chains: tuple[Chain, ...] = ()
        if self.method.is_streamed:
            first = [(chain,) for chain in self._chains_at(0)]
            chains = min(first, key=lambda each: self._order(self._key(each), each), default=())
        best = self._key(chains)
        while True:
            peak = best[1].index(max(best[1]))
            found = [each for chain in self._chains_at(peak) for each in self._with(chains, chain)]
            tried = [(self._key(each), each) for each in found if self._is_allowed(each)]
            key, wanted = min(tried, key=lambda entry: self._order(entry[0], entry[1]), default=(best, chains))
            if self._order(key, ()) >= self._order(best, ()):
                break
            best, chains = key, wanted
        limit = self._layout(chains).plan(EFFORT).nbytes
        for chain in chains:
            others = tuple(other for other in chains if other != chain)
            if self._is_allowed(others) and self._layout(others).plan(EFFORT).nbytes <= limit:
                chains = others
        if limit >= self.method.arena_size and not self.method.is_streamed:
            return ()
        for number, chain in enumerate(chains):
            for rows in _BANDS:
                wider = self._chain(chain.first, chain.last, rows)
                if wider is None:
                    continue
                others = (*chains[:number], wider, *chains[number + 1 :])
                if self._layout(others).plan(EFFORT).nbytes <= limit:
                    chains = others
        return tuple(sorted(chains, key=lambda chain: chain.first))

    def _with(self, chains: Sequence[Chain], added: Chain) -> Iterator[tuple[Chain, ...]]:
        """Yields chains with another one in the place of those that it overlaps. If an application hands over rows, the
        first layers have to stay in a chain: also beside what it leaves of them.
        """
        apart = [chain for chain in chains if chain.last < added.first or added.last < chain.first]
        yield (*apart, added)
        ends = [
            end
            for chain in chains
            if chain not in apart
            for end in ((chain.first, added.first - 1), (added.last + 1, chain.last))
        ]
        left = [
            self._chain(first, last, 1)
            for first, last in ends
            if first < last or first == last and self.code[first].kind == NEXT_ROWS
        ]
        if self.method.is_streamed and left:
            yield (*apart, *(chain for chain in left if chain is not None), added)

    def _is_allowed(self, chains: Sequence[Chain]) -> bool:
        """Whether the rows that an application hands over are read in a chain."""
        return not self.method.is_streamed or any(chain.first == 0 for chain in chains)

    def _key(self, chains: Sequence[Chain]) -> tuple[int, list[int]]:
        layout = self._layout(chains)
        memory = layout.plan(0)
        return memory.nbytes, layout.profile(memory, len(self.code))

    @staticmethod
    def _order(key: tuple[int, list[int]], chains: Sequence[Chain]) -> tuple[int, list[int], int]:
        return key[0], sorted(key[1], reverse=True), sum(len(chain.layers) for chain in chains)

    def _chains_at(self, peak: int) -> Iterator[Chain]:
        """Yields chains of layers that have an instruction."""
        for first in range(peak, max(peak - _MAX_LAYERS, -1), -1):
            if self.layers[first] is None:
                return
            for last in range(max(peak, first + 1), min(first + _MAX_LAYERS, len(self.code))):
                if self.layers[last] is None:
                    break
                chain = self._chain(first, last, 1)
                if chain is not None:
                    yield chain

    def _chain(self, first: int, last: int, rows: int) -> Chain | None:
        """Returns the chain of some instructions that computes so many rows of the last one at a time; None if it is
        none.
        """
        layers: list[RowLayer] = [layer for layer in self.layers[first : last + 1] if layer is not None]
        sources: list[list[int | None]] = []
        for place, layer in enumerate(layers):
            of_layer: list[int | None] = []
            for index in layer.inputs:
                there = self.accesses.reads[first + place][index]
                writer = self.contents[there[0]].writer
                if all(self.contents[each].writer < first for each in there):
                    of_layer.append(None)
                elif len(there) == 1 and self._is_whole(there[0], index):
                    of_layer.append(writer - first)
                else:
                    return None
            sources.append(of_layer)
        needs = self._needs(layers, sources, rows)
        chain = Chain(first, last, tuple(layers), tuple(map(tuple, sources)), needs, (None,) * len(layers))
        lines = self._lines(chain)
        return None if lines is None or not chain.is_regular else replace(chain, lines=lines)

    def _is_whole(self, content: int, index: int) -> bool:
        contents, offset = self.contents[content], self.method.offsets[index]
        return (contents.start, contents.stop) == (offset, offset + self.method.shapes[index].nbytes)

    @staticmethod
    def _needs(
        layers: Sequence[RowLayer], sources: Sequence[Sequence[int | None]], rows: int
    ) -> tuple[tuple[int, ...], ...]:
        """Returns Chain.needs; the first bands prepare rows for those of the last layer."""

        def needs(end: int) -> tuple[int, ...]:
            found = [-_MOST] * len(layers)
            found[-1] = end
            for place in reversed(range(len(layers))):
                for source in sources[place]:
                    if source is not None:
                        found[source] = max(found[source], layers[place].window.rows_for(found[place]))
            return tuple(found)

        height = layers[-1].window.out
        found = [needs(end) for end in [*range(rows, height, rows), height]]
        end = min(rows, height) - rows
        while max(before := needs(end)) > 0:
            found.insert(0, before)
            end -= rows
        return tuple(found)

    def _lines(self, chain: Chain) -> tuple[Lines | None, ...] | None:
        """Returns the memory of each layer's result; None if the instructions are no chain."""
        found: list[Lines | None] = []
        for place, layer in enumerate(chain.layers):
            contents = self.contents[self.accesses.writes[chain.first + place][layer.out]]
            readers = [other for other, of_layer in enumerate(chain.sources) if place in of_layer]
            if contents.is_output or not all(chain.first <= reader <= chain.last for reader in contents.readers):
                if chain.ends[-1][place] < layer.window.out:
                    return None
                found.append(None)
                continue
            if not readers or not all(contents.readers.values()):
                return None
            room = kept = begin = 0
            for ends in chain.ends:
                room = max(room, ends[place] - begin)
                begin = max(begin, self._following(chain, place, ends))
                kept = max(kept, ends[place] - begin)
            found.append(Lines(room, kept, max(readers)))
        return tuple(found)

    @staticmethod
    def _following(chain: Chain, place: int, ends: Sequence[int]) -> int:
        """Returns the first row of a layer's result that is read after a band."""
        readers = [other for other, of_layer in enumerate(chain.sources) if place in of_layer]
        return min(ends[place], *(chain.layers[reader].window.first_row(ends[reader]) for reader in readers))

    # ---- Memory

    def _layout(self, chains: Sequence[Chain]) -> _Layout:
        lines = {
            self.accesses.writes[chain.first + place][chain.layers[place].out]: (chain, place)
            for chain in chains
            for place, of_layer in enumerate(chain.lines)
            if of_layer is not None
        }
        chained = {place: chain for chain in chains for place in range(chain.first, chain.last + 1)}
        storages = self._storages(lines, chained)
        layout = _Layout()
        for members in storages:
            start = min(self.contents[each].start for each in members)
            for each in members:
                layout.places[each] = len(layout.buffers), self.contents[each].start - start
            layout.buffers.append(self._buffer(members, lines, chained, start))
        for number, instruction in enumerate(self.code):
            if number not in chained:
                self._lead(layout, number, self.method.operator(instruction), instruction.values)
        for chain in chains:
            self._lead_chain(layout, chain)
        return layout

    def _storages(self, lines: Mapping[int, Any], chained: Mapping[int, Chain]) -> list[list[int]]:
        """Returns contents that have fixed distances from each other, in groups."""
        parents = list(range(len(self.contents)))

        def find(each: int) -> int:
            while parents[each] != each:
                each = parents[each]
            return each

        pairs = list(self.accesses.joined)
        for number, overlapping in self.accesses.in_place.items():
            if number not in chained and self.method.operator(self.code[number]) not in _LEADING:
                pairs += overlapping
        for one, other in pairs:
            if one not in lines and other not in lines:
                parents[find(one)] = find(other)
        groups: dict[int, list[int]] = {}
        for each in range(len(self.contents)):
            groups.setdefault(find(each), []).append(each)
        return list(groups.values())

    def _buffer(
        self, members: Sequence[int], lines: Mapping[int, tuple[Chain, int]], chained: Mapping[int, Chain], start: int
    ) -> Buffer:
        contents = [self.contents[each] for each in members]
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
        return Buffer(nbytes, alignment, first, len(self.code) if any(c.is_output for c in contents) else last)

    def _is_free(self, layout: _Layout, operand: int, result: int, first: int, last: int) -> bool:
        """Whether a result that is written from an instruction on may overlap an operand that is read for the last
        time up to another one.
        """
        before = [each for each in self._together(layout, operand) if each != operand]
        after = [each for each in self._together(layout, result) if each != result]
        contents = [self.contents[each] for each in (operand, *before)]
        results = [self.contents[each] for each in (result, *after)]
        is_input = any(each.writer == BEFORE for each in contents)
        return (
            layout.places[operand][0] != layout.places[result][0]
            and not any(each.is_output for each in contents)
            # The caller may run the program again without setting its inputs anew.
            and not (is_input and any(each.is_output for each in results))
            and all(self.contents[each].last < first for each in before)
            and self.contents[operand].last <= last
            and all(self.contents[each].writer > last for each in after)
        )

    def _together(self, layout: _Layout, content: int) -> list[int]:
        buffer = layout.places[content][0]
        return [each for each, (other, _) in layout.places.items() if other == buffer]

    def _overlap(self, layout: _Layout, operand: int, result: int, of_layer: Lead) -> None:
        source, to = layout.places[operand], layout.places[result]
        layout.overlaps.append(Overlap(to[0], source[0], of_layer.moved(to[1] - source[1])))

    def _lead(self, layout: _Layout, number: int, operator: str, values: Sequence[int]) -> None:
        """Lets the result of a packed layer overlap its operand."""
        head = self.method.packed.get(values[1]) if operator in _LEADING else None
        if head is None or values[-1] not in self.accesses.writes[number]:
            return
        operands, result = self.accesses.reads[number].get(values[0], []), self.accesses.writes[number][values[-1]]
        if len(operands) == 1 and self._is_whole(operands[0], values[0]):
            shapes = [self.method.shapes[index].sizes for index in (values[0], values[-1])]
            together = LANES if operator == "torch_fusion::linear_rows.out" else 1
            if self._is_free(layout, operands[0], result, number, number):
                self._overlap(layout, operands[0], result, lead(head, shapes[0], shapes[1], together))

    def _lead_chain(self, layout: _Layout, chain: Chain) -> None:
        """Lets what a chain writes overlap the rows of its operands that have been read before."""
        operands: dict[int, list[int]] = {}
        for place, (layer, of_layer) in enumerate(zip(chain.layers, chain.sources, strict=True)):
            for index, source in zip(layer.inputs, of_layer, strict=True):
                there = self.accesses.reads[chain.first + place][index]
                if source is None and len(there) == 1 and self._is_whole(there[0], index):
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
                begin = max(begin, self._following(chain, place, ends))
            before = ends
        return max(found)

    # ---- The plan

    def distribute(self, chains: tuple[Chain, ...], rooms: Mapping[str, int]) -> Distribution:
        """Distributes the buffers over memories by their accesses; that of an output is in the last one."""
        layout = self._layout(chains)
        heat = [0] * len(layout.buffers)
        writes = [{index: [each] for index, each in of_call.items()} for of_call in self.accesses.writes]
        for accesses in (*self.accesses.reads, *writes):
            for index, there in accesses.items():
                for each in there:
                    nbytes = self.contents[each].stop - self.contents[each].start
                    heat[layout.places[each][0]] += min(self.method.shapes[index].nbytes, nbytes)
        pinned = {layout.places[each][0] for each, contents in enumerate(self.contents) if contents.is_output}
        return distribute(layout.buffers, layout.overlaps, heat, sorted(pinned), rooms)

    def assign(
        self, chains: tuple[Chain, ...], distribution: Distribution | None = None, memories: Sequence[str] = ()
    ) -> Fusion:
        """Writes addresses into the plan, and gives each content a tensor.

        Args:
            distribution: where the buffers are; None: in one memory.
            memories: the names of its memories but the last one.
        """
        plan = self.method.plan
        layout = self._layout(chains)
        if distribution is None:
            plans, members = [layout.plan(EFFORT)], [list(range(len(layout.buffers)))]
        else:
            # The last memory is the plan's first.
            plans, members = ([each[-1], *each[:-1]] for each in (distribution.plans, distribution.members))
        buffers = {
            buffer: (number, offset)
            for number, (memory, inside) in enumerate(zip(plans, members, strict=True), start=1)
            for buffer, offset in zip(inside, memory.offsets, strict=True)
        }
        count = len(plan.values)
        fixed = {*(plan.inputs or []), *(plan.outputs or [])}
        address = {
            each: (buffers[buffer][0], buffers[buffer][1] + offset) for each, (buffer, offset) in layout.places.items()
        }
        taken: set[int] = set()
        indices: dict[int, int] = {}
        parts: dict[tuple[int, tuple[int, int]], int] = {}

        def placed(index: int, place: tuple[int, int]) -> int:
            """Returns a tensor of its own with an address."""
            own = index
            if index in taken:
                own = len(plan.values)
                plan.values.append(copy.deepcopy(plan.values[index]))
            taken.add(own)
            allocation = plan.values[own].val.allocation_info
            allocation.memory_id, allocation.memory_offset_low, allocation.memory_offset_high = *place, 0
            return own

        def tensor(index: int, there: Sequence[int]) -> int:
            """Returns the tensor for contents that a tensor has."""
            contents = self.contents[there[0]]
            if contents.tensor == index and len(there) == 1 and self._is_whole(there[0], index):
                return indices[there[0]]
            lowest = min(there, key=lambda each: self.contents[each].start)
            number, offset = address[lowest]
            place = number, offset + self.method.offsets[index] - self.contents[lowest].start
            if (index, place) not in parts:
                parts[index, place] = placed(index, place)
            return parts[index, place]

        # Inputs and outputs stay the caller's: their own contents come first.
        for is_border in (True, False):
            for each, contents in enumerate(self.contents):
                if (contents.writer == BEFORE or contents.is_output and contents.tensor in fixed) == is_border:
                    indices[each] = placed(contents.tensor, address[each])
        for index, there in self.accesses.outputs.items():
            assert index in fixed and tensor(index, there) == index
        instructions = [instruction for chain in plan.chains for instruction in chain.instructions or []]
        for number, instruction in enumerate(instructions):
            new = {index: tensor(index, there) for index, there in self.accesses.reads[number].items()}
            results = {index: indices[each] for index, each in self.accesses.writes[number].items()}
            arguments = instruction.instr_args.args
            for position, value in enumerate(arguments):
                # A call repeats its results after its arguments.
                is_result = position in self.accesses.results[number] or position >= len(self.code[number].values)
                names = {**new, **results} if is_result else {**results, **new}
                items = elements(plan.values[value])
                if kind_of(plan.values[value]) in ("TensorList", "OptionalTensorList"):
                    plan.values.append(copy.deepcopy(plan.values[value]))
                    plan.values[-1].val.items = [names.get(item, item) for item in items]
                    arguments[position] = len(plan.values) - 1
                else:
                    arguments[position] = names.get(value, value)
        plan.non_const_buffer_sizes = [0, *(memory.nbytes for memory in plans)]
        sizes = {}
        placed_chains = []
        for chain in chains:
            layers = []
            for place, (layer, of_layer) in enumerate(zip(chain.layers, chain.lines, strict=True)):
                number = chain.first + place
                inputs = tuple(tensor(index, self.accesses.reads[number][index]) for index in layer.inputs)
                out = indices[self.accesses.writes[number][layer.out]]
                layers.append(replace(layer, inputs=inputs, out=out))
                if of_layer is not None:
                    sizes[out] = of_layer.rows * layer.out_bytes, of_layer.kept * layer.out_bytes
            placed_chains.append(replace(chain, layers=tuple(layers)))
        others = dict(zip(memories, (memory.nbytes for memory in plans[1:]), strict=True))
        return Fusion(tuple(placed_chains), count, sizes, others)
