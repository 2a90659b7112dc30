"""Models the common part of all Ethos-U: memory, feature maps, windows, and the loop over a command stream."""

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from npu.arithmetic import Integers, wrap
from npu.fault import NpuFault
from npu.memory import Memory
from npu.registers import CommandSet, Registers, operations
from npu.weight_stream import decode

_BRICK = 16
_NEAREST, _ZEROS = 1, 2

# Elements of the largest tensor that the model takes: a damaged stream must not take all of the machine's memory.
_MOST_ELEMENTS = 1 << 27


def check_size(what: str, *shape: int) -> None:
    if math.prod(shape) > _MOST_ELEMENTS:
        sizes = " x ".join(map(str, shape))
        raise NpuFault(f"{what} of {sizes} elements; the model takes at most {_MOST_ELEMENTS}")


@dataclass
class Traffic:
    """Bytes that an operation reads and writes."""

    read: int = 0
    written: int = 0


@dataclass
class Operation:
    """The work of one operation."""

    name: str
    macs: int = 0
    regions: dict[int, Traffic] = field(default_factory=dict)


@dataclass(frozen=True)
class FeatureMap:
    """The layout of a tensor [height, width, depth]: up to four tiles, split at height0, height1 and width0."""

    region: int
    bases: tuple[int, int, int, int]
    stride_y: int
    stride_x: int
    stride_c: int
    height0: int
    height1: int
    width0: int
    bits: int
    signed: bool
    bricks: bool

    @property
    def dtype(self) -> np.dtype[np.signedinteger] | np.dtype[np.unsignedinteger]:
        return np.dtype(f"<{'i' if self.signed else 'u'}{self.bits // 8}")


class Engine(ABC):
    """An NPU on a memory.

    Args:
      commands: the commands that it knows.
      memory: the memory that it reads and writes.
    """

    def __init__(self, commands: CommandSet, memory: Memory) -> None:
        self._commands = commands
        self._memory = memory
        self._registers = Registers()
        self._bases: Mapping[int, int] = {}
        self._operation = Operation("")

    def run(self, words: Sequence[int], bases: Mapping[int, int]) -> list[Operation]:
        """Executes a command stream.

        Args:
          words: The commands, up to and including STOP.
          bases: The address of each region (the BASEP registers).

        Returns:
          The work of each operation.

        Raises:
          NpuFault: A command is not one of this NPU's, or uses an address that isn't there.
        """
        self._registers = Registers()
        self._bases = bases
        done: list[Operation] = []
        for number, parameter in operations(list(words), self._commands, self._registers):
            self._operation = Operation(self._commands.operations[number])
            try:
                if self._execute(number, parameter):
                    done.append(self._operation)
            except NpuFault as fault:
                raise NpuFault(f"operation {len(done)}, {self._operation.name}: {fault}") from None
        return done

    @abstractmethod
    def _execute(self, number: int, parameter: int) -> bool:
        """Executes an operation; returns whether it is one that works on memory."""

    # Memory

    def _base(self, region: int) -> int:
        if region not in self._bases:
            raise NpuFault(f"region {region} has no base address; {', '.join(map(str, sorted(self._bases)))} have one")
        return self._bases[region]

    def _traffic(self, region: int) -> Traffic:
        return self._operation.regions.setdefault(region, Traffic())

    def _read(self, region: int, offset: int, length: int) -> npt.NDArray[np.uint8]:
        self._traffic(region).read += length
        return self._memory.read(self._base(region) + offset, length)

    def _feature_map(self, prefix: str, bits: int, signed: bool, layout: int) -> FeatureMap:
        get = self._registers
        if layout > 1:
            raise NpuFault(f"{prefix}_PRECISION has format {layout}; 0 (NHWC) and 1 (NHCWB16) are defined")
        base0, base1, base2, base3 = (get.address(f"{prefix}_BASE{tile}") for tile in range(4))
        return FeatureMap(
            region=get[prefix + "_REGION"] & 7,
            bases=(base0, base1, base2, base3),
            stride_y=get.stride(prefix + "_STRIDE_Y"),
            stride_x=get.stride(prefix + "_STRIDE_X"),
            stride_c=get.stride(prefix + "_STRIDE_C"),
            height0=get[prefix + "_HEIGHT0_M1"] + 1,
            height1=get[prefix + "_HEIGHT1_M1"] + 1,
            width0=get[prefix + "_WIDTH0_M1"] + 1,
            bits=bits,
            signed=signed,
            bricks=layout == 1,
        )

    def _tiles(self, fm: FeatureMap, height: int, width: int) -> list[tuple[slice, slice, int]]:
        """Returns rows, columns and base of each tile that a tensor of height and width has a part in."""
        tiles = []
        columns = ((slice(0, min(width, fm.width0)), fm.height0, 0), (slice(fm.width0, width), fm.height1, 1))
        for across, split, tile in columns:
            for down, base in ((slice(0, min(height, split)), tile), (slice(split, height), tile + 2)):
                if across.start < across.stop and down.start < down.stop:
                    tiles.append((down, across, fm.bases[base]))
        return tiles

    def _layout(self, fm: FeatureMap, shape: tuple[int, int, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Returns shape and strides in bytes of a tile in memory."""
        height, width, depth = shape
        size = fm.bits // 8
        if fm.bricks:
            return (height, -(-depth // _BRICK), width, _BRICK), (fm.stride_y, fm.stride_c, _BRICK * size, size)
        return (height, width, depth), (fm.stride_y, fm.stride_x, size)

    def _span(self, fm: FeatureMap, shape: tuple[int, int, int], base: int) -> tuple[int, int, int]:
        """Returns the address of a tile's lowest byte, the length of its span, its first element's place in that."""
        dimensions, strides = self._layout(fm, shape)
        size = fm.bits // 8
        ends = [(count - 1) * stride for count, stride in zip(dimensions, strides, strict=True)]
        lowest = sum(min(end, 0) for end in ends)
        length = sum(map(abs, ends)) + size
        missing = -shape[2] % _BRICK * size
        if fm.bricks and missing:
            # The last brick ends with the last channel; the one before it may end after it.
            length -= max(min(missing, fm.stride_c), 0) if dimensions[1] > 1 else missing
        return self._base(fm.region) + base + lowest, length, -lowest

    def _load(self, fm: FeatureMap, height: int, width: int, depth: int) -> Integers:
        """Returns a tensor [height, width, depth] without regard to its zero point."""
        check_size("a tensor", height, width, depth)
        result = np.zeros((height, width, depth), np.int64)
        for down, across, base in self._tiles(fm, height, width):
            part = result[down, across]
            address, length, first = self._span(fm, part.shape, base)
            data = self._memory.read(address, length)
            part[:] = self._strided(data, fm, part.shape, first)
            self._traffic(fm.region).read += part.size * fm.bits // 8
        return result

    def _strided(
        self, data: npt.NDArray[np.uint8], fm: FeatureMap, shape: tuple[int, int, int], first: int
    ) -> npt.NDArray:
        """Returns the elements of a tile in its span's bytes, as [height, width, depth]."""
        dimensions, strides = self._layout(fm, shape)
        missing = -len(data) % (fm.bits // 8) + _BRICK * fm.bits // 8
        padded = np.concatenate([data, np.zeros(missing, np.uint8)])
        elements = np.ndarray(dimensions, fm.dtype, padded, first, strides)
        if fm.bricks:
            height, width, depth = shape
            return elements.transpose(0, 2, 1, 3).reshape(height, width, -1)[:, :, :depth]
        return elements

    def _store(self, fm: FeatureMap, values: Integers) -> None:
        height, width, _ = values.shape
        for down, across, base in self._tiles(fm, height, width):
            part = wrap(values[down, across], fm.bits)
            address, length, first = self._span(fm, part.shape, base)
            span = np.array(self._memory.read(address, length))
            self._place(span, fm, part, first)
            self._memory.write(address, span)
            self._traffic(fm.region).written += part.size * fm.bits // 8

    def _place(self, span: npt.NDArray[np.uint8], fm: FeatureMap, part: Integers, first: int) -> None:
        dimensions, strides = self._layout(fm, part.shape)
        raw = part.astype(f"<i{fm.bits // 8}")
        if not fm.bricks:
            np.ndarray(dimensions, raw.dtype, span, first, strides)[:] = raw
            return
        depth = part.shape[2]
        whole = depth // _BRICK
        size = fm.bits // 8
        for brick, start in enumerate(range(0, depth, _BRICK)):
            count = _BRICK if brick < whole else depth - start
            target = np.ndarray(
                (*part.shape[:2], count), raw.dtype, span, first + brick * strides[1], (strides[0], strides[2], size)
            )
            target[:] = raw[:, :, start : start + count]

    # Geometry

    def _zero_point(self, prefix: str, signed: bool) -> int:
        name = prefix + "_ZERO_POINT"
        return self._registers.signed16(name) if signed else self._registers[name]

    def _output_shape(self) -> tuple[int, int, int]:
        get = self._registers
        return get["OFM_HEIGHT_M1"] + 1, get["OFM_WIDTH_M1"] + 1, get["OFM_DEPTH_M1"] + 1

    def _windows(self, output: tuple[int, int, int], depth: int) -> "Windows":
        get = self._registers
        stride = get["KERNEL_STRIDE"]
        return Windows(
            height=output[0],
            width=output[1],
            depth=depth,
            kernel_height=get["KERNEL_HEIGHT_M1"] + 1,
            kernel_width=get["KERNEL_WIDTH_M1"] + 1,
            stride_y=1 + ((stride >> 1) & 1) + 2 * ((stride >> 9) & 1),
            stride_x=1 + (stride & 1) + 2 * ((stride >> 6) & 1),
            dilation_y=1 + ((stride >> 4) & 1),
            dilation_x=1 + ((stride >> 3) & 1),
            top=get["IFM_PAD_TOP"],
            left=get["IFM_PAD_LEFT"],
            bottom=get["IFM_PAD_BOTTOM"],
            right=get["IFM_PAD_RIGHT"],
            upscale=get["IFM_UPSCALE"] & 3,
        )


@functools.lru_cache(maxsize=256)
def decoded(stream: bytes) -> npt.NDArray[np.int16]:
    return decode(stream)


def divide(sums: Integers, counts: Integers) -> Integers:
    """Returns sums / counts to nearest, halves away from zero."""
    if not counts.all():
        raise NpuFault("an average of a window that has nothing but padding")
    return np.sign(sums) * ((2 * np.abs(sums) + counts) // (2 * counts))


@dataclass(frozen=True)
class Windows:
    """The windows of a convolution or a pooling."""

    height: int  # of the output
    width: int
    depth: int  # of the input
    kernel_height: int  # with dilation
    kernel_width: int
    stride_y: int
    stride_x: int
    dilation_y: int
    dilation_x: int
    top: int
    left: int
    bottom: int
    right: int
    upscale: int

    @property
    def taps(self) -> tuple[int, int]:
        """Returns height and width of the kernel without dilation."""
        return (self.kernel_height - 1) // self.dilation_y + 1, (self.kernel_width - 1) // self.dilation_x + 1

    @property
    def padded(self) -> bool:
        return bool(self.top or self.left or self.bottom or self.right)

    def _padded_size(self) -> tuple[int, int]:
        return (
            (self.height - 1) * self.stride_y + self.kernel_height,
            (self.width - 1) * self.stride_x + self.kernel_width,
        )

    def input_size(self) -> tuple[int, int]:
        """Returns rows and columns of the input that the windows reach."""
        height, width = self._padded_size()
        check_size("a padded input", height, width, self.depth)
        inside = height - self.top - self.bottom, width - self.left - self.right
        if min(inside) < 1:
            raise NpuFault(f"padding leaves {inside[0]} rows and {inside[1]} columns of the input")
        if self.upscale:
            return (inside[0] + 1) // 2, (inside[1] + 1) // 2
        return inside

    def pad(self, values: Integers, fill: int) -> Integers:
        """Returns an input upscaled and padded."""
        height, width = self._padded_size()
        result = np.full((height, width, self.depth), fill, np.int64)
        inside = result[self.top : height - self.bottom, self.left : width - self.right]
        if self.upscale == _ZEROS:
            inside[:] = 0
            inside[::2, ::2] = values
        elif self.upscale == _NEAREST:
            inside[:] = values.repeat(2, 0).repeat(2, 1)[: inside.shape[0], : inside.shape[1]]
        elif self.upscale:
            raise NpuFault("IFM_UPSCALE is 3; 0, 1 and 2 are defined")
        else:
            inside[:] = values
        return result

    def each(self, values: npt.NDArray) -> "list[tuple[int, int, npt.NDArray]]":
        """Returns for each tap its row and column in the kernel and what it sees, as [height, width, depth]."""
        rows = (self.height - 1) * self.stride_y + 1
        columns = (self.width - 1) * self.stride_x + 1
        taps = self.taps
        return [
            (
                y,
                x,
                values[y * self.dilation_y :, x * self.dilation_x :][: rows : self.stride_y, : columns : self.stride_x],
            )
            for y in range(taps[0])
            for x in range(taps[1])
        ]

    def convolve(self, values: Integers, weights: npt.NDArray[np.int16], depthwise: bool) -> Integers:
        """Returns the sums of products of a padded input and weights [output channel, height, width, input channel]."""
        largest = int(np.abs(values).max(initial=0)) * int(np.abs(weights).max(initial=0)) * weights[0].size
        # Sums of integers in floating point are exact up to the bits of its fraction, and fast.
        exact: type[np.floating] = np.float32 if largest < 1 << 24 else np.float64
        numbers = values.astype(exact)
        sums = np.zeros((self.height, self.width, len(weights)), exact)
        for y, x, window in self.each(numbers):
            tap = weights[:, y, x].astype(exact)
            sums += window * tap[:, 0] if depthwise else window @ tap.T
        return sums.astype(np.int64)

    def counts(self) -> Integers:
        """Returns the number of elements of each window inside the input."""
        height, width = self._padded_size()
        inside = np.zeros((height, width, 1), np.int64)
        inside[self.top : height - self.bottom, self.left : width - self.right] = 1
        return sum(window for _, _, window in self.each(inside))[:, :, 0]
