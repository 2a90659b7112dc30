"""Programs that give packed int8 layers what their kernels would read again as if it were checked, or write to.

Each is an error with a name, and no access outside of the tensors.
"""

import dataclasses
import functools
import itertools
import math
import os
import random
import struct
from pathlib import Path
from typing import Any

import pytest
import torch
from executorch.exir._serialize._program import PTEFile, serialize_pte_binary
from executorch.exir.schema import (
    AllocationDetails,
    Buffer,
    Int,
    IntList,
    KernelCall,
    MoveCall,
    Null,
    Operator,
    Program,
    ScalarType,
    SubsegmentOffsets,
    Tensor,
)

from conformance.check import encode_input
from kernels.tests.plans import make_plan, make_tensor
from tools.artifacts.packed_layer.packed_layer import (
    CONVOLUTION,
    DEPTHWISE,
    GROUPED,
    LINEAR,
    LINEAR_INT4,
    POINTWISE_INT4,
    SCALAR,
    Head,
    problem_of,
)
from tools.pipeline.export.backends.cortex_m.int4 import Int4Layer, pack_int4
from tools.pipeline.export.backends.cortex_m.pack import (
    DSP,
    MVE,
    Layer,
    geometry_of,
    pack,
    rows_scratch_size,
    scratch_size,
)
from tools.verify.run_pte.cases import Case, CaseResult, Runner, run_cases

# This machine's, with every kernel, under the sanitizers; no emulator is needed.
RUNNER = Runner(Path(os.environ["RUNNER"]), None, Path())
# A case that the runtime does not end itself ends with one of these.
CRASHES = {"Crash", "Abort", "Fault", "Timeout", "MissingPass", "Host", "Mismatch"}
NAMES = {CONVOLUTION: "convolution", DEPTHWISE: "depthwise_convolution", LINEAR: "linear"}
OTHER_NAMES = {GROUPED: "grouped_convolution"}
OTHER_LAYERS = [(kind, DSP) for kind in OTHER_NAMES]
INT4_NAMES = {LINEAR_INT4: "linear_int4", POINTWISE_INT4: "pointwise_int4"}
INT4_LAYERS = [(kind, arrangement) for kind in INT4_NAMES for arrangement in (DSP, MVE)]
IMAGE_LAYERS = [(kind, arrangement) for kind in (CONVOLUTION, DEPTHWISE) for arrangement in (DSP, MVE)]
LAYERS = [(kind, arrangement) for kind in NAMES for arrangement in (DSP, MVE)]
COPY = Operator("aten::alias_copy", "out")
# Values of the programs made here.
INPUT, PACKED, GEOMETRY, SCRATCH, OUT = range(5)


def _layer(kind: int, is_wide: bool = False) -> Layer:
    torch.manual_seed(kind)
    channels = 8 if kind == GROUPED else 4
    inner = 1 if kind == DEPTHWISE else 4
    side = 1 if kind == LINEAR else 3
    return Layer(
        kind,
        torch.randint(-127, 128, (channels, side, side, inner), dtype=torch.int8),
        torch.randint(-1000, 1000, (channels,), dtype=torch.int32),
        (1, 1),
        (0, 0) if kind == LINEAR else (1, 1),
        (1, 1),
        3,
        -5,
        torch.full((channels,), 1 << 30),
        torch.full((channels,), 1 if is_wide else -4),
        -128,
        127,
        groups=channels // 4 if kind == GROUPED else 1,
    )


def _int4_layer(kind: int) -> Int4Layer:
    torch.manual_seed(kind)
    weight = torch.randint(-8, 8, (4, 4)) * torch.randint(1, 128, (4, 1))
    bias, multipliers, shifts = torch.arange(4), torch.full((4,), 1 << 30), torch.full((4,), -6)
    return Int4Layer(kind, weight, bias, multipliers, shifts, 3, -5, -128, 127)


@functools.cache
def _packed(kind: int, arrangement: int, is_wide: bool) -> bytes:
    if kind in INT4_NAMES:
        packed = pack_int4(_int4_layer(kind), arrangement)
        assert packed is not None
        return bytes(packed.numpy().tobytes())
    return bytes(pack(_layer(kind, is_wide), arrangement).numpy().tobytes())


def _tensor(sizes: list[int], memory: int, dtype: ScalarType = ScalarType.CHAR, constant: int = 0) -> Tensor:
    """Returns a tensor in planned memory of its own; with memory 0 a constant, or one without memory."""
    order = (0, 2, 3, 1) if len(sizes) == 4 else ()
    return make_tensor(dtype, sizes, (memory, 0) if memory else None, order, constant)


class _Made:
    """A program of one packed layer, to be changed before it is written."""

    def __init__(self, kind: int, arrangement: int, is_wide: bool = False) -> None:
        self.kind = kind
        self.packed = bytearray(_packed(kind, arrangement, is_wide))
        head = self.head
        image = [2, 4] if kind in (LINEAR, LINEAR_INT4) else [1, 8 if kind == GROUPED else 4, 6, 6]
        self.shape = image
        has_scratch = kind in (CONVOLUTION, DEPTHWISE, GROUPED)
        scratch = scratch_size(head, image[-1]) if has_scratch else 0
        self.values: list[Any] = [
            _tensor(image, 1),
            _tensor([len(self.packed)], 0, constant=1),
            Int(geometry_of(head) or 0),
            _tensor([scratch], 2, ScalarType.BYTE),
            _tensor(image, 3),
        ]
        self.memories = [0, *[max(72 * 2, scratch)] * 3, len(self.packed)]
        arguments = [INPUT, PACKED, GEOMETRY] + ([SCRATCH] if has_scratch else []) + [OUT, OUT]
        self.call = KernelCall(0, arguments)
        self.instructions: list[Any] = [self.call]
        self.operators = [Operator(f"torch_fusion::{(NAMES | INT4_NAMES | OTHER_NAMES)[kind]}", "out"), COPY]
        # The layer is so many bytes behind the address where it is written.
        self.moved = 0

    @property
    def head(self) -> Head:
        return Head.unpack(bytes(self.packed))

    def case(self) -> Case:
        plan = make_plan(self.values, [INPUT], [OUT], self.instructions, self.operators, self.memories[1:])
        constants = [Buffer(b""), Buffer(bytes(self.packed)), Buffer(bytes(max(self.memories)))]
        program = Program(0, [plan], constants, [], [], SubsegmentOffsets(0, []))
        sizes = self.values[INPUT].sizes
        given = torch.zeros(sizes, dtype=torch.int8)
        if len(sizes) == 4:
            given = given.to(memory_format=torch.channels_last)
        data = bytes(serialize_pte_binary(PTEFile(program=program)))
        if self.moved:
            # The constants' offsets in their segment.
            end = (len(self.packed) + 15) // 16 * 16
            offsets = struct.pack("<3Q", 0, 0, end)
            assert data.count(offsets) == 1
            data = data.replace(offsets, struct.pack("<3Q", 0, self.moved, end))
        return Case(data, (encode_input(given),))


def _run(*made: _Made) -> list[CaseResult]:
    return run_cases(RUNNER, [program.case() for program in made])


def _check_refused(made: _Made | list[_Made], error: str, step: str, message: str) -> None:
    for result in _run(*(made if isinstance(made, list) else [made])):
        assert (result.error, result.step) == (error, step), result.text()
        assert any(message in line for line in result.messages), result.text()


@pytest.mark.parametrize(("kind", "arrangement"), LAYERS)
def test_sound_programs_run(kind: int, arrangement: int) -> None:
    made = [_Made(kind, arrangement), _Made(kind, arrangement, is_wide=True)]
    assert [program.head.is_wide for program in made] == [0, 1]
    assert [result.error for result in _run(*made)] == ["Ok", "Ok"]
    assert not any(problem_of(bytes(program.packed)) for program in made)


@pytest.mark.parametrize(("kind", "arrangement"), LAYERS)
def test_a_layer_that_is_no_constant_is_refused(kind: int, arrangement: int) -> None:
    # A copy of it is in the memory of the layer's output.
    copied = _Made(kind, arrangement)
    copied.values += [_tensor([len(copied.packed)], 3)]
    copied.memories[3] = max(copied.memories[3], len(copied.packed))
    copied.instructions.insert(0, KernelCall(1, [PACKED, len(copied.values) - 1, len(copied.values) - 1]))
    copied.call.args[1] = len(copied.values) - 1
    _check_refused(copied, "InvalidProgram", "load", "has to be a constant")
    # A tensor without memory, or nothing at all, which a move makes the layer.
    for value in (_tensor([len(copied.packed)], 0), Null()):
        moved = _Made(kind, arrangement)
        moved.values += [value]
        moved.instructions.insert(0, MoveCall(PACKED, len(moved.values) - 1))
        moved.call.args[1] = len(moved.values) - 1
        _check_refused(moved, "InvalidProgram", "load", "has to be a constant")


@pytest.mark.parametrize(("kind", "arrangement"), LAYERS)
def test_a_layer_that_becomes_another_is_refused(kind: int, arrangement: int) -> None:
    made = _Made(kind, arrangement)
    made.values += [_tensor([len(made.packed)], 4)]
    made.instructions.append(MoveCall(len(made.values) - 1, PACKED))
    _check_refused(made, "InvalidProgram", "load", "changes what must stay")
    # Its tensor, which a move gives to another value, gets other memory.
    viewed = _Made(kind, arrangement)
    first = len(viewed.values)
    viewed.values += [_tensor([len(viewed.packed)], 4), _tensor([1], 0), Int(len(viewed.packed)), IntList([first + 2])]
    viewed.operators.append(Operator("executorch_prim::et_view", "default"))
    viewed.instructions += [MoveCall(PACKED, first + 1), KernelCall(2, [first, first + 3, first + 1])]
    _check_refused(viewed, "InvalidProgram", "load", "changes what must stay")


@pytest.mark.parametrize(("kind", "arrangement"), [*IMAGE_LAYERS, *OTHER_LAYERS])
def test_scratch_memory_that_is_a_constant_is_refused(kind: int, arrangement: int) -> None:
    made = _Made(kind, arrangement)
    made.values[SCRATCH] = _tensor(made.values[SCRATCH].sizes, 0, ScalarType.BYTE, constant=2)
    _check_refused(made, "InvalidProgram", "execute", "is a constant, and the operator writes to it")
    # A move makes it one.
    moved = _Made(kind, arrangement)
    moved.values += [_tensor(moved.values[SCRATCH].sizes, 0, ScalarType.BYTE, constant=2)]
    moved.instructions.insert(0, MoveCall(len(moved.values) - 1, SCRATCH))
    _check_refused(moved, "InvalidProgram", "execute", "is a constant, and the operator writes to it")


def test_shifts_out_of_range_are_refused() -> None:
    made = []
    for layer, is_wide, shift in itertools.product(LAYERS, (False, True), (-128, -101, -63, 32, 127)):
        made.append(_Made(*layer, is_wide))
        struct.pack_into("b", made[-1].packed, made[-1].head.tables[1] + made[-1].head.factors - 1, shift)
    _check_refused(made, "InvalidProgram", "load", "shifts are out of range")
    assert {problem_of(bytes(each.packed)) for each in made} == {"a shift is out of range"}


def test_padding_whose_scratch_memory_has_no_size_is_refused() -> None:
    # 15 rows of 2 * 32767 pixels of 2^16 - 4 channels are more than 2^32 bytes.
    made = _Made(DEPTHWISE, DSP)
    channels = (1 << 16) - 4
    made.packed[:] = made.packed[: Head.SIZE] + bytes((4 + 4 + 1 + 15 * 15) * channels)
    struct.pack_into("<2i8H", made.packed, 4, channels, channels, 15, 15, 0x7FFF, 0x7FFF, 0x7FFF, 0x7FFF, 1, 1)
    made.values[PACKED].sizes = [len(made.packed)]
    made.values[INPUT].sizes = [1, channels, 2, 2]
    made.values[SCRATCH].sizes = [16]
    made.values[OUT].sizes = [1, channels, 2, 2]
    made.memories = [0, 4 * channels, 16, 4 * channels]
    _check_refused(made, "InvalidArgument", "execute", "scratch has 16 bytes")
    assert problem_of(bytes(made.packed)) == "its padding is out of range"


def test_too_little_scratch_memory_of_a_linear_layer_of_many_rows_is_refused() -> None:
    for arrangement in (DSP, MVE):
        for size, problem in ((rows_scratch_size(_Made(LINEAR, arrangement).head), ""), (16, "scratch has 16 bytes")):
            made = _Made(LINEAR, arrangement)
            made.operators[0] = Operator("torch_fusion::linear_rows", "out")
            made.values[SCRATCH].sizes = [size]
            made.call.args.insert(SCRATCH, SCRATCH)
            if problem:
                _check_refused(made, "InvalidArgument", "execute", problem)
            else:
                assert [result.error for result in _run(made)] == ["Ok"]


def test_padding_far_beside_an_image_is_not_read() -> None:
    # The last window of a row begins 32767 pixels of 2^16 - 4 channels behind the image: about 2^31 bytes.
    made = _Made(CONVOLUTION, DSP)
    channels = (1 << 16) - 4
    made.packed[:] = made.packed[: Head.SIZE] + bytes(20 + 2 * channels)
    struct.pack_into("<2i8H", made.packed, 4, channels, 1, 1, 1, 1, 0x7FFF, 0, 0x7FFF, 1, 1)
    made.values[PACKED].sizes = [len(made.packed)]
    made.values[INPUT].sizes = [1, channels, 2, 4]
    made.values[SCRATCH].sizes = [8 * channels]
    made.values[OUT].sizes = [1, 1, 2, 3]
    made.memories = [0, 8 * channels, 8 * channels, 8 * channels]
    (result,) = _run(made)
    assert result.error == "Ok", result.text()


def test_ranges_that_are_empty_give_some_outputs_and_are_not_linked() -> None:
    for low, high in ((1, 0), (-129, 127), (-128, 128)):
        made = _Made(LINEAR, DSP)
        struct.pack_into("<2h", made.packed, Head.SIZE - 4, low, high)
        assert [result.error for result in _run(made)] == ["Ok"]
        assert problem_of(bytes(made.packed)) == "the range of its outputs is empty, or not within int8"


@pytest.mark.parametrize("position", [8, 9])
def test_factors_that_are_no_constants_are_refused(position: int) -> None:
    made = _Made(CONVOLUTION, DSP)
    made.operators[0] = Operator("cortex_m::quantized_conv2d", "out")

    def add(*values: Any) -> int:
        made.values.extend(values)
        return len(made.values) - 1

    one, zero = add(Int(1)), add(Int(0))
    ones, zeros = add(IntList([one, one])), add(IntList([zero, zero]))
    low, high, none = add(Int(-128)), add(Int(127)), add(Null())
    weight = _tensor([4, 1, 1, 4], 0, constant=2)
    weight.dim_order = [0, 1, 2, 3]  # type: ignore[assignment]
    multipliers, shifts = (_tensor([4], 0, ScalarType.INT, constant=2) for _ in range(2))
    numbers = [ones, zeros, ones, zero, zero]
    factors = [add(multipliers), add(shifts)]
    made.call.args[:] = [INPUT, add(weight), none, *numbers, *factors, low, high, SCRATCH, OUT, OUT]
    assert [result.error for result in _run(made)] == ["Ok"]
    # It is in the memory of the output.
    moved = made.values[made.call.args[position]]
    moved.data_buffer_idx, moved.allocation_info = 0, AllocationDetails(3, 0, 0)
    _check_refused(made, "InvalidProgram", "load", "has to be a constant")
    _check_refused(made, "InvalidProgram", "load", f"argument {position} of operator cortex_m::quantized_conv2d")


@pytest.mark.parametrize("moved", [1, 2, 4])
def test_a_layer_that_lies_misaligned_is_refused(moved: int) -> None:
    made = [_Made(*layer) for layer in LAYERS]
    for each in made:
        each.moved = moved
    _check_refused(made, "InvalidProgram", "load", "")


@pytest.mark.parametrize(("kind", "arrangement"), INT4_LAYERS)
def test_int4_layers_are_checked_when_they_are_loaded(kind: int, arrangement: int) -> None:
    sound = _Made(kind, arrangement)
    assert [result.error for result in _run(sound)] == ["Ok"]
    assert problem_of(bytes(sound.packed)) is None
    _, shifts, weights = sound.head.tables
    # (place, byte): is_wide, a group of 33 inputs, more channels than there are weights, and a shift to the left.
    for place, byte, message in (
        (3, 1, "sizes are out of range"),
        (6, 33, "sizes are out of range"),
        (8, 9, "too short"),
        (4, 200, "too short"),
        (shifts, 100, "shifts are out of range"),
    ):
        made = _Made(kind, arrangement)
        made.packed[place] = byte
        _check_refused(made, "InvalidProgram", "load", message)
        assert problem_of(bytes(made.packed)), place
    # Its kind is not its operator's.
    other = _Made(kind, arrangement)
    other.packed[2] = LINEAR_INT4 + POINTWISE_INT4 - kind
    _check_refused(other, "InvalidProgram", "execute", "is none of its operator's")
    # Whatever the weights and factors are, they are integers.
    for byte in (0x00, 0x80, 0xFF):
        made = _Made(kind, arrangement)
        made.packed[weights:] = bytes([byte]) * (len(made.packed) - weights)
        assert [result.error for result in _run(made)] == ["Ok"]


@pytest.mark.parametrize("changes", [{"group_size": 6}, {"group_size": 16}, {"group_size": 2}, {"kernel": (12, 12)}])
def test_groups_that_the_kernel_does_not_compute_are_refused(changes: dict[str, Any]) -> None:
    sound = _Made(GROUPED, DSP)
    assert [result.error for result in _run(sound)] == ["Ok"]
    made = _Made(GROUPED, DSP)
    made.packed[: Head.SIZE] = dataclasses.replace(made.head, **changes).pack()
    made.packed += bytes(8192)
    made.values[PACKED].sizes = [len(made.packed)]
    _check_refused(made, "InvalidProgram", "execute", "are none that its operator has")
    assert problem_of(bytes(made.packed)) == "its groups are none that its kernel computes"


def test_groups_without_inputs_are_refused() -> None:
    made = _Made(GROUPED, DSP)
    made.packed[: Head.SIZE] = dataclasses.replace(made.head, group_size=0).pack()
    _check_refused(made, "InvalidProgram", "load", "sizes are out of range")


def test_corrupted_layers_break_nothing() -> None:
    """Each byte of heads, every third one of tables, and some of both at once: an error with a name, or some result."""
    rng = random.Random(0)
    made = []
    for kind, arrangement in [*LAYERS, *INT4_LAYERS, *OTHER_LAYERS]:
        for is_wide in (False, True) if kind in NAMES else (False,):
            end = _Made(kind, arrangement, is_wide).head.tables[2]
            for place in [*range(Head.SIZE), *range(Head.SIZE + rng.randrange(3), end, 3)]:
                program = _Made(kind, arrangement, is_wide)
                program.packed[place] = rng.choice((rng.randrange(256), 0, 1, 127, 128, 255))
                if rng.random() < 0.3:
                    program.packed[rng.randrange(Head.SIZE)] = rng.choice((0, 1, 2, 127, 128, 255))
                made.append(program)
    results = _run(*made)
    crashed = [result.text() for result in results if result.error in CRASHES]
    assert not crashed, f"{len(crashed)} of {len(made)}:\n" + "\n".join(crashed[:20])
    unnamed = [result for result in results if result.error != "Ok" and not result.messages]
    assert not unnamed
    # The export has refused programs that a device refuses as none.
    pairs = zip(made, results, strict=True)
    missed = [result.text() for each, result in pairs if _is_refused(result) and problem_of(bytes(each.packed)) is None]
    assert not missed


def _is_refused(result: CaseResult) -> bool:
    """Returns whether a packed layer itself is refused, not for another operator or core, nor for its tensors."""
    return result.error == "InvalidProgram" and not any("none of its operator's" in line for line in result.messages)


def _padded(kernel: tuple[int, int], stride: int, channels: int) -> Layer:
    """Returns a convolution of two channels whose output has a single pixel."""
    layer = _layer(CONVOLUTION)
    weight = torch.randint(-127, 128, (channels, *kernel, 2), dtype=torch.int8)
    bias, multipliers, shifts = (each[:1].expand(channels) for each in (layer.bias, layer.multipliers, layer.shifts))
    changes = {"weight": weight, "bias": bias, "multipliers": multipliers, "shifts": shifts}
    return dataclasses.replace(layer, **changes, stride=(stride, stride), padding=(0, 0))


@pytest.mark.parametrize("arrangement", [DSP, MVE, SCALAR])
def test_the_largest_layers_run_and_no_larger_ones(arrangement: int) -> None:
    """Kernels and strides at the limits that the device's checks and the export share, and one beyond each."""
    made, sound = [], []
    for kernel, stride, is_sound in [
        ((256, 1), 128, True),
        ((1, 512), 1024, True),
        ((0x7FFF, 2), 1, True),
        ((0x8000, 1), 1, False),
        ((1, 0x8000), 1, False),
        ((257, 256), 1, False),
        ((3, 3), 0x7FFF, True),
        ((3, 3), 0x8000, False),
    ]:
        program = _Made(CONVOLUTION, arrangement if arrangement != SCALAR else DSP)
        layer = _padded(kernel, stride, 2)
        program.packed[:] = pack(layer, arrangement).numpy().tobytes()
        program.values[PACKED].sizes = [len(program.packed)]
        program.values[INPUT].sizes, program.values[OUT].sizes = [1, 2, *kernel], [1, 2, 1, 1]
        size = scratch_size(program.head, kernel[1])
        program.values[SCRATCH].sizes = [size]
        program.memories = [0, 2 * math.prod(kernel), size, 16, len(program.packed)]
        made.append(program)
        sound.append(is_sound)
    assert [problem_of(bytes(each.packed)) is None for each in made] == sound
    results = _run(*made)
    assert [result.error for result in results] == ["Ok" if is_sound else "InvalidProgram" for is_sound in sound]
