"""Checks that every address in the commands that Vela compiled is inside its memory region."""

from collections.abc import Iterable
from pathlib import Path

import numpy

from npu.fault import NpuFault
from tools.artifacts.ethos_u.npu import Npu
from tools.artifacts.ethos_u.payload import PayloadError, TensorPlace, parse
from tools.pipeline.export.backends.ethos_u.model import Run, execute
from tools.quiet.console import UserError

_ALIGNMENT = 16
_ADVICE = "Write the layer another way, and report it to Vela."


class WrongCommandsError(UserError):
    """The commands that Vela compiled exceed their memory, or return other numbers than the reference model.

    Attributes:
      index: the subgraph's index.
      reason: the error, in one line.
    """

    def __init__(self, path: Path, index: int, reason: str, advice: str) -> None:
        super().__init__(f"{path}: subgraph {index}: {reason}. {advice}")
        self.index = index
        self.reason = reason


def execute_checked(
    content: bytes, inputs: Iterable[bytes], npu: Npu, index: int, path: Path
) -> tuple[Run | None, str | None]:
    """Executes a payload on the model of the NPU, which refuses addresses outside of its memory.

    Args:
      content: the compiled subgraph.
      inputs: the bytes of the first inputs, or of all.
      npu: the board's NPU, whose cache is region 2 if it has one.
      index: the subgraph's index, for messages.
      path: the model file, for messages.

    Returns:
      The run; or, for a payload that the model can't execute, what is not checked and why.

    Raises WrongCommandsError for a command that exceeds its region, inputs and outputs outside of the memory, and bytes
    that are no payload.
    """
    try:
        payload = parse(content)
        for place in (*payload.inputs, *payload.outputs):
            _check_place(place, payload.scratch_size)
        # Random bytes reveal reads of memory that was never written.
        scratch = numpy.random.default_rng(0).integers(0, 256, payload.scratch_size, numpy.uint8)
        return execute(payload, inputs, npu.accelerator, scratch, npu.cache_bytes), None
    except PayloadError as error:
        raise WrongCommandsError(path, index, f"what Vela compiled can't be run: {error}", _ADVICE) from error
    except NpuFault as fault:
        if "bus error" in str(fault) or "has no base address" in str(fault):
            reason = f"a command that Vela compiled reaches beyond its memory: {fault}"
            raise WrongCommandsError(path, index, reason, _ADVICE) from fault
        return None, (
            f"subgraph {index}: whether all addresses lie in their memory is not known, as the model of the NPU "
            f"can't execute it: {fault}"
        )


def _check_place(place: TensorPlace, scratch_size: int) -> None:
    if place.region != 1 or place.offset % _ALIGNMENT or not 0 <= place.offset <= scratch_size - place.size:
        raise PayloadError(
            f"a tensor of {place.size} bytes lies at {place.offset} of region {place.region}, and the NPU works in "
            f"{scratch_size} bytes of region 1, from multiples of {_ALIGNMENT} on"
        )
