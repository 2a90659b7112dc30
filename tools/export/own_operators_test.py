from pathlib import Path

import pytest

from tools.export.testing import export_source, model_source

_INPUT = "(torch.randn(1, 3, 9, 8),)"


@pytest.mark.parametrize("pool", ["2", "3, stride=2, padding=1, ceil_mode=True", "(2, 3), dilation=2"])
def test_unread_indices_of_a_pooling_take_no_memory(pool: str, tmp_path: Path) -> None:
    source = model_source(
        "return self.net(x)", _INPUT, f"self.net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d({pool}))"
    )
    result = export_source(tmp_path, source)
    assert result.operators == {"aten::convolution": 1, "torch_fusion::max_pool2d": 1}
    assert result.manifest["planned_buffers"] == [result.manifest["live_bytes_lower_bound"]]
    # Of float32 tensors only.
    assert {entry["dtype"] for entry in result.manifest["tensors"]} == {"Float"}
    assert result.largest_error() < 1e-5


def test_indices_that_are_read_are_computed(tmp_path: Path) -> None:
    forward = "return nn.functional.max_pool2d(x, 2, return_indices=True)"
    result = export_source(tmp_path, model_source(forward, _INPUT))
    assert result.operators == {"aten::max_pool2d_with_indices": 1}
    assert result.largest_error() == 0
