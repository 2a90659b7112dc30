"""Tests payloads whose commands, inputs or outputs are outside of their memory."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from npu.assembler import assemble
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.testing import command_data, payload_of
from tools.pipeline.export.backends.ethos_u.addresses import execute_checked
from tools.quiet.console import UserError

_NPU = Npu("ethos-u55-128", "shared_sram", 400_000_000, {}, 1 << 20, 0)
_SCRATCH, _WEIGHTS = 64, 32
# Weights to the memory to work in.
_DMA = {"DMA0_SRC_REGION": 0, "DMA0_DST_REGION": 1, "DMA0_SRC": 0, "DMA0_DST": 32, "DMA0_LEN": 16}


def _payload(
    changes: dict[str, int] | None = None, offset: int = 0, region: int = 1, words: list[int] | None = None
) -> bytes:
    words = assemble(_DMA | (changes or {}), ("DMA_START", 0)) if words is None else words
    place = struct.pack("<I6i3i", 1, 1, 1, 1, 1, 1, 16, 1, offset, region)
    blocks = {"cmd_data": command_data(words, 0x1000_0408), "weight_data": bytes(_WEIGHTS)}
    return payload_of(blocks | {"scratch_size": struct.pack("<I", _SCRATCH), "inputs": place, "outputs": place})


def test_all_memory_may_be_used() -> None:
    edges = {"DMA0_SRC": _WEIGHTS - 16, "DMA0_DST": _SCRATCH - 16}
    for payload in (_payload(), _payload(edges, offset=48)):
        run, unchecked = execute_checked(payload, [], _NPU, 0, Path("model.py"))
        assert run is not None and unchecked is None


@pytest.mark.parametrize(
    ("changes", "does"),
    [
        ({"DMA0_SRC": _WEIGHTS - 8}, "reads 16 bytes"),
        ({"DMA0_DST": _SCRATCH - 8}, "writes to 16 bytes"),
        ({"DMA0_DST": (1 << 40) - 16}, "writes to 16 bytes"),
        ({"DMA0_LEN": 64}, "reads 64 bytes"),
        # Not into another region, however far it is away.
        ({"DMA0_SRC": 1 << 36}, "reads 16 bytes"),
        # Weights are in flash.
        ({"DMA0_DST_REGION": 0, "DMA0_DST": 0}, "writes to 16 bytes"),
        ({"DMA0_DST_REGION": 5}, "region 5 has no base address"),
    ],
)
def test_an_address_beyond_its_region(changes: dict[str, int], does: str) -> None:
    with pytest.raises(UserError, match=rf"model\.py: subgraph 1: a command .* reaches beyond its memory: .*{does}"):
        execute_checked(_payload(changes), [], _NPU, 1, Path("model.py"))


def test_a_cache_is_a_memory_of_its_own() -> None:
    npu = replace(_NPU, accelerator="ethos-u65-256", memory_mode="dedicated_sram", cache_bytes=16)
    to_cache = {"DMA0_DST_REGION": 2, "DMA0_DST": 0}
    assert execute_checked(_payload(to_cache), [], npu, 0, Path("model.py"))[1] is None
    with pytest.raises(UserError, match="writes to 16 bytes"):
        execute_checked(_payload(to_cache | {"DMA0_DST": 16}), [], npu, 0, Path("model.py"))


@pytest.mark.parametrize(("offset", "region"), [(56, 1), (-16, 1), (8, 1), (0, 0)])
def test_a_tensor_outside_of_the_memory(offset: int, region: int) -> None:
    with pytest.raises(UserError, match=f"a tensor of 16 bytes lies at {offset} of region {region}"):
        execute_checked(_payload(offset=offset, region=region), [], _NPU, 0, Path("model.py"))


def test_what_the_model_cannot_execute_is_said() -> None:
    run, note = execute_checked(_payload(words=[0x3FF]), [], _NPU, 0, Path("model.py"))
    assert run is None and note is not None
    assert "is not known" in note and "is no command of this NPU" in note
