"""Correction of biases."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.quantize.biases import correct_biases
from tools.pipeline.export.quantize.in_float import InFloat
from tools.pipeline.export.quantize.quantize import quantize
from tools.pipeline.export.testing import export_source, functions, model_source


def _moved(net: nn.Module, count: int, monkeypatch: pytest.MonkeyPatch | None) -> torch.Tensor:
    """Returns the shift of each channel's mean in int8, on samples that were not used for calibration.

    Args:
      count: the number of calibration samples.
      monkeypatch: disables the correction.
    """
    if monkeypatch is not None:
        monkeypatch.setattr("tools.pipeline.export.quantize.quantize.correct_biases", lambda *_: None)
    torch.manual_seed(1)
    samples = [(1 + torch.rand(1, 3, 8, 8),) for _ in range(count)]
    quantized = quantize(CORTEX_M.run(capture(net.eval(), samples[0])), samples, InFloat(Path("model.py")))
    others = [1 + torch.rand(1, 3, 8, 8) for _ in range(30)]
    assert quantized.floating is not None
    with torch.no_grad():
        errors = [quantized.module(each) - quantized.floating(each) for each in others]
    return torch.cat(errors).mean((0, 2, 3))


@pytest.mark.parametrize(
    "make",
    [
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 3, groups=8), nn.ReLU6()),
        lambda: nn.Sequential(nn.ConvTranspose2d(3, 8, 2, 2), nn.ReLU(), nn.Conv2d(8, 4, 1, bias=False)),
    ],
)
def test_means_of_outputs_are_closer_to_those_in_floating_point(make, monkeypatch) -> None:
    torch.manual_seed(0)
    net = make()
    corrected = _moved(net, 16, None)
    assert corrected.square().sum() < 0.3 * _moved(net, 16, monkeypatch).square().sum()


def test_a_single_sample_says_nothing_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    net = nn.Conv2d(3, 4, 3)
    assert torch.equal(_moved(net, 1, None), _moved(net, 1, monkeypatch))


@pytest.mark.parametrize("packed", [True, False])
def test_layers_without_bias_and_ones_that_are_called_twice_are_close_to_pytorch(packed: bool, tmp_path: Path) -> None:
    init = "self.stem, self.twice = nn.Conv2d(3, 8, 3, bias=False), nn.Conv2d(8, 8, 1, bias=False)"
    more = functions(calibration_inputs="[(1 + torch.rand(1, 3, 6, 6),) for _ in range(20)]")
    forward = "x = torch.relu(self.stem(x)); return self.twice(torch.relu(self.twice(x)))"
    source = model_source(forward, "(1 + torch.rand(1, 3, 6, 6),)", init) + more
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m", packed=packed))
    expected, actual = (result.golden[name].astype(float) for name in ("eager_0", "output_0"))
    assert ((expected - actual) ** 2).sum() < 1e-3 * (expected**2).sum()
    convolution = "torch_fusion::convolution" if packed else "cortex_m::quantized_conv2d"
    assert result.operators[convolution] == 3


def test_nothing_is_corrected_that_the_kernels_have_no_room_for() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3)).eval()
    samples = [(1 + torch.rand(1, 3, 8, 8),) for _ in range(8)]
    quantized = quantize(CORTEX_M.run(capture(net, samples[0])), samples, InFloat(Path("model.py")))
    before = quantized.module(*samples[0])
    shifted = [{name: value + 1 for name, value in each.items()} for each in quantized.observed]
    correct_biases(quantized.module, shifted, quantized.samples, lambda *_: False)
    assert torch.equal(quantized.module(*samples[0]), before)
    correct_biases(quantized.module, shifted, quantized.samples, lambda *_: True)
    assert float((quantized.module(*samples[0]) - before).mean()) > 0.3
