"""Operations written by hand give what their definition says, and streams that aren't right are refused by name.

//tools/pipeline/export:ethos_u_test compares what Vela emits with the TOSA reference model.
"""

import numpy as np
import pytest

from npu.assembler import assemble, encode_uncompressed, feature_map
from npu.ethos_u55 import CONFIGURATIONS, EthosU55
from npu.fault import NpuFault
from npu.memory import Segments

_CONSTANTS, _ARENA = 0x1000, 0x8000
_OUT = 0x400
_INT8 = {"IFM_PRECISION": 1, "OFM_PRECISION": 1 | 1 << 8}
_PLAIN = {"ACTIVATION": 0, "ACTIVATION_MIN": -128, "ACTIVATION_MAX": 127, "OFM_SCALE": 1}
_ROUND = 2 << 14


class _Device:
    def __init__(self, constants: bytes = b"", name: str = "ethos-u55-128") -> None:
        self.arena = np.zeros(0x800, np.uint8)
        memory = Segments()
        memory.add(_CONSTANTS, np.frombuffer(constants or bytes(16), np.uint8), writable=False)
        memory.add(_ARENA, self.arena, writable=True)
        self._npu = EthosU55(CONFIGURATIONS[name], memory)

    def put(self, values: np.ndarray, address: int = 0) -> None:
        self.arena[address : address + values.nbytes] = np.frombuffer(values.tobytes(), np.uint8)

    def run(self, *steps: dict[str, int] | tuple[str, int]) -> list:
        return self.run_words(assemble(*steps))

    def run_words(self, words: list[int]) -> list:
        return self._npu.run(words, {0: _CONSTANTS, 1: _ARENA})

    def get(self, shape: tuple[int, ...], dtype: type = np.int8) -> np.ndarray:
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        return self.arena[_OUT : _OUT + size].view(dtype).reshape(shape)


def _random(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-128, 128, shape).astype(np.int8)


def _add(second: dict[str, int]) -> tuple:
    scaling = {"OPA_SCALE": 1, "OPB_SCALE": 1, "IFM2_PRECISION": 1, "IFM_UPSCALE": 0}
    first = feature_map("IFM", (3, 4, 5), 0, 1)
    return (first, second, feature_map("OFM", (3, 4, 5), _OUT, 1), _INT8, _PLAIN, scaling, ("ELEMENTWISE", 1))


def test_addition_saturates() -> None:
    device = _Device()
    a, b = _random((3, 4, 5), 1), _random((3, 4, 5), 2)
    device.put(a)
    device.put(b, 0x100)
    device.run(*_add(feature_map("IFM2", (3, 4, 5), 0x100, 1) | {"IFM2_BROADCAST": 0}))
    assert device.get((3, 4, 5)).tolist() == np.clip(a.astype(int) + b, -128, 127).tolist()


def test_addition_of_a_broadcast_tensor_and_of_a_constant() -> None:
    device = _Device()
    a, row = _random((3, 4, 5), 1), _random((1, 1, 5), 2)
    device.put(a)
    device.put(row, 0x100)
    device.run(*_add(feature_map("IFM2", (1, 1, 5), 0x100, 1) | {"IFM2_BROADCAST": 3}))
    assert device.get((3, 4, 5)).tolist() == np.clip(a.astype(int) + row, -128, 127).tolist()
    device.run(*_add({"IFM2_BROADCAST": 0x80, "IFM2_SCALAR": -7, "IFM2_ZERO_POINT": 3}))
    assert device.get((3, 4, 5)).tolist() == np.clip(a.astype(int) - 10, -128, 127).tolist()


class _Convolution:
    """3 x 3 taps, stride 2, padding on top, left and right."""

    height, width, depth = 6, 5, 3
    zero_point = -5

    def __init__(self, depthwise: bool, name: str) -> None:
        self.channels = self.depth if depthwise else 4
        self.out = (3, 3, self.channels)
        self.x = _random((self.height, self.width, self.depth))
        self.weights = _random((self.channels, 3, 3, 1 if depthwise else self.depth), 3)
        # The order of one block: 8 input and 4 or 8 output channels at once, 9 taps filled up to 12.
        stream = [
            int(self.weights[o, tap // 3, tap % 3, i])
            if o < self.channels and i < self.weights.shape[3] and tap < 9
            else 0
            for tap in range(12)
            for o in range(CONFIGURATIONS[name].out_microblock)
            for i in range(1 if depthwise else 8)
        ]
        scales = b"".join(
            (100 * o - 150).to_bytes(5, "little", signed=True) + (3 + o).to_bytes(4, "little") + bytes([12])
            for o in range(self.channels)
        )
        scales += bytes(-len(scales) % 16)
        encoded = encode_uncompressed(stream)
        self.constants = scales + encoded
        self.steps = (
            feature_map("IFM", self.x.shape, 0, 1) | {"IFM_ZERO_POINT": self.zero_point},
            feature_map("OFM", self.out, _OUT, 1) | {"OFM_ZERO_POINT": 9},
            {"IFM_PRECISION": 1, "OFM_PRECISION": 1 | _ROUND, "IFM_UPSCALE": 0} | _PLAIN,
            {"KERNEL_HEIGHT_M1": 2, "KERNEL_WIDTH_M1": 2, "KERNEL_STRIDE": 3 | 4, "OFM_BLK_DEPTH_M1": 15},
            {"IFM_PAD_TOP": 1, "IFM_PAD_LEFT": 1, "IFM_PAD_BOTTOM": 0, "IFM_PAD_RIGHT": 1},
            {"SCALE_REGION": 0, "SCALE_BASE": 0, "SCALE_LENGTH": len(scales)},
            {"WEIGHT_REGION": 0, "WEIGHT_BASE": len(scales), "WEIGHT_LENGTH": len(encoded)},
            ("DEPTHWISE" if depthwise else "CONV", 0),
        )


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("name", ["ethos-u55-32", "ethos-u55-256"])
def test_convolution(depthwise: bool, name: str) -> None:
    """Against loops over the definition."""
    case = _Convolution(depthwise, name)
    device = _Device(case.constants, name)
    device.put(case.x)
    device.run(*case.steps)
    expected = np.zeros(case.out, int)
    for row, column, o in np.ndindex(*case.out):
        total = 100 * o - 150
        for y, k, i in np.ndindex(3, 3, case.depth):
            r, c = 2 * row + y - 1, 2 * column + k - 1
            if 0 <= r < case.height and 0 <= c < case.width and (not depthwise or i == o):
                weight = int(case.weights[o, y, k, 0 if depthwise else i])
                total += (int(case.x[r, c, i]) - case.zero_point) * weight
        expected[row, column, o] = np.clip(((total * (3 + o) + (1 << 11)) >> 12) + 9, -128, 127)
    assert device.get(case.out).tolist() == expected.tolist()


def test_flipped_bits() -> None:
    """Whatever a command stream holds, it ends with results or a fault, and in bounded memory."""
    case = _Convolution(False, "ethos-u55-128")
    words = assemble(*case.steps)
    generator = np.random.default_rng(4)
    faults = 0
    for _ in range(150):
        damaged = list(words)
        damaged[generator.integers(len(words))] ^= 1 << int(generator.integers(32))
        device = _Device(case.constants)
        try:
            device.run_words(damaged)
        except NpuFault:
            faults += 1
    assert faults > 30


def _pool(depth: int, out: tuple[int, int, int]) -> tuple:
    return (
        feature_map("IFM", (4, 4, depth), 0, 1),
        feature_map("OFM", out, _OUT, 1),
        _INT8 | _PLAIN | {"IFM_UPSCALE": 0},
        {"KERNEL_HEIGHT_M1": 1, "KERNEL_WIDTH_M1": 1, "KERNEL_STRIDE": 3},
        {"IFM_PAD_TOP": 0, "IFM_PAD_LEFT": 0, "IFM_PAD_BOTTOM": 0, "IFM_PAD_RIGHT": 0},
    )


def test_pools() -> None:
    device = _Device()
    x = _random((4, 4, 3))
    device.put(x)
    windows = x.astype(int).reshape(2, 2, 2, 2, 3)
    device.run(*_pool(3, (2, 2, 3)), ("POOL", 0))
    assert device.get((2, 2, 3)).tolist() == windows.max((1, 3)).tolist()
    device.run(*_pool(3, (2, 2, 3)), {"OFM_SCALE": 1 | 2 << 32}, {"OFM_PRECISION": 0x101 | _ROUND}, ("POOL", 1))
    assert device.get((2, 2, 3)).tolist() == ((windows.sum((1, 3)) + 2) >> 2).tolist()


def test_table() -> None:
    table = _random((256,), 5)
    device = _Device(table.tobytes())
    x = _random((4, 4, 3))
    device.put(x)
    device.run(
        {"DMA0_SRC_REGION": 0, "DMA0_SRC": 0, "DMA0_DST_REGION": 0x103, "DMA0_DST": 22 * 1024 + 512, "DMA0_LEN": 256},
        ("DMA_START", 0),
        *_pool(3, (4, 4, 3)),
        {"KERNEL_HEIGHT_M1": 0, "KERNEL_WIDTH_M1": 0, "KERNEL_STRIDE": 0, "ACTIVATION": 18},
        ("POOL", 1),
    )
    assert device.get((4, 4, 3)).tolist() == table[x.astype(int) + 128].tolist()


def test_bricks_and_tiles() -> None:
    """20 channels in bricks of 16, whose second row begins elsewhere: a rolling buffer."""
    device = _Device()
    x = _random((2, 3, 20))
    bricks = np.zeros((2, 2, 3, 16), np.int8)
    bricks[:, 0], bricks[:, 1, :, :4] = x[:, :, :16], x[:, :, 16:]
    device.put(bricks[0], 0x100)
    device.put(bricks[1], 0x20)
    device.run(
        feature_map("IFM", (2, 3, 20), 0x100, 1)
        | {"IFM_BASE2": 0x20, "IFM_HEIGHT0_M1": 0, "IFM_STRIDE_C": 48, "IFM_STRIDE_Y": 96},
        feature_map("OFM", (2, 3, 20), _OUT, 1),
        {"IFM_PRECISION": 1 | 1 << 6, "OFM_PRECISION": 1, "IFM_UPSCALE": 0} | _PLAIN,
        {"IFM2_BROADCAST": 0x80, "IFM2_SCALAR": 127, "IFM2_ZERO_POINT": 0, "IFM2_PRECISION": 1},
        ("ELEMENTWISE", 3),
    )
    assert device.get((2, 3, 20)).tolist() == x.tolist()


def test_work_is_counted() -> None:
    device = _Device()
    done = device.run(*_pool(3, (2, 2, 3)), ("POOL", 0))
    assert [operation.name for operation in done] == ["POOL MAX"]
    assert done[0].macs == 48
    assert (done[0].regions[1].read, done[0].regions[1].written) == (48, 12)


_BEYOND_TABLE = {"OFM_ZERO_POINT": 300, "ACTIVATION": 16, "ACTIVATION_MAX": 400}


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([("POOL", 0)], "operation 0, POOL MAX: OFM_HEIGHT_M1 is used, and no command has set it"),
        ([*_pool(3, (2, 2, 3)), ("POOL", 7)], r"pooling mode 7; 0 \(MAX\), 1 \(AVERAGE\) and 2"),
        ([*_pool(3, (2, 2, 3)), {"IFM_BASE0": 0x7F0}, ("POOL", 0)], "bus error: the NPU reads 48 bytes at 0x87f0"),
        ([*_pool(3, (2, 2, 3)), {"OFM_REGION": 0, "OFM_BASE0": 0}, ("POOL", 0)], "writes to 12 bytes at 0x1000"),
        ([*_pool(3, (2, 2, 3)), {"IFM_REGION": 5}, ("POOL", 0)], "region 5 has no base address; 0, 1 have one"),
        ([*_pool(3, (2, 2, 3)), {"IFM_PAD_TOP": 4}, ("POOL", 0)], "padding leaves 0 rows"),
        ([*_pool(3, (2, 2, 3)), {"IFM_PAD_TOP": 2, "OFM_PRECISION": 0x101}, ("POOL", 1)], "nothing but padding"),
        ([*_pool(3, (2, 2, 3)), _BEYOND_TABLE, ("POOL", 0)], "the table of 256 has no entry for"),
        ([{"DMA0_SRC_REGION": 1 << 11, "DMA0_DST_REGION": 1}, ("DMA_START", 0)], "or with indices"),
        ([*_pool(3, (2, 2, 3)), {"OFM_PRECISION": 0x101 | 3 << 14}, ("POOL", 0)], "rounding mode 3; 0, 1 and 2"),
        ([*_pool(3, (2, 2, 3)), {"OFM_PRECISION": 0x1C1}, ("POOL", 0)], "format 3; 0"),
        ([*_pool(3, (2, 2, 3)), {"IFM_DEPTH_M1": 0xFFFF, "IFM_STRIDE_Y": 0}, ("POOL", 0)], "bus error"),
    ],
)
def test_faults(steps: list, message: str) -> None:
    with pytest.raises(NpuFault, match=message):
        _Device().run(*steps)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "command stream: it has no STOP"),
        ([0x3FF, 0], "word 0 is 0x000003ff, which is no command of this NPU"),
        ([0x4000], "it ends within IFM_BASE0"),
    ],
)
def test_damaged_streams(words: list[int], message: str) -> None:
    with pytest.raises(NpuFault, match=message):
        EthosU55(CONFIGURATIONS["ethos-u55-128"], Segments()).run(words, {})
