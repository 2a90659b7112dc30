from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tools.pipeline.export.capture.capture import capture
from tools.pipeline.export.options import Options
from tools.pipeline.export.rewrite.batch_norm import fold_batch_norm
from tools.pipeline.export.rewrite.dead_channels import remove_dead_channels
from tools.pipeline.export.testing import export_source, model_source

_KEPT = 4


torch.manual_seed(0)


def _prune(model: nn.Module) -> None:
    """Zeros all filters but the first of layers with eight outputs and more; statistics are as after training."""
    for module in model.modules():
        if isinstance(module, (nn.Conv1d, nn.Conv2d, nn.Linear)) and module.weight.shape[0] >= 8:
            module.weight.data[_KEPT:] = 0
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.running_mean = torch.rand(module.num_features)
            nn.init.uniform_(module.bias, -1)
    model.eval()


class _Residual(nn.Module):
    """A sum of which one operand has filters that are zero, and a gate."""

    def __init__(self, skips: bool) -> None:
        super().__init__()
        self.one, self.other = nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 3, padding=1)
        self.gate, self.out, self.skips = nn.Conv2d(16, 16, 1), nn.Conv2d(32 if skips else 16, 3, 1), skips

    def forward(self, x: Tensor) -> Tensor:
        x = self.one(x).relu_()
        y = self.other(x)
        y = y * torch.sigmoid(self.gate(y.mean((2, 3), keepdim=True)))
        return self.out(torch.cat([x + y, nn.functional.max_pool2d(x, 3, 1, 1)], 1) if self.skips else y)


def _separable(outputs: int) -> list[nn.Module]:
    return [
        nn.Conv2d(8, 8, 3, 1, 1, groups=8, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU6(),
        nn.Conv2d(8, outputs, 1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(True),
    ]


_IMAGE = torch.randn(2, 3, 12, 12, generator=torch.Generator().manual_seed(1))
_SEPARABLE = [nn.Conv2d(3, 8, 1, 2), *_separable(32), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Dropout()]
_PADDED = [nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1)]
# Models, inputs, and the shapes of the weights that are left.
_CASES: dict[str, tuple[nn.Module, Tensor, list[tuple[int, ...]]]] = {
    "separable": (
        nn.Sequential(*_SEPARABLE, nn.Linear(128, 16), nn.Tanh(), nn.Linear(16, 5)),
        _IMAGE,
        [(4, 3, 1, 1), (4, 1, 3, 3), (4, 4, 1, 1), (4, 16), (5, 4)],
    ),
    # Constant channels stay where padding surrounds them, unless they are zero.
    "padded": (nn.Sequential(*_PADDED), _IMAGE, [(12, 3, 3, 3), (4, 12, 3, 3), (2, 4, 1, 1)]),
    "residual": (_Residual(True), _IMAGE, [(12, 3, 3, 3), (12, 12, 3, 3), (12, 12, 1, 1), (3, 24, 1, 1)]),
    "gate": (_Residual(False), _IMAGE, [(8, 3, 3, 3), (4, 8, 3, 3), (4, 4, 1, 1), (3, 4, 1, 1)]),
    # An unknown operator keeps all channels, including those of the depthwise layer that follows it.
    "unknown": (
        nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReflectionPad2d(1), nn.Conv2d(16, 16, 3, groups=16), *_PADDED[2:]),
        _IMAGE,
        [(16, 3, 3, 3), (16, 1, 3, 3), (4, 16, 3, 3), (2, 4, 1, 1)],
    ),
    "linear": (
        nn.Sequential(nn.Linear(12, 32), nn.GELU(), nn.Linear(32, 8), nn.Sigmoid(), nn.Linear(8, 3)),
        _IMAGE,
        [(4, 12), (4, 4), (3, 4)],
    ),
    "sequences": (
        nn.Sequential(nn.Conv1d(3, 16, 5), nn.LeakyReLU(), nn.MaxPool1d(2), nn.Conv1d(16, 2, 3)),
        _IMAGE[:, :, 0],
        [(4, 3, 5), (2, 4, 3)],
    ),
}


@pytest.mark.parametrize("case", _CASES)
def test_channels_that_compute_nothing_are_removed_exactly(case: str) -> None:
    model, x, left = _CASES[case]
    _prune(model)
    program = remove_dead_channels(fold_batch_norm(capture(model, (x,))))
    with torch.no_grad():
        torch.testing.assert_close(program.module()(x), model(x), rtol=1e-5, atol=1e-6)
    layers = [node for node in program.graph.nodes if node.name.startswith(("conv", "linear"))]
    assert [tuple(layer.args[1].meta["val"].shape) for layer in layers] == left


def test_inputs_that_nothing_reads_are_not_computed() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 6, 1)).eval()
    model[2].weight.data[:, 4:] = 0
    program = remove_dead_channels(capture(model, (_IMAGE,)))
    with torch.no_grad():
        # The products that are left may be added in another order.
        torch.testing.assert_close(program.module()(_IMAGE), model(_IMAGE))
    sizes = [node.args[1].meta["val"].shape[:2] for node in program.graph.nodes if node.name.startswith("conv")]
    assert sizes == [(4, 3), (6, 4)]


def test_programs_have_no_channels_that_compute_nothing(tmp_path: Path) -> None:
    options = Options("cortex-m4", "cortex_m", "int8")
    init = "self.layers = nn.Sequential(nn.Conv2d(3, 32, 3), nn.BatchNorm2d(32), nn.ReLU6(True), nn.Conv2d(32, 4, 1))"
    forward = "return self.layers(x)"
    inputs = "(torch.randn(1, 3, 8, 8),)"
    whole = export_source(tmp_path, model_source(forward, inputs, init), options=options)
    # A factor of zero, as training with a penalty on the factors leaves it.
    zeroed = f"{init}; self.layers[1].weight.data[8:] = 0"
    pruned = export_source(tmp_path, model_source(forward, inputs, zeroed), options=options)
    work = [sum(entry["macs"] for entry in result.manifest["operators"]) for result in (whole, pruned)]
    assert work == [36 * (27 * 32 + 32 * 4), 36 * (27 * 8 + 8 * 4)]
    assert len(pruned.program) < len(whole.program)


def test_programs_without_zeros_stay_as_they_are() -> None:
    program = capture(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(True)).eval(), (_IMAGE,))
    assert remove_dead_channels(program) is program
