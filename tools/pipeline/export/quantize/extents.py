"""Measures the ranges of tensors of a captured program on samples."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind
from torch.fx import Node

from tools.pipeline.export.capture.golden import Sample
from tools.pipeline.export.capture.state import State
from tools.pipeline.export.quantize.calibration import running_sample
from tools.pipeline.export.quantize.float64 import Float64Interpreter
from tools.pipeline.model_file.deterministic import computing


class Extents(Float64Interpreter):
    """Runs samples, and records the ranges of the given nodes.

    Attributes:
      ranges: the minimum and maximum of each node.
    """

    def __init__(self, program: ExportedProgram, nodes: Iterable[Node]) -> None:
        super().__init__(program.graph_module)
        self.ranges = {node: (float("inf"), -float("inf")) for node in nodes}
        self._program = program

    def observe(self, samples: Iterable[Sample], state: State, path: Path) -> Self:
        """Runs samples one after another, carrying the state from each to the next.

        Args:
          path: the model file, for messages.

        Raises UserError for a sample that the model fails on.
        """
        kept = state.start()
        constants = {**self._program.state_dict, **self._program.constants}
        specs = self._program.graph_signature.input_specs
        with computing():
            for index, sample in enumerate(samples):
                given = iter((*kept, *sample))
                operands = [
                    next(given) if each.kind == InputKind.USER_INPUT else constants[each.target] for each in specs
                ]
                with running_sample(path, index, bool(kept)):
                    results = self.run(*operands)
                kept = tuple(value.clone() for value in results[: len(kept)])
        return self

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n in self.ranges:
            # Maxima with indices are a pair.
            self.see(n, value if isinstance(value, torch.Tensor) else value[0])
        return value

    def see(self, node: Node, value: torch.Tensor) -> None:
        """Called with each value of the given nodes."""
        least, most = self.ranges[node]
        self.ranges[node] = min(least, float(value.min())), max(most, float(value.max()))
