"""The NPU as a driver sees it: registers, a run that CMD starts, and the bits of STATUS that say how it ended."""

import numpy as np
import pytest

from npu.assembler import assemble
from npu.device import Device
from npu.memory import Segments

_COMMANDS, _ARENA = 0x2000, 0x8000
_STATUS, _CMD, _RESET, _QBASE, _QSIZE, _PROT, _CONFIG, _BASEP1 = 0x04, 0x08, 0x0C, 0x10, 0x20, 0x24, 0x28, 0x88
_INTERRUPT, _BUS_ERROR, _COMMAND_ERROR, _END = 1 << 1, 1 << 2, 1 << 4, 1 << 5
_DMA = {"DMA0_SRC_REGION": 1, "DMA0_DST_REGION": 1, "DMA0_SRC": 0, "DMA0_DST": 32, "DMA0_LEN": 16}


def _run(*steps: dict[str, int] | tuple[str, int], words: list[int] | None = None) -> tuple[Device, np.ndarray]:
    arena = np.arange(64, dtype=np.uint8)
    stream = np.array(assemble(*steps) if words is None else words, np.uint32)
    memory = Segments()
    memory.add(_COMMANDS, stream.view(np.uint8), writable=False)
    memory.add(_ARENA, arena, writable=True)
    device = Device("ethos-u55-128", memory)
    device.write(_RESET, 1)
    for offset, value in ((_QBASE, _COMMANDS), (_QSIZE, stream.nbytes), (_BASEP1, _ARENA)):
        device.write(offset, value)
    device.write(_CMD, 1)
    return device, arena


def test_a_run_ends() -> None:
    device, arena = _run(_DMA, ("DMA_START", 0))
    assert device.read(_STATUS) == _INTERRUPT | _END
    assert arena[32:48].tolist() == list(range(16))
    assert [operation.name for operation in device.operations] == ["DMA_START"]
    device.write(_CMD, 2)
    assert device.read(_STATUS) == _END


@pytest.mark.parametrize(
    ("steps", "words", "status", "said"),
    [
        ((_DMA | {"DMA0_DST": 60}, ("DMA_START", 0)), None, _BUS_ERROR, "bus error"),
        ((), [0x3FF], _COMMAND_ERROR, "is no command of this NPU"),
        ((), [], _COMMAND_ERROR, "it has no STOP"),
    ],
)
def test_a_run_fails(steps, words, status, said) -> None:
    device, _ = _run(*steps, words=words)
    assert device.read(_STATUS) == _INTERRUPT | status
    assert [said in fault for fault in device.faults] == [True]


@pytest.mark.parametrize(
    ("accelerator", "identity", "config"),
    # Product, and what the product has: internal memory in KiB or ports and weight decoders, log2 of the multipliers.
    [
        ("ethos-u65-512", 0x10060000, 1 << 28 | 96 << 8 | 9),
        ("ethos-u85-1024", 0x20000000, 2 << 28 | 2 << 12 | 1 << 10 | 1 << 8 | 1 << 4 | 10),
    ],
)
def test_another_npu(accelerator: str, identity: int, config: int) -> None:
    device = Device(accelerator, Segments())
    assert (device.read(0), device.read(_CONFIG)) == (identity, config)


def test_a_reset() -> None:
    device, _ = _run()
    device.write(_RESET, 3)
    assert (device.read(_STATUS), device.read(_PROT), device.read(_QSIZE)) == (0, 3, 0)
    # Product, internal memory in KiB, log2 of the multipliers.
    assert device.read(_CONFIG) == 0 << 28 | 24 << 8 | 7
