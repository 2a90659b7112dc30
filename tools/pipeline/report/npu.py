"""Measures the sizes of an NPU's delegates in an image."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tools.artifacts.ethos_u.payload import PayloadError, parse
from tools.artifacts.program.program import ProgramError, load

_BACKEND = "EthosUBackend"


@dataclass(frozen=True)
class NpuBytes:
    """The bytes of the delegates in programs.

    Attributes:
      commands: command streams, in flash.
      weights: weights and scales in the NPU's format, in flash.
      scratch: the memory that the NPU works in, the largest of all: one delegate runs at a time.
    """

    commands: int = 0
    weights: int = 0
    scratch: int = 0


def npu_bytes(programs: Iterable[Path]) -> NpuBytes:
    """Returns the bytes of the Ethos-U delegates of all methods of some programs.

    Raises:
      ProgramError: a program can't be read, or a delegate's content is corrupted.
    """
    commands = weights = scratch = 0
    for path in programs:
        file = load(path)
        delegates = [entry for plan in file.program.execution_plan for entry in plan.delegates or []]
        # Methods may share the content of a delegate.
        contents = {file.delegate(entry.processed) for entry in delegates if entry.id == _BACKEND}
        for content in contents:
            try:
                payload = parse(content)
            except PayloadError as error:
                raise ProgramError(f"{path}: what Vela compiled is corrupted: {error}") from error
            commands += len(payload.commands)
            weights += len(payload.weights)
            scratch = max(scratch, payload.scratch_size)
    return NpuBytes(commands, weights, scratch)
