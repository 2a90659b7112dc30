"""The device's check of commands, firmware/ethos_u/commands.h, beside the model of the NPU."""

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
from tools.artifacts.ethos_u.testing import command_data, payload_of

# Addresses of commands have 40 bits: none reaches from one region into another.
_REGIONS = {0: 1 << 44, 1: 2 << 44, 2: 3 << 44}


def pack(words: Sequence[int], weights: bytes, scratch_size: int, config: int) -> bytes:
    """Returns a payload of these commands without inputs and outputs, for the NPU with this CONFIG."""
    blocks = {"cmd_data": command_data(words, config), "weight_data": weights}
    blocks |= {"scratch_size": struct.pack("<I", scratch_size), "inputs": bytes(4), "outputs": bytes(4)}
    return payload_of(blocks)


def verdicts(checker: Path, payloads: Sequence[bytes], cache_bytes: int | Sequence[int] = 0) -> list[str]:
    """Returns for each payload what `check_payloads` says: sound, refused, no payload.

    Args:
      cache_bytes: size of the NPU's own memory, of all or of each; 0 without one.
    """
    caches = [cache_bytes] * len(payloads) if isinstance(cache_bytes, int) else cache_bytes
    with tempfile.NamedTemporaryFile() as file:
        pairs = zip(payloads, caches, strict=True)
        file.writelines(struct.pack("<II", len(payload), cache) + payload for payload, cache in pairs)
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
    """The verdict of the model of the NPU on commands.

    Attributes:
      fault: the cause that ended the run early, empty if there was none.
      reached: by region the end of the range that was read or written.
    """

    fault: str
    reached: dict[int, int] = field(default_factory=dict)

    @property
    def is_outside(self) -> bool:
        """Returns whether a command reached for memory that isn't its own."""
        return any(text in self.fault for text in ("bus error", "has no base address", "bytes of internal memory"))


def judge(words: Sequence[int], weights: bytes, scratch_size: int, accelerator: str, cache_bytes: int = 0) -> Judgement:
    """Executes commands on memory of zeros.

    Args:
      cache_bytes: size of the NPU's own memory; without one regions 1 and 2 are the same, as on a device.
    """
    memory = _Recorded()
    scratch = np.zeros(scratch_size, np.uint8)
    memory.add(_REGIONS[0], np.frombuffer(weights, np.uint8), writable=False)
    memory.add(_REGIONS[1], scratch, writable=True)
    memory.add(_REGIONS[2], np.zeros(cache_bytes, np.uint8) if cache_bytes else scratch, writable=True)
    _, engine = engine_of(accelerator, memory)
    try:
        engine.run(words, _REGIONS)
    except NpuFault as fault:
        return Judgement(str(fault))
    return Judgement("", memory.reached)


def check_edges(checker: Path, payload: Payload, accelerator: str, cache_bytes: int = 0) -> None:
    """Holds the check to the memory that commands need: it is enough, and a byte less is not.

    Args:
      cache_bytes: size of the NPU's own memory, which the commands use; 0 without one.
    """
    commands = parse_commands(payload.commands)
    judgement = judge(commands.words, payload.weights, payload.scratch_size, accelerator, cache_bytes)
    assert not judgement.fault
    cache = judgement.reached[2] if cache_bytes else 0
    scratch = judgement.reached[1] if cache_bytes else max(judgement.reached[1], judgement.reached[2])
    weights = payload.weights[: judgement.reached[0]]
    cases = [("sound", weights, scratch, cache), ("refused", weights, scratch - 1, cache)]
    if weights:
        cases.append(("refused", weights[:-1], scratch, cache))
    if cache:
        cases.append(("refused", weights, scratch, cache - 1))
    payloads = [pack(commands.words, each, size, commands.config) for _, each, size, _ in cases]
    assert verdicts(checker, payloads, [case[-1] for case in cases]) == [case[0] for case in cases]
