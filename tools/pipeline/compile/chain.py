"""Chains of layers on images that are computed a band of rows at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

# Layers pass each other whole tensors, or rows of images where that makes the memory smaller; the last one is the same,
# and the application hands over the rows of the input image.
LAYERS = "layers"
STREAMED = "stream_rows"
MEMORY = (LAYERS, "smallest", STREAMED)


@dataclass(frozen=True)
class Window:
    """One dimension of a window that moves over images: Window of kernels/util/window.h."""

    size: int
    kernel: int
    stride: int
    padding: int
    dilation: int
    rounds_up: bool = False

    @property
    def room(self) -> int:
        """The distance that it can move; negative if it doesn't fit."""
        return self.size + 2 * self.padding - self.dilation * (self.kernel - 1) - 1

    @property
    def out(self) -> int:
        out = (self.room + (self.stride - 1 if self.rounds_up else 0)) // self.stride + 1
        return out - 1 if self.rounds_up and (out - 1) * self.stride >= self.size + self.padding else out

    @property
    def is_taken(self) -> bool:
        """Whether Window::set() accepts it, and there is something to compute."""
        small = (self.kernel - 1, self.stride - 1, self.padding, self.dilation - 1)
        return all(0 <= value < 1 << 15 for value in small) and 0 < self.size < 1 << 28 and self.room >= 0

    @property
    def text(self) -> str:
        return f"{{{self.size}, {self.kernel}, {self.stride}, {self.padding}, {self.dilation}, {self.out}}}"

    def first_row(self, out_row: int) -> int:
        """Returns the first element that is under the window at an output: first_row() of kernels/util/lines.h."""
        return max(0, out_row * self.stride - self.padding)

    def rows_for(self, outputs: int) -> int:
        """Returns the number of elements from the first one on that some outputs depend on; with none, or less than
        none, as many fewer.
        """
        return min(self.size, (outputs - 1) * self.stride - self.padding + self.dilation * (self.kernel - 1) + 1)


@dataclass(frozen=True)
class RowLayer:
    """A layer that computes rows of an image from rows of images.

    Attributes:
        inputs: the tensors with images that it reads; several have the same shape.
        out: the tensor that it writes.
        window: the window's height over the rows of the inputs.
        in_bytes, out_bytes: the bytes of a row.
    """

    inputs: tuple[int, ...]
    out: int
    window: Window
    in_bytes: int
    out_bytes: int


@dataclass(frozen=True)
class Lines:
    """Memory for some rows of a layer's result.

    Attributes:
        rows: how many rows have room.
        kept: how many of them, the first ones, are there from one band to the next.
        last_reader: the layer of the chain that reads them last.
    """

    rows: int
    kept: int
    last_reader: int


@dataclass(frozen=True)
class Chain:
    """Instructions from `first` to `last` that are computed band by band.

    Attributes:
        layers: those of the instructions.
        sources: for each layer, the layers of the chain that write its inputs; None for an input that is there before.
        needs: for each band, the rows of each layer that the others need after it; none if the number is negative.
        lines: for each layer, the memory of its result; None if all of it has memory.
    """

    first: int
    last: int
    layers: tuple[RowLayer, ...]
    sources: tuple[tuple[int | None, ...], ...]
    needs: tuple[tuple[int, ...], ...]
    lines: tuple[Lines | None, ...]

    @cached_property
    def ends(self) -> tuple[tuple[int, ...], ...]:
        """For each band, the rows of each layer that are there after it."""
        return tuple(tuple(max(0, need) for need in needs) for needs in self.needs)

    def steps(self, place: int) -> tuple[int, int, int]:
        """Returns a layer's needs after the first band, what each further band adds, and all of them."""
        needs = [need[place] for need in self.needs]
        return needs[0], max((b - a for a, b in zip(needs, needs[1:], strict=False)), default=0), needs[-1]

    def first_read(self, place: int, ends: Sequence[int]) -> int:
        """Returns the first row of a layer's result that is read after a band, of which `ends` has the rows."""
        readers = [other for other, of_layer in enumerate(self.sources) if place in of_layer]
        return min(ends[place], *(self.layers[reader].window.first_row(ends[reader]) for reader in readers))

    @property
    def is_regular(self) -> bool:
        """Whether steps() describes all bands, and no layer's window is outside of the rows that are there."""
        before = [0] * len(self.layers)
        for band, ends in enumerate(self.ends):
            for place, layer in enumerate(self.layers):
                first, step, total = self.steps(place)
                if self.needs[band][place] != min(total, first + band * step):
                    return False
                for source in self.sources[place]:
                    there = layer.window.size if source is None else ends[source]
                    if ends[place] > before[place] and layer.window.first_row(before[place]) >= there:
                        return False
            before = list(ends)
        return True


@dataclass(frozen=True)
class Fusion:
    """A method's chains, and the memory for them.

    Attributes:
        chains: in the order of the instructions.
        values: the number of the plan's values without tensors that were added for the chains.
        sizes: of tensors that have memory for some rows, its bytes, and how many of them are kept between bands.
        memories: the bytes in each memory of the board besides the arena's, by its name.
    """

    chains: tuple[Chain, ...] = ()
    values: int | None = None
    sizes: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    memories: Mapping[str, int] = field(default_factory=dict)
