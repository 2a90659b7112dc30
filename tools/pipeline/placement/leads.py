"""Tells how packed layers may write their results over their operands."""

import itertools
import math
from collections.abc import Sequence

from tools.artifacts.packed_layer.packed_layer import GROUPED, LINEAR, MVE, Head
from tools.pipeline.placement.placement import Lead

# The output pixels that the kernels for DSP compute at a time.
LANES = 4


def is_pointwise(head: Head) -> bool:
    """Whether each output of a convolution depends on one pixel: is_pointwise() of packed_layers.cpp."""
    return head.kernel == head.stride == (1, 1) and head.padding == (0, 0) and not head.is_depthwise


def lead(head: Head, image: Sequence[int], out: Sequence[int], together: int = 1) -> Lead:
    """Returns the lead of a packed layer, from the order in which its kernel reads and writes.

    Kernels write their outputs in order; packed_layers.h documents what they read before the next outputs.

    Args:
      image, out: shapes, [batch, channels, height, width]; of a linear layer [..., features].
      together: the number of rows of a linear layer that are computed at a time.
    """
    # (bytes written after a step, first byte of the operand that is read after some of them are written)
    steps: list[tuple[int, int]] = []
    if head.kind == LINEAR:
        rows = math.prod(image[:-1])
        for row in range(0, rows, together):
            end = min(row + together, rows)
            # Up to two rows are computed without a copy.
            steps.append((end * out[-1], (end if end - row > LANES // 2 else row) * image[-1]))
        return Lead(max((written - unread for written, unread in steps), default=0))
    (batch, channels, height, width), (_, _, out_height, out_width) = image, out
    if head.is_depthwise and head.channels != channels:
        # Inputs are read again for further outputs.
        return Lead(math.prod(out))
    if is_pointwise(head) and head.kind != GROUPED:
        # The pixels of all images form one row.
        batch, height, out_height, width, out_width = 1, 1, 1, batch * height * width, batch * out_height * out_width
    for n in range(batch):
        written, first = n * out_height * out_width * head.channels, n * height * width * channels
        if head.is_depthwise and any(head.padding) or head.is_by_columns or head.is_channelwise:
            # The rows that a row of outputs needs are copied before, or each output replaces its input.
            for y in range(out_height):
                extent = (head.kernel[0] - 1) * head.dilation[0] + 1
                unread = min(max(y * head.stride[0] - head.padding[0] + extent, 0), height)
                steps.append((written + (y + 1) * out_width * head.channels, first + unread * width * channels))
            continue
        tops = [max(y * head.stride[0] - head.padding[0], 0) for y in range(out_height)]
        lefts = [max(x * head.stride[1] - head.padding[1], 0) for x in range(out_width)]
        windows = [first + (top * width + left) * channels for top in tops for left in lefts]
        # Includes the pixels that follow.
        unread_from = [*itertools.accumulate(reversed([*windows, first + height * width * channels]), min)][::-1]
        count = LANES if head.arrangement != MVE and not head.is_depthwise else 1
        for pixel in range(0, len(windows), count):
            end = min(pixel + count, len(windows))
            # Up to two pixels are computed without a copy, and groups one after another.
            is_copied = end - pixel > LANES // 2 and head.kind != GROUPED
            steps.append((written + end * head.channels, unread_from[end if is_copied else pixel]))
    # The whole image is computed for some channels before others are read.
    step = channels if head.is_by_columns or head.is_channelwise else 1
    return Lead(max((written - unread for written, unread in steps), default=0), step)
