"""The device's check of commands, firmware/ethos_u/commands.h, beside the model of the NPU."""

from __future__ import annotations

import struct
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from npu.device import engine_of
from npu.fault import NpuFault
from npu.memory import Bytes, Segments
from tools.artifacts.ethos_u.payload import Payload, parse_commands

# Addresses of commands have 40 bits: none reaches from one region into another.
_REGIONS = {0: 1 << 44, 1: 2 << 44, 2: 3 << 44}


def _block(name: str, data: bytes) -> bytes:
    return struct.pack("<16sI12x", name.encode(), len(data)) + data + bytes(-len(data) % 16)


def pack(words: Sequence[int], weights: bytes, scratch_size: int, config: int) -> bytes:
    """Returns a payload of these commands without inputs and outputs, for the NPU with this CONFIG."""
    # Three words of nothing, so that the commands are aligned.
    driver_words = 1, config, 0, 5, 5, 5, 2 | (len(words) >> 16) << 8 | (len(words) & 0xFFFF) << 16
    commands = struct.pack(f"<4s7I{len(words)}I", b"COP1", *driver_words, *words)
    blocks = {"vela_bin_stream": b"", "cmd_data": commands, "weight_data": weights}
    blocks |= {"scratch_size": struct.pack("<I", scratch_size), "inputs": bytes(4), "outputs": bytes(4)}
    return b"".join(_block(name, data) for name, data in (blocks | {"vela_end_stream": b""}).items())


def verdicts(checker: Path, payloads: Sequence[bytes]) -> list[str]:
    """Returns for each payload what `check_payloads` says: sound, refused, no payload."""
    with tempfile.NamedTemporaryFile() as file:
        file.writelines(struct.pack("<I", len(payload)) + payload for payload in payloads)
        file.flush()
        result = subprocess.run([checker, file.name], check=True, capture_output=True, text=True)
    lines = result.stdout.splitlines()
    assert len(lines) == len(payloads), result.stderr
    return lines


class _Recorded(Segments):
    """Memory that knows how far it was reached into."""

    def __init__(self) -> None:
        super().__init__()
        self.reached = dict.fromkeys(_REGIONS, 0)

    def _find(self, address: int, length: int, write: bool) -> Bytes:
        found = super()._find(address, length, write)
        for region, start in _REGIONS.items():
            if length and address >> 44 == start >> 44:
                self.reached[region] = max(self.reached[region], address - start + length)
        return found


@dataclass
class Judgement:
    """What the model of the NPU says of commands.

    Attributes:
      fault: what ended the run, empty if nothing did.
      reached: by region the end of what was read or written.
    """

    fault: str
    reached: dict[int, int] = field(default_factory=dict)

    @property
    def is_outside(self) -> bool:
        """Whether a command reached for memory that isn't its own."""
        return "bus error" in self.fault or "has no base address" in self.fault


def judge(words: Sequence[int], weights: bytes, scratch_size: int, accelerator: str) -> Judgement:
    """Executes commands on memory of zeros."""
    memory = _Recorded()
    scratch = np.zeros(scratch_size, np.uint8)
    memory.add(_REGIONS[0], np.frombuffer(weights, np.uint8), writable=False)
    # As on a device, regions 1 and 2 are the same memory.
    memory.add(_REGIONS[1], scratch, writable=True)
    memory.add(_REGIONS[2], scratch, writable=True)
    _, engine = engine_of(accelerator, memory)
    try:
        engine.run(words, _REGIONS)
    except NpuFault as fault:
        return Judgement(str(fault))
    return Judgement("", memory.reached)


def check_edges(checker: Path, payload: Payload, accelerator: str) -> None:
    """Holds the check to the memory that commands need: it is enough, and a byte less is not."""
    commands = parse_commands(payload.commands)
    judgement = judge(commands.words, payload.weights, payload.scratch_size, accelerator)
    assert not judgement.fault
    scratch = max(judgement.reached[1], judgement.reached[2])
    weights = payload.weights[: judgement.reached[0]]
    cases = [("sound", weights, scratch), ("refused", weights, scratch - 1)]
    if weights:
        cases.append(("refused", weights[:-1], scratch))
    payloads = [pack(commands.words, each, size, commands.config) for _, each, size in cases]
    assert verdicts(checker, payloads) == [verdict for verdict, _, _ in cases]
