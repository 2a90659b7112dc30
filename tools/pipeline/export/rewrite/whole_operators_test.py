"""Tests that operators are not decomposed."""

from pathlib import Path

from tools.pipeline.export.testing import export_source, model_source

_WHOLE = {
    "hardsigmoid": "nn.functional.hardsigmoid(x)",
    "hardswish": "nn.functional.hardswish(x)",
    "linear": "nn.functional.linear(x, torch.ones(3, 4))",
    "mish": "nn.functional.mish(x)",
    "silu": "nn.functional.silu(x)",
    "softplus": "nn.functional.softplus(x, 2.0)",
    "threshold": "nn.functional.threshold(x, 0.1, 20.0)",
    "triu": "x.triu(1)",
}


def test_operators_with_kernels_of_their_own_stay_whole(tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source(f"return {', '.join(_WHOLE.values())}", "(torch.randn(4, 4),)"))
    assert result.operators == {f"aten::{operator}": 1 for operator in _WHOLE}
