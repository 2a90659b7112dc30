"""Computes 3x3 convolutions with 16 products instead of 36, in otherwise unused memory.

torch_fusion::winograd_convolution computes the same as torch_fusion::convolution, bit by bit, with less than half of
the multiplications, but needs memory for its transformed operands: kernels/cortex_m/winograd.h. The more tiles of two
by two outputs it computes at a time, the less often it transforms the weights. A program's memory is determined by its
largest instruction, so that most others leave a part of it free; the caller may grant more.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from executorch.exir.schema import AllocationDetails, ExecutionPlan, Operator, Program, Tensor

from tools.artifacts.packed_layer.packed_layer import WINOGRAD, WINOGRAD_LANES, Head, round_up
from tools.pipeline.export.backends.cortex_m.pack import join_pairs, scratch_size
from tools.pipeline.export.plan.plan_passes import PlanReport, drop_operators

_CONVOLUTION = "torch_fusion::convolution"
_WINOGRAD = "torch_fusion::winograd_convolution"
# The number of tiles at a time beyond which transforming weights less often saves next to nothing.
_MAX_TILES = 64
# The largest share of its instructions for which a convolution is replaced: the kernel adds code to the image.
_LEAST_GAIN = 0.9


def as_winograd(packed: bytes, tiles: int) -> bytes:
    """Returns the packed constant for computing some tiles at a time."""
    head = replace(Head.unpack(packed), kind=WINOGRAD, group_size=tiles)
    weights = head.tables[2]
    return head.pack() + packed[Head.SIZE : weights] + join_pairs(packed[weights:], 1)


def winograd_lead(head: Head, tiles: int, image: Sequence[int], out: Sequence[int]) -> int:
    """Returns Overlap.lead of a layer that computes some tiles at a time, from the order in which its kernel reads and
    writes.

    Args:
      image, out: shapes, [batch, channels, height, width].
    """
    (batch, channels, height, width), (_, _, out_height, out_width) = image, out
    read, written = [], []
    for n, y, x in itertools.product(range(batch), range(0, out_height, 2), range(0, out_width, 2)):
        top, left = max(y - head.padding[0], 0), max(x - head.padding[1], 0)
        read.append(((n * height + top) * width + left) * channels)
        bottom, right = min(y + 1, out_height - 1), min(x + 1, out_width - 1)
        written.append(((n * out_height + bottom) * out_width + right + 1) * head.channels)
    # Includes the tiles that follow.
    unread = [*itertools.accumulate(reversed([*read, batch * height * width * channels]), min)][::-1]
    ends = [min(end, len(read)) for end in range(tiles, len(read) + tiles, tiles)]
    return max(max(written[:end]) - unread[end] for end in ends)


@dataclass(frozen=True)
class _Convolution:
    """An instruction that can be replaced.

    Attributes:
      index: its index in the plan.
      head: the header of its packed constant, arranged for DSP.
      image, out: shapes.
      room: contiguous free bytes while it runs, including its own scratch memory.
      offset: the start of these bytes.
      distance: bytes from the start of its result to that of its image, if they overlap.
    """

    index: int
    head: Head
    image: Sequence[int]
    out: Sequence[int]
    room: int
    offset: int
    distance: int | None

    def fits(self, tiles: int) -> bool:
        """Whether so many tiles at a time fit into the memory and pay off."""
        if self.scratch(tiles) > self.room or self.instructions(tiles) > _LEAST_GAIN * self._direct:
            return False
        return self.distance is None or winograd_lead(self.head, tiles, self.image, self.out) <= self.distance

    def scratch(self, tiles: int) -> int:
        """Returns the scratch bytes for some tiles at a time."""
        return scratch_size(replace(self.head, kind=WINOGRAD, group_size=tiles), self.image[3])

    @property
    def _count(self) -> int:
        batch, _, height, width = self.out
        return batch * -(-height // 2) * -(-width // 2)

    # Both formulas were fitted to counts on an emulated Cortex-M4, of 4 to 128 channels, and are off by up to a tenth.

    def instructions(self, tiles: int) -> float:
        """Estimates the instructions for some tiles at a time: weights, windows, products and outputs."""
        inputs, outputs = self.head.in_channels, self.head.channels
        weights = math.ceil(self._count / tiles) * 45 * inputs * outputs
        products = round_up(self._count, WINOGRAD_LANES) * outputs * (12.5 * inputs + 32)
        return weights + products + self._count * (60 * inputs + 150 * outputs)

    @property
    def _direct(self) -> float:
        """Estimates the instructions of the original convolution."""
        products = 9 * self.head.in_channels
        pixels = math.prod(self.out) // self.head.channels
        return pixels * (self.head.channels * (0.8 * products + 32) + 1.5 * products)


def use_winograd(program: Program, report: PlanReport, growth: int) -> None:
    """Replaces convolutions of a program's only plan where that takes fewer instructions, in place.

    Args:
      program: with planned memory, for a core with the DSP extension.
      report: the result of optimize_plan().
      growth: the number of bytes by which the program's memory may grow.
    """
    (plan,) = program.execution_plan
    by_constant: dict[int, list[_Convolution]] = defaultdict(list)
    readers: dict[int, int] = defaultdict(int)
    for index, instruction in enumerate(plan.chains[0].instructions):
        for argument in set(instruction.instr_args.args):
            value = plan.values[argument].val
            if isinstance(value, Tensor) and value.data_buffer_idx:
                readers[value.data_buffer_idx] += 1
        if plan.operators[instruction.instr_args.op_index].name == _CONVOLUTION:
            constant = _tensor(plan, index, 1).data_buffer_idx
            found = _find(program, plan, report, index, growth)
            if found is not None:
                by_constant[constant].append(found)
    for constant, layers in by_constant.items():
        # All calls of a layer share its constant.
        choices = range(_MAX_TILES, 0, -WINOGRAD_LANES) if len(layers) == readers[constant] else ()
        tiles = next((tiles for tiles in choices if all(layer.fits(tiles) for layer in layers)), None)
        if tiles is None:
            continue
        program.constant_buffer[constant].storage = as_winograd(program.constant_buffer[constant].storage, tiles)
        for layer in layers:
            _replace(plan, layer, tiles)
    drop_operators(plan)


def _tensor(plan: ExecutionPlan, index: int, argument: int) -> Tensor:
    value = plan.values[plan.chains[0].instructions[index].instr_args.args[argument]].val
    assert isinstance(value, Tensor)
    return value


def _slice(tensor: Tensor) -> slice:
    """Returns the address range of a planned tensor."""
    assert tensor.allocation_info is not None
    start = tensor.allocation_info.memory_offset
    return slice(start, start + math.prod(tensor.sizes))


def _find(program: Program, plan: ExecutionPlan, report: PlanReport, index: int, growth: int) -> _Convolution | None:
    """Returns a convolution, if its kind can be replaced."""
    image, packed, scratch, out = (_tensor(plan, index, argument) for argument in (0, 1, 3, 4))
    head = Head.unpack(program.constant_buffer[packed.data_buffer_idx].storage)
    if not head.can_be_winograd or any(tensor.allocation_info is None for tensor in (image, scratch, out)):
        return None
    now, own, written, read = report.kept[index], _slice(scratch), _slice(out), _slice(image)
    taken = sorted(
        (offset, offset + buffer.nbytes)
        for buffer, offset in zip(report.buffers, report.memory.offsets, strict=True)
        if buffer.first <= now <= buffer.last and not (buffer.first == buffer.last and offset == own.start)
    )
    ends = itertools.accumulate((end for _, end in taken), max, initial=0)
    starts = [*(start for start, _ in taken), report.memory.nbytes + growth]
    room, offset = max((start - round_up(end, 4), round_up(end, 4)) for start, end in zip(starts, ends, strict=True))
    overlaps = max(read.start, written.start) < min(read.stop, written.stop)
    return _Convolution(
        index, head, image.sizes, out.sizes, room, offset, read.start - written.start if overlaps else None
    )


def _replace(plan: ExecutionPlan, layer: _Convolution, tiles: int) -> None:
    operator = Operator(_WINOGRAD, "out")
    if operator not in plan.operators:
        plan.operators.append(operator)
    plan.chains[0].instructions[layer.index].instr_args.op_index = plan.operators.index(operator)
    scratch = _tensor(plan, layer.index, 3)
    scratch.sizes = [layer.scratch(tiles)]
    scratch.allocation_info = AllocationDetails(1, layer.offset & 0xFFFFFFFF, layer.offset >> 32)
    plan.non_const_buffer_sizes[1] = max(plan.non_const_buffer_sizes[1], layer.offset + scratch.sizes[0])
