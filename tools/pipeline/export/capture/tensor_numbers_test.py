"""Models that read numbers from tensors, which stay tensors on the device."""

from pathlib import Path

import pytest

from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_source, model_source

_PEAK = "peak = x.max().item()\n"
_FORWARD = {
    "arithmetic": "return 1.0 / (abs(peak) + 2) * x - peak",
    "bounds": "return torch.clamp(x, min=peak - 1.5, max=float('inf'))",
    "both_bounds": "return nn.functional.hardtanh(x, -peak, peak)",
    "fill": "return x + torch.full((1, 8), peak) - torch.full_like(x, peak).exp()",
    "mask": "return x.masked_fill(x < 0, peak)",
    "choice": "return torch.where(x > peak / 2, x, peak)",
    "slope": "f = nn.functional; return f.leaky_relu(x, peak) + f.elu(x, peak) + f.threshold(x, peak, 0)",
    "list": "return torch.tensor([peak, 1.0, x.min().item()]).sum() * x + sum(x[0, :3].tolist())",
    "range": "return x * torch.linspace(0, peak, 8)",
    "assignment": "y = x.clone(); y[:, 0] = peak; return y",
    "largest": "return x * max(peak, 0.1)",
    "check by bool()": "assert bool(peak < 99) and not any([peak > 99])\nreturn x",
    "check": "assert x.isfinite().all() and peak < 99, f'{x.mean():.2f}'\nif peak > 99: raise ValueError()\nreturn x",
}


@pytest.mark.parametrize("forward", _FORWARD.values(), ids=_FORWARD.keys())
def test_numbers_are_tensors(forward: str, tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source(_PEAK + forward, "(torch.randn(1, 8),)"))
    assert result.largest_error() < 1e-6
    assert "aten::_local_scalar_dense" not in result.operators


_CHECKED = {
    "gaussian_nll_loss": "f = nn.functional.gaussian_nll_loss\nreturn f(x, y, y.abs() + 0.1) + f(x, y, 1.0, 1), "
    "f(x, y, y[:, 0].exp(), reduction='sum'), f(x, y, y[:, :1].abs(), eps=0.5, reduction='none')",
    "cov": "return torch.cov(x), x[0].cov(correction=0), torch.cov(x, fweights=w), torch.cov(x, aweights=y[0].abs()), "
    "torch.cov(x, fweights=w, aweights=y[0].abs(), correction=0)",
    "corrcoef": "return torch.corrcoef(x), x[:1].corrcoef(), x[0].corrcoef()",
    "embedding": "return self.rows(w), self.bags(w[None], per_sample_weights=y[:1]), self.rows.weight.sum() * 0",
}


@pytest.mark.parametrize("forward", _CHECKED.values(), ids=_CHECKED.keys())
def test_what_pytorch_checks_values_for(forward: str, tmp_path: Path) -> None:
    init = "self.rows = nn.Embedding(9, 3, max_norm=1.0)\nself.bags = nn.EmbeddingBag(9, 3, 1.0, 1.0, mode='sum')"
    inputs = "(torch.randn(3, 8), torch.randn(3, 8), torch.arange(8) % 3 + 1)"
    result = export_source(tmp_path, model_source(forward, inputs, init, "x, y, w"))
    # Sums reach hundreds.
    assert result.largest_error() < 1e-4


def test_int8(tmp_path: Path) -> None:
    source = model_source(
        f"x = self.linear(x)\n{_PEAK}return torch.clamp(x, min=peak - 1.5) / peak",
        "(torch.randn(1, 8),)",
        init="torch.manual_seed(0); self.linear = nn.Linear(8, 8)",
    )
    options = Options("cortex-m4", "cortex_m", float_where_faster=False)
    result = export_source(tmp_path, source, options=options)
    assert result.decibels() > 25
    assert not any("can't be lowered" in line for line in result.said)
