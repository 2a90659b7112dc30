"""The order in which Ethos-U85 reads weights, and its second weight format."""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu.fault import NpuFault

# Output channels that one decoder feeds at once.
_INTERLEAVED = 4
_FAST_HEADER_BITS = 256


@dataclass(frozen=True)
class Layer:
    """The parameters of the order. Kernel sizes are in taps, without dilation."""

    out_channels: int
    height: int
    width: int
    in_channels: int  # 1 for a depthwise convolution
    depthwise: bool
    part_kernel_first: bool
    sparse: bool
    input_bits: int
    stride_y: int
    stride_x: int
    dilation_y: int
    dilation_x: int
    out_block: int  # OFM_BLK_DEPTH
    in_block: int
    out_microblock: int
    macs: int
    streams: int  # decoders, which take turns in groups of output channels


class _Order:
    """Indices of one stream."""

    def __init__(self, layer: Layer, stream: int) -> None:
        self.layer = layer
        self.pieces: list[npt.NDArray[np.int64]] = []
        wide = layer.input_bits == 16
        self.tap_round, self.in_step = 1, layer.in_block
        self.strides = (layer.stride_y, layer.stride_x)
        if layer.depthwise:
            self.tap_round, self.in_step = 10, 1
        elif layer.part_kernel_first:
            self.tap_round = 10 if wide or layer.sparse else 5
            self.in_step = 8 if wide and not layer.sparse else layer.in_block
        else:
            self.strides = (1, 1)
        fill = 0 if not wide and layer.macs <= 256 else 2 if layer.macs <= 512 else 6
        self.tap_fill = fill if layer.depthwise else 0
        at_once = 1 if layer.depthwise else 16 if layer.sparse else 8
        groups = np.arange(stream * _INTERLEAVED, layer.out_microblock, _INTERLEAVED * layer.streams)
        self.out = groups[:, None] + np.arange(_INTERLEAVED)
        self.inside = np.arange(0, self.in_step, at_once)[:, None, None, None] + np.arange(at_once)

    def _fill(self, count: int) -> None:
        if count:
            self.pieces.append(np.full(count, -1, np.int64))

    def make(self) -> npt.NDArray[np.int64]:
        layer = self.layer
        in_channels = 1 if layer.depthwise else layer.in_channels
        starts = list(range(0, in_channels, layer.in_block)) if not layer.depthwise else [0]
        for count, out_start in enumerate(range(0, layer.out_channels, layer.out_block)):
            out_depth = min(layer.out_block, layer.out_channels - out_start)
            # Back and forth over the input's blocks: the last one is there still.
            for in_start in reversed(starts) if count % 2 else starts:
                in_depth = 1 if layer.depthwise else min(layer.in_block, layer.in_channels - in_start)
                part_height, part_width = 8 // layer.dilation_y, 8 // layer.dilation_x
                for x in range(0, layer.width, part_width):
                    for y in range(0, layer.height, part_height):
                        part = (y, x, min(part_height, layer.height - y), min(part_width, layer.width - x))
                        for inner in range(0, in_depth, self.in_step):
                            for outer in range(0, out_depth, layer.out_microblock):
                                self._block(part, in_start + inner, out_start + outer)
        return np.concatenate(self.pieces)

    def _block(self, part: tuple[int, int, int, int], in_start: int, out_start: int) -> None:
        layer = self.layer
        top, left, height, width = part
        left_over = -(-height * width // self.tap_round) * self.tap_round
        stride_y, stride_x = self.strides
        o = out_start + self.out[None, :, :, None]
        i = in_start + self.inside
        valid = (o < layer.out_channels) & (i < layer.in_channels)
        base = np.where(valid, o * (layer.height * layer.width * layer.in_channels) + i, -1).ravel()
        inside = base >= 0
        per_microblock = layer.out_microblock // layer.streams
        for first_y in range(stride_y):
            rows = -(-(height - first_y) // stride_y)
            for first_x in range(stride_x):
                columns = -(-(width - first_x) // stride_x)
                for row in range(rows):
                    # Back and forth over the columns.
                    for column in reversed(range(columns)) if row % 2 else range(columns):
                        left_over -= 1
                        tap = (top + first_y + row * stride_y) * layer.width + left + first_x + column * stride_x
                        self.pieces.append(np.where(inside, base + tap * layer.in_channels, -1))
                        if layer.depthwise and left_over % self.tap_round == 0:
                            self._fill(self.tap_fill * per_microblock)
        if left_over:
            self._fill((left_over + self.tap_fill) * self.in_step * per_microblock)


@functools.lru_cache(maxsize=64)
def order(layer: Layer, stream: int) -> npt.NDArray[np.int64]:
    """Returns for each weight of a decoder its index in [out_channels, height, width, in_channels], -1 for filling."""
    return _Order(layer, stream).make()


@functools.lru_cache(maxsize=64)
def interleaved_order(layer: Layer) -> npt.NDArray[np.int64]:
    """Returns the same for a stream in the fast format, which all decoders read in turns of a block."""
    if layer.streams == 1:
        return order(layer, 0)
    single = _Order(layer, 0)
    block = layer.out_microblock * single.in_step * single.tap_round // layer.streams
    streams = [order(layer, stream) for stream in range(layer.streams)]
    pieces = []
    for start in range(0, max(map(len, streams)), block):
        pieces += [stream[start : start + block] for stream in streams]
    return np.concatenate(pieces)


def arrange(weights: npt.NDArray[np.int16], stream: npt.NDArray[np.int16], indices: npt.NDArray[np.int64]) -> None:
    """Puts decoded weights where they belong.

    Args:
      weights: [out_channels, height, width, in_channels], which is written to.

    Raises:
      NpuFault: The stream has too few weights.
    """
    if len(stream) < len(indices):
        raise NpuFault(f"weight stream: {len(stream)} weights, of which the operation needs {len(indices)}")
    valid = indices >= 0
    weights.reshape(-1)[indices[valid]] = stream[: len(indices)][valid]


def decode_fast(stream: bytes) -> npt.NDArray[np.int16]:
    """Returns the weights of a fast stream: a header with a table of 16 weights, then indices into it or weights.

    Raises:
      NpuFault: The stream has no header.
    """
    if len(stream) * 8 < _FAST_HEADER_BITS:
        raise NpuFault(f"weight stream: {len(stream)} bytes, a fast one has a header of {_FAST_HEADER_BITS // 8}")
    header = int.from_bytes(stream[: _FAST_HEADER_BITS // 8], "little")
    raw, small = header & 1, header >> 1 & 1
    adjustment = (header >> 104 & 0xFF ^ 0x80) - 0x80
    coded = [header >> 112 + 9 * entry & 0x1FF for entry in range(16)]
    table = np.array([-(value >> 1) if value & 1 else value >> 1 for value in coded], np.int16)
    data = np.frombuffer(stream[_FAST_HEADER_BITS // 8 :], np.uint8)
    if raw:
        return data.view(np.int8).astype(np.int16) - adjustment
    width = 2 if small else 4
    return table[(data[:, None] >> np.arange(0, 8, width)) & ((1 << width) - 1)].ravel()
