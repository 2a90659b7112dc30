"""Executes what Vela compiled on the model of the NPU."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy
import numpy.typing as npt

from npu.device import engine_of
from npu.engine import Operation
from npu.memory import Segments
from tools.artifacts.ethos_u.payload import Payload, TensorPlace, parse_commands

# Where the regions lie: weights and scales, memory to work in, the NPU's own memory. Addresses have 40 bits, so that
# none reaches from one into another.
_WEIGHTS, _SCRATCH, _CACHE = 1 << 44, 2 << 44, 3 << 44


@dataclass(frozen=True)
class Run:
    """One run of a payload.

    Attributes:
      outputs: their bytes.
      operations: what the NPU did.
    """

    outputs: list[bytes]
    operations: list[Operation]


def execute(
    payload: Payload, inputs: Iterable[bytes], accelerator: str, scratch: npt.NDArray[numpy.uint8], cache_bytes: int = 0
) -> Run:
    """Runs a payload on the model of an NPU.

    Args:
      inputs: their bytes, of the first ones or of all.
      accelerator: the NPU's configuration, such as `ethos-u55-128`.
      scratch: the memory to work in, which is written to: a program that is right takes no notice of what it holds.
      cache_bytes: size of the NPU's own memory, which without one is the same as the memory to work in.

    Raises PayloadError for commands of another format, and NpuFault for what the model can't execute.
    """
    for place, data in zip(payload.inputs, inputs, strict=False):
        scratch[_range(place)] = numpy.frombuffer(data, numpy.uint8)
    memory = Segments()
    memory.add(_WEIGHTS, numpy.frombuffer(payload.weights, numpy.uint8), writable=False)
    memory.add(_SCRATCH, scratch, writable=True)
    cache = _SCRATCH
    if cache_bytes:
        cache = _CACHE
        memory.add(_CACHE, numpy.zeros(cache_bytes, numpy.uint8), writable=True)
    _, engine = engine_of(accelerator, memory)
    words = parse_commands(payload.commands).words
    operations = engine.run(words, {0: _WEIGHTS, 1: _SCRATCH, 2: cache})
    return Run([scratch[_range(place)].tobytes() for place in payload.outputs], operations)


def _range(place: TensorPlace) -> slice:
    return slice(place.offset, place.offset + place.size)
