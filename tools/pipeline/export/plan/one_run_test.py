from types import SimpleNamespace
from typing import cast

import pytest
import torch
from executorch.exir.schema import ExecutionPlan

from tools.pipeline.export.plan import one_run

_PLAN = cast(ExecutionPlan, SimpleNamespace(name="forward", chains=[SimpleNamespace(instructions=[])], operators=[]))
_SAMPLES = [(torch.full((4,), 1.0 + sample),) for sample in range(3)]


class _Program:
    """A program whose first output follows rounding of its input, and whose second one is the input."""

    def __init__(self, _: bytes) -> None:
        pass

    def run(self, x: torch.Tensor, method: str = "forward") -> list[torch.Tensor]:
        return [(x * 1e6) % 7, x * 1]


@pytest.mark.parametrize(
    ("changes", "is_refused"), [((0, 0), False), ((1, 0), False), ((0, 1), True), ((1, 1), True), ((None, 0), True)]
)
def test_an_output_that_rounding_changes_excuses_no_other(
    changes: tuple[float | None, float], is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(one_run, "LoadedProgram", _Program)
    expected = [
        [value[:2] if change is None else value + change for value, change in zip(outputs, changes, strict=True)]
        for outputs in (_Program(b"").run(*sample) for sample in _SAMPLES)
    ]
    if is_refused:
        with pytest.raises(AssertionError, match="is not what the module returns"):
            one_run.check_run(b"", _PLAN, 0, _SAMPLES, expected)
    else:
        one_run.check_run(b"", _PLAN, 0, _SAMPLES, expected)
