"""Models that keep state in attributes of theirs, rather than in buffers."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tools.pipeline.export.testing import export_source, model_source
from tools.pipeline.export.upstream.loaded_program import LoadedProgram
from tools.quiet.console import UserError

_INPUTS = "(torch.randn(1, 4),)"


def test_a_tensor_among_attributes_is_state(tmp_path: Path) -> None:
    init = "torch.manual_seed(0); self.cell = nn.GRUCell(4, 4); self.h = torch.ones(1, 4)"
    source = model_source("self.h = self.cell(x, self.h)\nreturn self.h", _INPUTS, init)
    program = LoadedProgram(export_source(tmp_path, source).program)
    torch.manual_seed(0)
    cell, h = nn.GRUCell(4, 4), torch.ones(1, 4)
    for _ in range(3):
        x = torch.randn(1, 4)
        h = cell(x, h)
        torch.testing.assert_close(program.run(x)[0], h)


@pytest.mark.parametrize(
    ("init", "forward", "expected"),
    [
        (
            "self.h = None",
            "self.h = x if self.h is None else self.h + x\nreturn self.h",
            r"attribute 'h', first None, then float32\[1, 4\].* self.register_buffer\('h', torch.zeros\(1, 4\)\)",
        ),
        ("self.n = 0", "self.n += 1\nreturn x * self.n", "attribute 'n', first int 0, then int 1"),
        ("self.past = []", "self.past.append(x)\nreturn sum(self.past)", "attribute 'past', first a list"),
    ],
)
def test_other_state_is_refused(init: str, forward: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=expected):
        export_source(tmp_path, model_source(forward, _INPUTS, init))


def test_what_a_model_remembers_without_using_it_is_no_state(tmp_path: Path) -> None:
    forward = "self.calls += 1\nif self.mask is None: self.mask = torch.ones(4)\nself.y = x * self.mask\nreturn self.y"
    init = "self.calls, self.mask, self.y = 0, None, torch.zeros(1, 4)"
    result = export_source(tmp_path, model_source(forward, _INPUTS, init))
    assert result.largest_error() == 0
