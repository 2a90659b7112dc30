"""Models whose code reads values of tensors: those of constants are known, those of inputs and state are not."""

from pathlib import Path

import pytest

from tools.pipeline.export.testing import export_source
from tools.quiet.console import UserError

_MODEL = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("is_ready", torch.tensor(True))
        self.register_buffer("count", torch.tensor(0.0))
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3], [1, 1, 0, 3]]))
        self.steps = nn.Parameter(torch.tensor(3), requires_grad=False)
        self.times = torch.tensor([0.0, 0.25, 1.0])

    def forward(self, x):
        {body}

def model():
    torch.manual_seed(0)
    return Net().eval()

def example_inputs():
    return (torch.randn(1, 4, generator=torch.Generator().manual_seed(1)),)
"""
_KNOWN = {
    "flag": "return self.linear(x) if self.is_ready else x",
    "repeats": "for _ in range(int(self.steps)): x = self.linear(x)\n        return x",
    "times": "assert (self.times[1:] > self.times[:-1]).all()\n        return x * (self.times[1] - self.times[0])",
    "numbers": "t = torch.linspace(0, 1, 4)\n        return self.linear(x) if t.mean() > 0.2 else x",
    "written": "t = torch.zeros(3)\n        t[1] = 2\n        return x + 1 if t.sum() == 2 else x",
    "size": "return self.linear(x)[:, : self.steps] + torch.zeros(int(self.steps))",
    "selected": "return x[:, self.edges[0, self.edges[0] != self.edges[1]]]",
    "beside_state": "self.count += x.sum()\n        return x + self.count if self.is_ready else x",
}


@pytest.mark.parametrize("body", _KNOWN.values(), ids=_KNOWN.keys())
def test_constants_are_known(body: str, tmp_path: Path) -> None:
    result = export_source(tmp_path, _MODEL.format(body=body))
    assert result.largest_error() == 0
    assert "aten::_local_scalar_dense" not in result.operators


_UNKNOWN = {
    "input": "t = self.times + x.sum()\n        return x if t.sum() > 0 else -x",
    "state": "self.count += 1\n        return x if self.count > 3 else -x",
    "state_before": "y = x if self.count > 3 else -x\n        self.count += 1\n        return y",
    "state_by_name": "y = x if self.count > 3 else -x\n        self.count = self.count + 1\n        return y",
}


@pytest.mark.parametrize("body", _UNKNOWN.values(), ids=_UNKNOWN.keys())
def test_inputs_and_state_are_unknown(body: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="depends on the values in a tensor"):
        export_source(tmp_path, _MODEL.format(body=body))
