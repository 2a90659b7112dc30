"""Checks the memory accesses and results of Vela's commands against the TOSA reference model, on the golden inputs."""

from collections.abc import Iterable
from pathlib import Path

import numpy
import numpy.typing as npt
from torch.fx import Node

from tools.artifacts.ethos_u.npu import Npu
from tools.pipeline.export.backends.ethos_u.addresses import WrongCommandsError, execute_checked
from tools.pipeline.export.backends.ethos_u.model import Run
from tools.pipeline.export.backends.ethos_u.vela import Compiled

# The number of compared calls per subgraph: the NPU's model takes most of a second for an image network.
_CALLS = 4


class Comparison:
    """Compares calls of delegates, as an observer of `delegates.run`.

    Args:
      compiled: the compiled subgraphs.
      npu: the board's NPU.
      path: the model file, for messages.
    """

    def __init__(self, compiled: Iterable[Compiled], npu: Npu, path: Path) -> None:
        self._compiled = list(compiled)
        self._numbers = {item.payload: number for number, item in enumerate(self._compiled)}
        self._npu = npu
        self._path = path
        self._calls: dict[bytes, int] = {}
        self._unchecked: dict[bytes, str] = {}

    def __call__(self, call: Node, payload: bytes, inputs: list[npt.NDArray], outputs: list[npt.NDArray]) -> None:
        """Executes a subgraph on the model of the NPU.

        Raises WrongCommandsError for an output that differs from the reference model's, and as execute_checked() does.
        """
        self._calls[payload] = self._calls.get(payload, 0) + 1
        if self._calls[payload] > _CALLS or payload in self._unchecked:
            return
        run = self._execute(payload, [array.tobytes() for array in inputs])
        if run is None:
            return
        for index, (data, expected) in enumerate(zip(run.outputs, outputs, strict=True)):
            got = numpy.frombuffer(data, expected.dtype).reshape(expected.shape)
            wrong = int(numpy.count_nonzero(got != expected))
            if wrong:
                number = self._numbers[payload]
                raise WrongCommandsError(
                    self._path,
                    number,
                    f"Vela's commands for {self._npu.accelerator} give other numbers than the TOSA reference model: "
                    f"{wrong:,} of {expected.size:,} elements of output {index}",
                    'Write one of its layers another way, or leave the model to the core (backend = "cortex_m"); it '
                    f"has {', '.join(self._compiled[number].places)}.",
                )

    def unchecked(self) -> list[str]:
        """Lists what the model of the NPU can't execute, with reasons. Subgraphs that were not called run on arbitrary
        inputs.
        """
        for payload in self._numbers.keys() - self._calls.keys():
            self._execute(payload, [])
        return [self._unchecked[payload] for payload in self._numbers if payload in self._unchecked]

    def _execute(self, payload: bytes, inputs: list[bytes]) -> Run | None:
        run, unchecked = execute_checked(payload, inputs, self._npu, self._numbers[payload], self._path)
        if unchecked is not None:
            self._unchecked[payload] = unchecked
        return run
