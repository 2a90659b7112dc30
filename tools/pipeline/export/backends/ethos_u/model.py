"""Executes commands that Vela compiled on the model of the NPU."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy
import numpy.typing as npt

from npu.device import engine_of
from npu.engine import Operation
from npu.memory import Segments
from tools.artifacts.ethos_u.payload import Payload, TensorPlace, parse_commands

# The addresses of the regions: weights and scales, scratch memory, the NPU's own memory. Addresses have 40 bits, so
# that none reaches from one region into another.
_WEIGHTS, _SCRATCH, _CACHE = 1 << 44, 2 << 44, 3 << 44


@dataclass(frozen=True)
class Run:
    """One run of a payload.

    Attributes:
      outputs: the bytes of the outputs.
      operations: the operations that the NPU performed.
    """

    outputs: list[bytes]
    operations: list[Operation]


def execute(
    payload: Payload, inputs: Iterable[bytes], accelerator: str, scratch: npt.NDArray[numpy.uint8], cache_bytes: int = 0
) -> Run:
    """Runs a payload on the model of an NPU.

    Args:
      inputs: the bytes of the first inputs, or of all.
      accelerator: the NPU's configuration, such as `ethos-u55-128`.
      scratch: the scratch memory, which is written to; the result of a correct program doesn't depend on its contents.
      cache_bytes: the size of the NPU's own memory; without it, the scratch memory serves as such.

    Raises PayloadError for commands of another format, and NpuFault for commands that the model can't execute.
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
