"""Models that take derivatives of what they compute, such as forces of an energy, against PyTorch."""

from pathlib import Path

import pytest

from tools.pipeline.export.options import Options
from tools.pipeline.export.testing import export_source, model_source

_INIT = """\
self.net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
self.register_buffer("seen", torch.zeros(2, 4))
self.register_buffer("steps", torch.tensor(2))
self.register_buffer("rate", torch.tensor(0.5))"""


@pytest.mark.parametrize(
    "forward",
    [
        """\
with torch.enable_grad():
    x = x.detach().requires_grad_(True)
    energy = self.net(x).sum()
    (force,) = torch.autograd.grad(energy, x)
self.seen += force
return energy, -force, self.seen * 1""",
        "return torch.func.vmap(torch.func.grad(lambda y: self.net(y).squeeze(-1)))(x)",
        "return torch.func.jacfwd(self.net)(x)",
        """\
for _ in range(self.steps.item()):
    x = x - float(self.rate) * torch.func.grad(lambda y: self.net(y).sum())(x)
return x""",
    ],
)
def test_derivatives_are_those_of_pytorch(forward: str, tmp_path: Path) -> None:
    source = model_source(forward, "(torch.randn(2, 4),)", _INIT)
    # The export compares the program with the module.
    export_source(tmp_path, source)
    assert export_source(tmp_path, source, options=Options("cortex-m4", "cortex_m")).decibels() > 30


_SALIENCY = """\
with torch.enable_grad():
    x = x.detach().requires_grad_(True)
    y = self.net(x)
    (slope,) = torch.autograd.grad(y.max(), x)
return y.detach(), slope"""


def test_derivatives_of_convolutions_and_activations(tmp_path: Path) -> None:
    """PyTorch decomposes neither of them. The last window reaches no end of the image."""
    layers = "nn.Conv2d(2, 4, 3, padding=1), nn.SiLU(), nn.MaxPool2d(2), nn.Conv2d(4, 8, 2, 2, groups=2), nn.Mish()"
    init = f"self.net = nn.Sequential({layers}, nn.ConvTranspose2d(8, 2, 3, 2), nn.Flatten(), nn.Linear(50, 3))"
    export_source(tmp_path, model_source(_SALIENCY, "(torch.randn(1, 2, 10, 10),)", init))
