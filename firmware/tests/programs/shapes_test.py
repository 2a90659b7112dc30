"""A program with dynamic shapes on inputs of other sizes than its example's."""

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from executorch.exir.scalar_type import ScalarType

from tools.pipeline.model_file.model_file import ModelFile
from tools.quiet.testing import given_file
from tools.verify.run_pte.cases import Case, run_cases
from tools.verify.run_pte.run_pte import read_runners
from tools.verify.run_pte.values import encode

_PROGRAM = given_file("PROGRAM", ".pte")
# The paths are those of the runfiles.
_STEPS = (2, 5, 16)


def _case(x: torch.Tensor) -> Case:
    return Case(_PROGRAM.read_bytes(), (encode(x.numpy(), int(ScalarType.FLOAT), (0, 1, 2)),))


@pytest.mark.parametrize("board", ["host", "mps2_an386"])
def test_results_have_the_inputs_size(board: str) -> None:
    inputs = [torch.randn(1, 3, steps) for steps in _STEPS]
    runner = read_runners().boards[board]
    model = ModelFile(Path(os.environ["MODEL"])).model()
    for x, result in zip(inputs, run_cases(runner, [_case(x) for x in inputs]), strict=True):
        assert result.error == "Ok", result.text()
        for output, expected in zip(result.outputs, model(x), strict=True):
            np.testing.assert_allclose(output.array, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_more_than_the_bound_is_refused() -> None:
    (result,) = run_cases(read_runners().boards["host"], [_case(torch.randn(1, 3, 17))])
    assert (result.error, result.step) == ("InvalidArgument", "input"), result.text()
