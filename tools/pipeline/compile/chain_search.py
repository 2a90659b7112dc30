"""Searches the chains of a method's layers that make its memory smallest."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from tools.pipeline.compile.chain import Chain, Lines, RowLayer
from tools.pipeline.compile.chain_memory import ChainMemory
from tools.pipeline.compile.layout import NEXT_ROWS
from tools.pipeline.compile.rows import row_layer
from tools.pipeline.placement.placement import EFFORT

# The most layers of a chain, and the numbers of rows of its last layer that are computed at a time.
_MAX_LAYERS = 24
_BANDS = (1, 2, 3, 4, 6, 8)
# More rows than any image has.
_MOST = 1 << 40


class ChainSearch:
    """Searches the chains of a method.

    Args:
        memory: the memory of its tensors.
    """

    def __init__(self, memory: ChainMemory) -> None:
        self._memory = memory
        self._method = memory.method
        self._accesses = memory.accesses
        self._code = memory.method.layout.code
        self._layers = [row_layer(self._method.named_at(number), each) for number, each in enumerate(self._code)]

    def search(self) -> tuple[Chain, ...]:
        """Adds chains around the peak until the memory stops shrinking, and widens their bands."""
        chains: tuple[Chain, ...] = ()
        if self._method.is_streamed:
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
        limit = self._memory.layout(chains).plan(EFFORT).nbytes
        for chain in chains:
            others = tuple(other for other in chains if other != chain)
            if self._is_allowed(others) and self._memory.layout(others).plan(EFFORT).nbytes <= limit:
                chains = others
        if limit >= self._method.arena_size and not self._method.is_streamed:
            return ()
        for number, chain in enumerate(chains):
            for rows in _BANDS:
                wider = self._chain(chain.first, chain.last, rows)
                if wider is None:
                    continue
                others = (*chains[:number], wider, *chains[number + 1 :])
                if self._memory.layout(others).plan(EFFORT).nbytes <= limit:
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
            if first < last or first == last and self._code[first].kind == NEXT_ROWS
        ]
        if self._method.is_streamed and left:
            yield (*apart, *(chain for chain in left if chain is not None), added)

    def _is_allowed(self, chains: Sequence[Chain]) -> bool:
        """Whether the rows that an application hands over are read in a chain."""
        return not self._method.is_streamed or any(chain.first == 0 for chain in chains)

    def _key(self, chains: Sequence[Chain]) -> tuple[int, list[int]]:
        layout = self._memory.layout(chains)
        memory = layout.plan(0)
        return memory.nbytes, layout.profile(memory, len(self._code))

    @staticmethod
    def _order(key: tuple[int, list[int]], chains: Sequence[Chain]) -> tuple[int, list[int], int]:
        return key[0], sorted(key[1], reverse=True), sum(len(chain.layers) for chain in chains)

    def _chains_at(self, peak: int) -> Iterator[Chain]:
        """Yields chains of layers that have an instruction."""
        for first in range(peak, max(peak - _MAX_LAYERS, -1), -1):
            if self._layers[first] is None:
                return
            for last in range(max(peak, first + 1), min(first + _MAX_LAYERS, len(self._code))):
                if self._layers[last] is None:
                    break
                chain = self._chain(first, last, 1)
                if chain is not None:
                    yield chain

    def _chain(self, first: int, last: int, rows: int) -> Chain | None:
        """Returns the chain of some instructions that computes so many rows of the last one at a time; None if it is
        none.
        """
        layers: list[RowLayer] = [layer for layer in self._layers[first : last + 1] if layer is not None]
        sources: list[list[int | None]] = []
        for place, layer in enumerate(layers):
            of_layer: list[int | None] = []
            for index in layer.inputs:
                there = self._accesses.reads[first + place][index]
                writer = self._accesses.contents[there[0]].writer
                if all(self._accesses.contents[each].writer < first for each in there):
                    of_layer.append(None)
                elif len(there) == 1 and self._accesses.is_whole(self._method, there[0], index):
                    of_layer.append(writer - first)
                else:
                    return None
            sources.append(of_layer)
        needs = self._needs(layers, sources, rows)
        chain = Chain(first, last, tuple(layers), tuple(map(tuple, sources)), needs, (None,) * len(layers))
        lines = self._lines(chain)
        return None if lines is None or not chain.is_regular else replace(chain, lines=lines)

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
            contents = self._accesses.contents[self._accesses.writes[chain.first + place][layer.out]]
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
                begin = max(begin, chain.first_read(place, ends))
                kept = max(kept, ends[place] - begin)
            found.append(Lines(room, kept, max(readers)))
        return tuple(found)
