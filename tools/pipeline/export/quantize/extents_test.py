"""Tests measuring ranges on a stream of samples."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tools.pipeline.export.capture.state import State
from tools.pipeline.export.quantize.extents import Extents
from tools.quiet.console import UserError


@pytest.mark.parametrize(
    "write",
    [lambda kept, at, x: kept.index_copy(0, at[0, :1], x), lambda kept, at, x: kept.scatter(0, at, x)],
    ids=["IndexError", "RuntimeError"],
)
def test_a_stream_that_is_longer_than_a_cache(write: Callable[[Tensor, Tensor, Tensor], Tensor]) -> None:
    class Cache(torch.nn.Module):
        def forward(self, kept: Tensor, at: Tensor, x: Tensor) -> tuple[Tensor, ...]:
            return write(kept, at, x), at + 1, x * 2

    state = State({"kept": torch.zeros(4, 3), "at": torch.zeros(1, 3, dtype=torch.long)})
    program = torch.export.export(Cache(), (*state.start(), torch.ones(1, 3)))
    doubled = program.graph.find_nodes(op="call_function", target=torch.ops.aten.mul.Tensor)
    samples = [(torch.full((1, 3), float(index)),) for index in range(5)]
    assert Extents(program, doubled).observe(samples[:4], state, Path("m.py")).ranges == {doubled[0]: (0.0, 6.0)}
    message = r"m.py: the model fails on sample 4 of calibration_inputs\(\), which continues the ones before: .*fewer"
    with pytest.raises(UserError, match=message):
        Extents(program, doubled).observe(samples, state, Path("m.py"))
