"""The order in which Ethos-U55 and U65 read weights."""

import functools
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from npu.fault import NpuFault


@dataclass(frozen=True)
class Layer:
    """The parameters of the order. Kernel sizes are in taps, without dilation."""

    out_channels: int
    height: int
    width: int
    in_channels: int  # 1 for a depthwise convolution
    depthwise: bool
    part_kernel_first: bool
    input_bits: int
    dilation_y: int
    dilation_x: int
    block_depth: int  # OFM_BLK_DEPTH
    out_microblock: int  # channels that the multipliers work on at once
    in_microblock: int


@functools.lru_cache(maxsize=64)
def order(layer: Layer) -> npt.NDArray[np.int64]:
    """Returns for each weight of the stream its index in [out_channels, height, width, in_channels], -1 for filling.

    Blocks of output channels come first, in them blocks of input channels, parts of the kernel of at most 8 x 8 taps
    (4 x 4 with dilation), and in those taps before input channels (part kernel first) or after them.
    """
    part_kernel = layer.part_kernel_first and not layer.depthwise
    in_block = 16 if part_kernel or layer.input_bits == 16 else 32
    part_height, part_width = 8 // layer.dilation_y, 8 // layer.dilation_x
    if layer.depthwise:
        round_taps = 4
    elif part_kernel:
        round_taps = 2 if layer.input_bits == 16 else 4
    else:
        round_taps = 1
    micro_out = np.arange(layer.out_microblock)
    micro_in = np.arange(1 if layer.depthwise else layer.in_microblock)
    pieces: list[npt.NDArray[np.int64]] = []
    for out_start in range(0, layer.out_channels, layer.block_depth):
        out_depth = min(layer.block_depth, layer.out_channels - out_start)
        out_blocks = out_start + np.arange(0, out_depth, layer.out_microblock)
        for in_start in range(0, 1 if layer.depthwise else layer.in_channels, in_block):
            if layer.depthwise:
                in_depth = layer.in_microblock
            else:
                in_depth = min(in_block, layer.in_channels - in_start) if part_kernel else in_block
            in_blocks = in_start + np.arange(0, in_depth, layer.in_microblock)
            for y_start in range(0, layer.height, part_height):
                rows = min(part_height, layer.height - y_start)
                for x_start in range(0, layer.width, part_width):
                    columns = min(part_width, layer.width - x_start)
                    taps = np.arange(-(-rows * columns // round_taps) * round_taps)
                    y, x = taps // columns, taps % columns
                    valid_tap = y < rows
                    tap = (y_start + y) * layer.width + x_start + x
                    # Axes: outer input block, output block, tap, inner input block, output channel, input channel.
                    if part_kernel:
                        i = in_blocks[:, None, None, None, None, None] + micro_in
                    else:
                        i = in_blocks[None, None, None, :, None, None] + micro_in
                    o = out_blocks[None, :, None, None, None, None] + micro_out[:, None]
                    index = (o * (layer.height * layer.width) + tap[:, None, None, None]) * layer.in_channels + i
                    valid = valid_tap[:, None, None, None] & (o < layer.out_channels) & (i < layer.in_channels)
                    pieces.append(np.where(valid, index, -1).ravel())
    return np.concatenate(pieces)


def arrange(stream: npt.NDArray[np.int16], layer: Layer) -> npt.NDArray[np.int16]:
    """Returns the weights of a decoded stream as [out_channels, height, width, in_channels].

    Raises:
      NpuFault: The stream has too few weights.
    """
    indices = order(layer)
    if len(stream) < len(indices):
        raise NpuFault(f"weight stream: {len(stream)} weights, of which the operation needs {len(indices)}")
    valid = indices >= 0
    weights = np.zeros(layer.out_channels * layer.height * layer.width * layer.in_channels, np.int16)
    weights[indices[valid]] = stream[: len(indices)][valid]
    return weights.reshape(layer.out_channels, layer.height, layer.width, layer.in_channels)
