"""Equalization of channels."""

import pytest
import torch
from torch import nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.pipelines import CORTEX_M
from tools.pipeline.export.quantize.equalize import equalize
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
    module = CORTEX_M.run(capture(_Spread().eval(), samples[0])).module(check_guards=False)
    before = [module(*sample) for sample in samples]
    between, *_ = equalize(module, samples)
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
def test_a_depthwise_network_with_channels_of_different_sizes_is_close_to_pytorch_in_int8(tmp_path, last) -> None:
    source = model_source(
        "return self.c(self.b(torch.relu(self.a(x))))",
        "(torch.randn(1, 3, 12, 12),)",
        _INIT.replace("nn.Conv2d(8, 4, 1)", last),
    )
    result = export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m"))
    expected, actual = (result.golden[name].astype(float) for name in ("eager_0", "output_0"))
    # Without equalization, the ratio is 15.5 dB, and 4.8 dB with the groups, for which layers would stay in floating
    # point.
    assert ((expected - actual) ** 2).sum() < 1e-3 * (expected**2).sum()
    assert result.report is not None
    assert any(note.startswith("channels were equalized") for note in result.report["notes"])


class _Block(nn.Module):
    """An inverted residual with channels of different sizes, inside and where it is added."""

    def __init__(self, size: float, sizes: torch.Tensor) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3)
        self.expand, self.depthwise = nn.Conv2d(8, 8, 1), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.project, self.head = nn.Conv2d(8, 8, 1), nn.Linear(8, 4)
        with torch.no_grad():
            for writer in (self.stem, self.expand, self.project):
                writer.weight *= sizes.reshape(-1, 1, 1, 1) * size
                writer.bias *= sizes * size
            self.expand.weight /= sizes.reshape(1, -1, 1, 1) * size
            self.depthwise.weight /= sizes.reshape(-1, 1, 1, 1) * size
            self.head.weight /= sizes * size

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        y = nn.functional.relu6(self.depthwise(nn.functional.relu6(self.expand(x))))
        x = x + self.project(y)
        return self.head(nn.functional.adaptive_avg_pool2d(x, 1).flatten(1))


def _equalized(net: nn.Module) -> tuple[list[str], float, float]:
    """Returns the operators whose results are equalized, and the largest differences on calibration samples and on
    others.
    """
    torch.manual_seed(0)
    samples = [(torch.randn(1, 3, 12, 12),) for _ in range(4)]
    module = CORTEX_M.run(capture(net.eval(), samples[0])).module(check_guards=False)
    others = [(torch.randn(1, 3, 12, 12),) for _ in range(4)]
    with torch.no_grad():
        before = [module(*sample) for sample in (*samples, *others)]
        found = equalize(module, samples)
        changes = [
            float((module(*sample) - expected).abs().max())
            for sample, expected in zip((*samples, *others), before, strict=True)
        ]
    return [str(node.target) for node in found], max(changes[:4]), max(changes[4:])


_SIZES = torch.tensor([1000.0, 1, 300, 3, 100, 10, 30, 1]) / 1000


class _Residual(nn.Module):
    """A convolution that reads what its result is added to."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.own, self.head = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3, padding=1), nn.Conv2d(8, 4, 1)
        with torch.no_grad():
            for writer in (self.stem, self.own):
                writer.weight *= _SIZES.reshape(-1, 1, 1, 1)
                writer.bias *= _SIZES
            for reader in (self.own, self.head):
                reader.weight /= _SIZES.reshape(1, -1, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.stem(x))
        return self.head(torch.relu(x + self.own(x)))


def test_a_layer_that_reads_what_its_result_is_added_to_has_the_factors_of_both() -> None:
    torch.manual_seed(0)
    found, change, other = _equalized(_Residual())
    assert found and change == other == 0


def test_sums_have_common_factors_and_relu6_lets_those_through_that_keep_channels_inside() -> None:
    torch.manual_seed(0)
    targets, seen, unseen = _equalized(_Block(1.0, _SIZES))
    # The head reads a pooling of the sum, whose other term is the stem's result.
    assert {"aten.adaptive_avg_pool2d.default", "aten.conv2d.default"} < set(targets)
    assert "aten.hardtanh.default" in targets
    assert seen == unseen == 0


def test_channels_that_reach_the_bound_of_relu6_keep_their_size() -> None:
    torch.manual_seed(0)
    # The largest channels are cut off at 6, small ones are not.
    targets, seen, unseen = _equalized(_Block(100.0, _SIZES))
    assert "aten.hardtanh.default" in targets
    assert seen == unseen == 0
    # All channels are.
    targets, seen, _ = _equalized(_Block(100_000.0, _SIZES))
    assert "aten.hardtanh.default" not in targets and seen < 1e-3


def test_what_a_convolution_and_an_activation_read_is_equalized_for_both() -> None:
    class Net(_Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            return self.expand(x) + self.project(torch.relu(x))

    torch.manual_seed(0)
    net = Net(1.0, _SIZES)
    with torch.no_grad():
        net.project.weight /= _SIZES.reshape(1, -1, 1, 1)
    targets, seen, unseen = _equalized(net)
    assert {"aten.conv2d.default", "aten.relu.default"} <= set(targets)
    assert seen == unseen == 0


def test_a_tensor_that_something_else_reads_stays_as_it_is() -> None:
    class Net(_Block):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.stem(x)
            y = self.project(torch.relu(self.depthwise(torch.relu(self.expand(x)))))
            return (x + y).softmax(1)

    torch.manual_seed(0)
    targets, seen, _ = _equalized(Net(1.0, _SIZES))
    assert "aten.add.Tensor" not in targets and "aten.conv2d.default" not in targets
    assert "aten.relu.default" in targets and seen == 0


def test_channels_of_one_size_stay_as_they_are() -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3)).eval()
    samples = [(torch.randn(1, 3, 12, 12),)]
    module = CORTEX_M.run(capture(net, samples[0])).module(check_guards=False)
    assert equalize(module, samples) == []
