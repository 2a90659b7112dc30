"""The cases of ExecuTorch's Cortex-M tests: programs, inputs, and expected outputs."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Case:
    """A program of a test, its inputs, and the expected outputs.

    Attributes:
      name: the test's id.
      programs: the .pte by target.
      inputs: the inputs.
      expected: the outputs that the test compares with.
      tolerance: atol of the test, with the quantization steps that it allows.
      dialect: what the dialect's Python implementation returns for each target.
      is_expected_to_fail: whether upstream expects that its runner gives something else.
    """

    name: str
    programs: dict[str, bytes]
    inputs: list[np.ndarray]
    expected: list[np.ndarray]
    tolerance: float
    dialect: dict[str, list[np.ndarray]]
    is_expected_to_fail: bool


@dataclass(frozen=True)
class Skipped:
    """A test that gives no program, and why."""

    name: str
    reason: str
