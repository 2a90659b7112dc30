"""Operations written by hand give what their definition says, and streams that aren't right are refused by name.

//tools/pipeline/export:ethos_u_test compares what Vela emits with the TOSA reference model.
"""

import numpy as np
import pytest

from npu.assembler import assemble, encode_uncompressed, feature_map
from npu.commands_u85 import COMMANDS
from npu.ethos_u85 import CONFIGURATIONS, EthosU85
from npu.fault import NpuFault
from npu.memory import Segments
from npu.weight_order_u85 import Layer, decode_fast, interleaved_order, order

_CONSTANTS, _ARENA = 0x1000, 0x8000
_OUT = 0x400
_INT8 = 1 | 1 << 8
_PLAIN = {
    "IFM_PRECISION": 1,
    "OFM_PRECISION": _INT8,
    "IFM_UPSCALE": 0,
    "ACTIVATION": 0,
    "ACTIVATION_MIN": -128,
    "ACTIVATION_MAX": 127,
    "OFM_SCALE": 1,
    "ACC_FORMAT": 0x100,
}
_NATURAL = 1 << 13 << 32


class _Device:
    def __init__(self, constants: bytes = b"", name: str = "ethos-u85-256") -> None:
        self.arena = np.zeros(0x800, np.uint8)
        memory = Segments()
        memory.add(_CONSTANTS, np.frombuffer(constants or bytes(16), np.uint8), writable=False)
        memory.add(_ARENA, self.arena, writable=True)
        self._npu = EthosU85(CONFIGURATIONS[name], memory)

    def put(self, values: np.ndarray, address: int = 0) -> None:
        self.arena[address : address + values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)

    def run(self, *steps: dict[str, int] | tuple[str, int]) -> None:
        self._npu.run(assemble(*steps, commands=COMMANDS), {0: _CONSTANTS, 1: _ARENA})

    def get(self, shape: tuple[int, ...]) -> np.ndarray:
        return self.arena[_OUT : _OUT + int(np.prod(shape))].view(np.int8).reshape(shape)


def _random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


_SHAPE = (3, 4, 5)


def _sum(first: dict[str, int], second: dict[str, int], out: dict[str, int]) -> tuple:
    scaling = {"IFM_SCALE": 1, "IFM2_SCALE": 1, "IFM_BROADCAST": 0, "IFM2_BROADCAST": 0, "IFM2_PRECISION": 1}
    return (_PLAIN, scaling, first, second, out, ("ELEMENTWISE", 1))


def test_addition_with_scales() -> None:
    device = _Device()
    a, b = _random(_SHAPE, 1), _random(_SHAPE, 2)
    device.put(a)
    device.put(b, 0x100)
    device.run(
        *_sum(
            feature_map("IFM", _SHAPE, 0, 1) | {"IFM_SCALE": 3 << 4},
            feature_map("IFM2", _SHAPE, 0x100, 1) | {"IFM2_SCALE": 5 << 6 | _NATURAL | 2 << 32},
            feature_map("OFM", _SHAPE, _OUT, 1) | {"OFM_SCALE": 1 | _NATURAL | 8 << 32},
        )
    )
    total = a.astype(int) * 48 + b.astype(int) * 80
    assert device.get(_SHAPE).tolist() == np.clip((total + 128) >> 8, -128, 127).tolist()


def test_chained_operations() -> None:
    """The first one's output goes to a buffer of the NPU, which the second reads."""
    device = _Device()
    a, b, c = (_random(_SHAPE, seed) // 4 for seed in (1, 2, 3))
    for index, values in enumerate((a, b, c)):
        device.put(values, 0x100 * index)
    chained = feature_map("OFM", _SHAPE, 0, 1) | {"OFM_REGION": 1, "OFM_PRECISION": _INT8 | 2 << 14}
    device.run(
        *_sum(feature_map("IFM", _SHAPE, 0, 1), feature_map("IFM2", _SHAPE, 0x100, 1), chained),
        *_sum(
            {"IFM_REGION": 1, "IFM_PRECISION": 1 | 2 << 14, "IFM_ZERO_POINT": 0},
            feature_map("IFM2", _SHAPE, 0x200, 1),
            feature_map("OFM", _SHAPE, _OUT, 1) | {"OFM_PRECISION": _INT8},
        ),
    )
    assert device.get(_SHAPE).tolist() == (a.astype(int) + b + c).tolist()


def test_bricks_of_64_bits() -> None:
    """The brick that has no whole 16 channels ends with memory."""
    device = _Device()
    bricks = feature_map("IFM", _SHAPE, 0x800 - 11 * 128 - 5 * 8, 8) | {"IFM_STRIDE_Y": 512, "IFM_PRECISION": 0x4D}
    device.run(*_sum(bricks, _B, feature_map("OFM", _SHAPE, _OUT, 1)))
    assert not device.get(_SHAPE).any()


@pytest.mark.parametrize(
    ("number", "axes"), [(1, (1, 0, 2)), (2, (0, 2, 1)), (3, (1, 2, 0)), (6, (2, 0, 1)), (7, (2, 1, 0))]
)
def test_transposed_output(number: int, axes: tuple[int, int, int]) -> None:
    device = _Device()
    x = _random(_SHAPE)
    device.put(x)
    out = tuple(_SHAPE[axis] for axis in axes)
    sizes = {"OFM_HEIGHT_M1": _SHAPE[0] - 1, "OFM_WIDTH_M1": _SHAPE[1] - 1, "OFM_DEPTH_M1": _SHAPE[2] - 1}
    device.run(
        _PLAIN,
        feature_map("IFM", _SHAPE, 0, 1),
        feature_map("OFM", out, _OUT, 1) | sizes | {"OFM_PRECISION": _INT8 | number << 11},
        {"KERNEL_HEIGHT_M1": 0, "KERNEL_WIDTH_M1": 0, "KERNEL_STRIDE": 0},
        {"IFM_PAD_TOP": 0, "IFM_PAD_LEFT": 0, "IFM_PAD_BOTTOM": 0, "IFM_PAD_RIGHT": 0},
        ("POOL", 3),
    )
    assert device.get(out).tolist() == x.transpose(axes).tolist()


def _layer(**changed: object) -> Layer:
    fields = {
        "out_channels": 20,
        "height": 3,
        "width": 3,
        "in_channels": 21,
        "depthwise": False,
        "part_kernel_first": False,
        "sparse": False,
        "input_bits": 8,
        "stride_y": 1,
        "stride_x": 2,
        "dilation_y": 1,
        "dilation_x": 1,
        "out_block": 16,
        "in_block": 32,
        "out_microblock": 16,
        "macs": 256,
        "streams": 1,
    }
    return Layer(**(fields | changed))


@pytest.mark.parametrize("changed", [
    {},
    {"part_kernel_first": True, "in_block": 16},
    {"part_kernel_first": True, "in_block": 16, "input_bits": 16},
    {"depthwise": True, "in_channels": 1},
    {"depthwise": True, "in_channels": 1, "input_bits": 16, "height": 11, "width": 9},
    {"streams": 4, "macs": 1024, "out_microblock": 32, "out_block": 32},
])  # fmt: skip
def test_each_weight_is_read_once(changed: dict) -> None:
    layer = _layer(**changed)
    indices = np.concatenate([order(layer, stream) for stream in range(layer.streams)])
    weights = np.sort(indices[indices >= 0])
    assert weights.tolist() == list(range(layer.out_channels * layer.height * layer.width * layer.in_channels))
    if not layer.depthwise:
        assert np.sort(interleaved_order(layer)).tolist() == np.sort(indices).tolist()


def _fast(raw: bool, small: bool, adjustment: int, table: list[int]) -> bytes:
    header = int(raw) | int(small) << 1 | (adjustment & 0xFF) << 104
    for index, weight in enumerate(table):
        header |= (abs(weight) << 1 | (weight < 0)) << 112 + 9 * index
    return header.to_bytes(32, "little")


def test_fast_weights() -> None:
    assert decode_fast(_fast(True, False, 3, []) + bytes([1, 0xFF, 0x80])).tolist() == [-2, -4, -131]
    table = [5, -7, 200, 0]
    assert decode_fast(_fast(False, True, 0, table) + bytes([0b11_10_01_00])).tolist() == table
    assert decode_fast(_fast(False, False, 0, table) + bytes([0x12])).tolist() == [200, -7]
    with pytest.raises(NpuFault, match="5 bytes, a fast one has a header of 32"):
        decode_fast(bytes(5))


def test_convolution_of_one_tap() -> None:
    x, weights = _random((2, 2, 8)), _random((8, 8), 3)
    layer = _layer(out_channels=8, in_channels=8, height=1, width=1)
    indices = order(layer, 0)
    stream = encode_uncompressed(np.where(indices >= 0, weights.ravel()[indices], 0))
    record = (50).to_bytes(4, "little") + (1).to_bytes(4, "little") + bytes([6, 0])
    scales = record * 8
    device = _Device(scales + stream)
    device.put(x)
    device.run(
        _PLAIN,
        feature_map("IFM", (2, 2, 8), 0, 1),
        feature_map("OFM", (2, 2, 8), _OUT, 1) | {"OFM_PRECISION": 1, "OFM_SCALE": 1 | _NATURAL},
        {"KERNEL_HEIGHT_M1": 0, "KERNEL_WIDTH_M1": 0, "KERNEL_STRIDE": 0, "OFM_BLK_DEPTH_M1": 15},
        {"IFM_PAD_TOP": 0, "IFM_PAD_LEFT": 0, "IFM_PAD_BOTTOM": 0, "IFM_PAD_RIGHT": 0},
        {"SCALE_REGION": 0, "SCALE_BASE": 0, "SCALE_LENGTH": len(scales), "WEIGHT_FORMAT": 0},
        {"WEIGHT_REGION": 0, "WEIGHT_BASE": len(scales), "WEIGHT_LENGTH": len(stream)},
        ("CONV", 0),
    )
    total = x.astype(int) @ weights.astype(int).T + 50
    assert device.get((2, 2, 8)).tolist() == np.clip((total + 32) >> 6, -128, 127).tolist()


def test_indexed_dma() -> None:
    rows = _random((6, 4))
    indices = np.array([5, 0, 3], "<i4")
    device = _Device(rows.tobytes() + indices.tobytes())
    steps = {
        "DMA0_SRC_REGION": 1 << 11,
        "DMA0_SRC": 0,
        "DMA0_DST_REGION": 1,
        "DMA0_DST": _OUT,
        "DMA0_LEN": 4,
        "DMA0_SIZE0": 3,
        "DMA0_SRC_STRIDE0": 4,
        "DMA0_DST_STRIDE0": 4,
        "DMA0_IDX_REGION": 0,
        "DMA0_IDX": 24,
        "DMA0_IDX_MAX": 5,
    }
    device.run(steps, ("DMA_START", 0))
    assert device.get((3, 4)).tolist() == rows[indices].tolist()
    with pytest.raises(NpuFault, match="an index of a DMA is not among 0 to 4"):
        device.run(steps | {"DMA0_IDX_MAX": 4}, ("DMA_START", 0))
    # Indices come with the data: what the largest one would reach has to be there.
    with pytest.raises(NpuFault, match="bus error"):
        device.run(steps | {"DMA0_IDX_MAX": 9}, ("DMA_START", 0))


_CHAINED = {"IFM_REGION": 3, "IFM_PRECISION": 1 | 2 << 14, "IFM_ZERO_POINT": 0}
_A, _B = feature_map("IFM", _SHAPE, 0, 1), feature_map("IFM2", _SHAPE, 0, 1)
_TO_CHAIN = feature_map("OFM", _SHAPE, 0, 1) | {"OFM_REGION": 3, "OFM_PRECISION": _INT8 | 2 << 14}
_BEYOND_TABLE = {"OFM_ZERO_POINT": 300, "ACTIVATION": 4, "ACTIVATION_MAX": 400}
_PADDED = {"KERNEL_HEIGHT_M1": 0, "KERNEL_WIDTH_M1": 0, "KERNEL_STRIDE": 0, "IFM_PAD_TOP": 1} | dict.fromkeys(
    ("IFM_PAD_LEFT", "IFM_PAD_BOTTOM", "IFM_PAD_RIGHT"), 0
)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("ELEMENTWISE", 14)], "elementwise mode 14; 0, 1, 2"),
        (_sum(_CHAINED, {}, feature_map("OFM", _SHAPE, 0, 1)), "IFM is chained to buffer 3, which no operation before"),
        (
            (*_sum(_A, _B, _TO_CHAIN), *_sum(_CHAINED, _B, feature_map("OFM", (3, 4, 4), 0, 1))),
            r"IFM is chained to \(3, 4, 5\), and has shape \(3, 4, 4\)",
        ),
        (_sum(_A, _B, _TO_CHAIN | {"OFM_PRECISION": 1 | 4 << 11 | 3 << 14}), "transpose 4; 0, 1"),
        (_sum(_A, _B, feature_map("OFM", _SHAPE, 0, 1) | _BEYOND_TABLE), "the table of 256 has no entry for"),
        (
            [_PLAIN, _A, _B, feature_map("OFM", _SHAPE, 0, 1), _PADDED, ("CONV", 1)],
            r"a matrix product of \(2, 4\) rows and columns gives \(3, 4\)",
        ),
        ([{"DMA0_SRC_REGION": 1 << 8, "DMA0_DST_REGION": 0}, ("DMA_START", 0)], "only a destination can be"),
    ],
)
def test_faults(steps: list, message: str) -> None:
    with pytest.raises(NpuFault, match=message):
        _Device().run(*steps)
