"""Equalization of channels."""

from pathlib import Path

import pytest
import torch
from torch import nn

from tools.pipeline.export.cortex_m.equalize import equalize
from tools.pipeline.export.cortex_m.quantize import fold
from tools.pipeline.export.export import Options
from tools.pipeline.export.lower import capture
from tools.pipeline.export.testing import export_source, model_source

# Channels of a thousand times another size, which the next layer takes to one: as batch normalization leaves them.
_INIT = """\
self.a = nn.Conv2d(3, 8, 3)
self.b = nn.Conv2d(8, 8, 3, padding=1, groups=8)
self.c = nn.Conv2d(8, 4, 1)
sizes = torch.tensor([1000.0, 1, 300, 3, 100, 10, 30, 1]).reshape(8, 1, 1, 1)
with torch.no_grad():
    self.a.weight *= sizes
    self.a.bias *= sizes.flatten()
    self.b.weight /= sizes
"""


class _Spread(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        exec(_INIT, {"self": self, "nn": nn, "torch": torch})

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c(self.b(torch.relu(self.a(x))))


def test_floating_point_computes_the_same_to_the_bit_with_channels_of_about_one_size() -> None:
    torch.manual_seed(0)
    samples = [(torch.randn(1, 3, 12, 12),) for _ in range(3)]
    module = fold(capture(_Spread().eval(), samples[0])).module(check_guards=False)
    before = [module(*sample) for sample in samples]
    (between,) = equalize(module, samples)
    assert all(torch.equal(module(*sample), expected) for sample, expected in zip(samples, before, strict=True))

    class _Seen(torch.fx.Interpreter):
        def run_node(self, n: torch.fx.Node) -> torch.Tensor:
            result = super().run_node(n)
            if n is between:
                self.sizes = result.amax((0, 2, 3))
            return result

    seen = _Seen(module)
    seen.run(*samples[0])
    assert seen.sizes.max() < 8 * seen.sizes.min()


@pytest.mark.parametrize("last", ["nn.Conv2d(8, 4, 1)", "nn.Conv2d(8, 4, 3, groups=2)"])
def test_a_depthwise_network_with_channels_of_different_sizes_is_close_to_pytorch_in_int8(
    tmp_path: Path, last: str
) -> None:
    source = model_source(
        "return self.c(self.b(torch.relu(self.a(x))))",
        "(torch.randn(1, 3, 12, 12),)",
        _INIT.replace("nn.Conv2d(8, 4, 1)", last),
    )
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m"))
    expected, actual = (result.golden[name].astype(float) for name in ("eager_0", "output_0"))
    # Without: 15.5 dB, and 4.8 dB with the groups, for which layers would stay in floating point.
    assert ((expected - actual) ** 2).sum() < 1e-3 * (expected**2).sum()
    assert result.report is not None
    assert any(note.startswith("channels were equalized") for note in result.report["notes"])


def test_channels_of_one_size_stay_as_they_are() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    samples = [(torch.randn(1, 3, 12, 12),)]
    module = fold(capture(net, samples[0])).module(check_guards=False)
    assert equalize(module, samples) == []
