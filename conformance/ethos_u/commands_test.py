"""The device refuses commands that reach beyond their memory, and no others: its check against the model of the NPU."""

import os
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

import npu.engine
from conformance.ethos_u.device_check import check_edges, judge, pack, verdicts
from npu import ethos_u55, ethos_u85
from npu.assembler import assemble
from npu.commands_u55 import COMMANDS as COMMANDS_U55
from npu.commands_u85 import COMMANDS as COMMANDS_U85
from tools.artifacts.ethos_u.payload import Payload, parse, parse_commands
from tools.artifacts.npu_report.npu_report import read_npu_report
from tools.artifacts.program import load

_CHECKER = Path(os.environ["CHECKER"])
_PROGRAMS = [Path(path) for path in os.environ["PROGRAM"].split() if path.endswith(".pte")]
# Without one, tests of each would be skipped.
assert _PROGRAMS, f"PROGRAM names no .pte: {os.environ['PROGRAM']!r}"
# The bytes of memory that is the NPU's own, by the memory mode.
_CACHES = {"dedicated_sram": 384 << 10}
# Damaged streams for each program, and which: --test_env=DAMAGED=5000 --test_env=SEED=7.
_DAMAGED, _SEED = int(os.environ.get("DAMAGED", "150")), int(os.environ.get("SEED", "1"))


def _programs() -> Iterator[tuple[str, Payload, int]]:
    """Configurations of NPUs, payloads for them, and the bytes of memory that is the NPU's own."""
    for path in _PROGRAMS:
        file = load(path)
        (plan,) = file.program.execution_plan
        report = read_npu_report(path.with_suffix(".npu.json"))
        assert plan.delegates, f"{path} has nothing for an NPU"
        for delegate in plan.delegates:
            yield report.accelerator, parse(file.delegate(delegate.processed)), _CACHES.get(report.memory_mode, 0)


@pytest.fixture(autouse=True)
def _small_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keeps the model from taking long to find that tensors don't fit: a damaged stream may have any sizes."""
    monkeypatch.setattr(npu.engine, "_MOST_ELEMENTS", 1 << 20)


def _damage(words: Sequence[int], generator: random.Random, sizes: Sequence[int]) -> list[int]:
    """Returns a stream with one word changed: a bit, or the value of a register of 32 bits to one about a region's
    size.
    """
    damaged = list(words)
    at = generator.randrange(len(words))
    if at and damaged[at - 1] >> 14 & 3 == 1 and generator.random() < 0.5:
        damaged[at] = max(generator.choice(sizes) - generator.randrange(64), 0)
    else:
        damaged[at] ^= 1 << generator.randrange(32)
    return damaged


@pytest.mark.parametrize(("accelerator", "payload", "cache_bytes"), _programs())
def test_the_memory_that_is_needed_is_enough_and_less_is_not(accelerator, payload, cache_bytes) -> None:
    check_edges(_CHECKER, payload, accelerator, cache_bytes)


@pytest.mark.parametrize(("accelerator", "payload", "cache_bytes"), _programs())
def test_damaged_streams(accelerator: str, payload: Payload, cache_bytes: int) -> None:
    """The driver refuses commands that the model finds outside of its memory, and not those that it executes to the
    end.
    """
    generator = random.Random(_SEED)
    commands = parse_commands(payload.commands)
    sizes = len(payload.weights), payload.scratch_size
    streams = [_damage(commands.words, generator, sizes) for _ in range(_DAMAGED)]
    packed = [pack(words, payload.weights, payload.scratch_size, commands.config) for words in streams]
    said = verdicts(_CHECKER, packed, cache_bytes)
    seen: Counter[tuple[str, str]] = Counter()
    for words, verdict in zip(streams, said, strict=True):
        judgement = judge(words, payload.weights, payload.scratch_size, accelerator, cache_bytes)
        if judgement.is_outside:
            assert verdict == "refused", judgement.fault
        elif not judgement.fault:
            assert verdict == "sound"
        seen[verdict, judgement.fault and ("outside" if judgement.is_outside else "fault")] += 1
    assert min(seen["refused", "outside"], seen["sound", ""]) > _DAMAGED // 20, seen


@pytest.mark.parametrize(
    ("accelerator", "size"), [("ethos-u55-128", 24 << 10), ("ethos-u65-512", 48 << 10), ("ethos-u85-256", 2048)]
)
def test_tables_end_with_the_memory_of_a_core(accelerator: str, size: int) -> None:
    config = (ethos_u55.CONFIGURATIONS | ethos_u85.CONFIGURATIONS)[accelerator].config
    commands = COMMANDS_U85 if "u85" in accelerator else COMMANDS_U55
    registers = {"DMA0_SRC_REGION": 0, "DMA0_SRC": 0, "DMA0_DST_REGION": 1 << 8, "DMA0_LEN": 16}
    for start, verdict, fault in [(size - 16, "sound", False), (size, "refused", True)]:
        words = assemble(registers | {"DMA0_DST": start}, ("DMA_START", 0), commands=commands)
        assert verdicts(_CHECKER, [pack(words, bytes(16), 0, config)]) == [verdict]
        assert ("internal memory" in judge(words, bytes(16), 0, accelerator).fault) == fault


@pytest.mark.parametrize("accelerator", ["ethos-u55-128", "ethos-u85-256"])
def test_the_commands_that_are_known_are_the_models(accelerator: str) -> None:
    commands = COMMANDS_U85 if "u85" in accelerator else COMMANDS_U55
    # Commands that work on memory need registers that these streams don't set.
    works = {"CONV", "DEPTHWISE", "POOL", "ELEMENTWISE", "RESIZE", "DMA_START"}
    operations = {number for number, name in commands.operations.items() if name not in works}
    expected = {(number, 0) for number in operations | commands.short_registers.keys()}
    expected |= {(number, 1) for number in commands.long_registers}
    every = [(number, form) for number in range(1 << 10) for form in range(4)]
    config = (ethos_u55.CONFIGURATIONS | ethos_u85.CONFIGURATIONS)[accelerator].config
    # The command, its value if it has one, and STOP.
    streams = [[number | form << 14, *[0] * (form == 1), 0] for number, form in every]
    said = verdicts(_CHECKER, [pack(words, b"", 0, config) for words in streams])
    assert {each for each, verdict in zip(every, said, strict=True) if verdict == "sound"} == expected
