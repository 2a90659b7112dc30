"""Tests that operators are not decomposed."""

from pathlib import Path

import pytest

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


@pytest.mark.parametrize("operator", _WHOLE)
def test_an_operator_with_a_kernel_of_its_own_stays_whole(operator: str, tmp_path: Path) -> None:
    result = export_source(tmp_path, model_source(f"return {_WHOLE[operator]}", "(torch.randn(4, 4),)"))
    assert result.operators == {f"aten::{operator}": 1}
