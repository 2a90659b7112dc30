"""Runs a program in ExecuTorch's own runtime."""

from collections.abc import Sequence

import executorch.kernels.quantized  # noqa: F401
import torch
from executorch.extension.pybindings.portable_lib import _load_for_executorch_from_buffer


class LoadedProgram:
    """A loaded program. The runtime reads the bytes in each call but does not keep them alive, so this class does."""

    def __init__(self, program: bytes) -> None:
        self._bytes = program
        self._module = _load_for_executorch_from_buffer(self._bytes)

    def run(self, *inputs: torch.Tensor, method: str = "forward") -> list[torch.Tensor]:
        """Returns the outputs of one call."""
        outputs: Sequence[torch.Tensor] = self._module.run_method(method, inputs)
        return list(outputs)
