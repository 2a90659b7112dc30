"""Networks that are judged by how far int8 is from floating point, on inputs that were not used for calibration.

A model file for the exporter: those of networks.py, with random weights, and others that are trained on scikit-learn's
digits first, as training is what makes channels and layers differ in size.
"""

from collections.abc import Callable
from types import SimpleNamespace

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

from conformance.networks.networks import NETWORKS, Network

_CALIBRATION = 8
_EVALUATION = 32
_HELD_OUT = 360
_EVALUATED = 100
_EPOCHS = 8
_BATCH = 32

TRAINED: dict[str, Callable[[], nn.Module]] = {}


class _Inverted(nn.Module):
    """MobileNetV2's inverted residual."""

    def __init__(self, inputs: int, outputs: int, act: type[nn.Module] = nn.ReLU6, stride: int = 1) -> None:
        super().__init__()
        inner = 4 * inputs
        self.adds = stride == 1 and inputs == outputs
        self.body = nn.Sequential(
            nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner), act(),
            nn.Conv2d(inner, inner, 3, stride, 1, groups=inner, bias=False), nn.BatchNorm2d(inner), act(),
            nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.body(x) if self.adds else self.body(x)


class _Residual(nn.Module):
    """ResNet's basic block."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x + self.body(x))


def _trained(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    TRAINED[f"trained_{make.__name__}"] = make
    return make


def _stem(channels: int, act: type[nn.Module]) -> list[nn.Module]:
    return [nn.Conv2d(1, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), act()]


def _head(channels: int) -> list[nn.Module]:
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 10)]


@_trained
def mobilenet_v2() -> nn.Module:
    """Returns inverted residuals with relu6, two of which are added to in a row."""
    blocks = [_Inverted(8, 8), _Inverted(8, 8), _Inverted(8, 16, stride=2), _Inverted(16, 16), _Inverted(16, 16)]
    return nn.Sequential(*_stem(8, nn.ReLU6), *blocks, *_head(16))


@_trained
def mobilenet_v2_spread() -> nn.Module:
    """Returns the same with channels of several sizes, as years of weight decay leave those of published weights."""
    net = mobilenet_v2()
    for norm in (module for module in net.modules() if isinstance(module, nn.BatchNorm2d)):
        norm.weight.data = 0.5 * torch.randn_like(norm.weight).exp()
    return net


@_trained
def mobilenet_v2_relu() -> nn.Module:
    """Returns the same with relu."""
    blocks = [_Inverted(8, 8, nn.ReLU), _Inverted(8, 16, nn.ReLU, 2), _Inverted(16, 16, nn.ReLU)]
    return nn.Sequential(*_stem(8, nn.ReLU), *blocks, *_head(16))


@_trained
def mobilenet_v1() -> nn.Module:
    """Returns depthwise and pointwise convolutions with relu6."""

    def block(inputs: int, outputs: int, stride: int) -> list[nn.Module]:
        return [
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False), nn.BatchNorm2d(inputs), nn.ReLU6(),
            nn.Conv2d(inputs, outputs, 1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU6(),
        ]  # fmt: skip

    return nn.Sequential(*_stem(8, nn.ReLU6), *block(8, 16, 1), *block(16, 32, 2), *block(32, 32, 1), *_head(32))


@_trained
def res_net() -> nn.Module:
    """Returns basic blocks."""
    return nn.Sequential(*_stem(8, nn.ReLU), _Residual(8), _Residual(8), nn.MaxPool2d(2), _Residual(8), *_head(8))


@_trained
def perceptron() -> nn.Module:
    """Returns linear layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10)
    )  # fmt: skip


@_trained
def rows() -> nn.Module:
    """Returns a transformer whose tokens are the rows of the image."""
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    return nn.Sequential(
        nn.Flatten(1, 2), nn.Linear(8, 16), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(),
        nn.Linear(128, 10),
    )  # fmt: skip


def entries() -> dict[str, SimpleNamespace]:
    """Returns the models of this file, by name."""
    random = {name: _random(network) for name, network in NETWORKS.items()}
    return random | {name: _of_digits(make) for name, make in TRAINED.items()}


def _random(network: Network) -> SimpleNamespace:
    entry = network.entry()
    samples = [network.sample(50 + index) for index in range(_EVALUATION)]
    entry.evaluation_set = lambda: (samples, torch.zeros(_EVALUATION).long())
    return entry


def _of_digits(make: Callable[[], nn.Module]) -> SimpleNamespace:
    def evaluation() -> tuple[list[tuple[Tensor, ...]], Tensor]:
        images, labels = (values[:_EVALUATED] for values in _digits(held_out=True))
        return [(image,) for image in images.split(1)], labels

    return SimpleNamespace(
        model=lambda: make().eval(),
        train=lambda: _train(make),
        example_inputs=lambda: (_digits(held_out=True)[0][:1],),
        calibration_inputs=lambda: [(image,) for image in _digits(held_out=False)[0][:_CALIBRATION].split(1)],
        evaluation_set=evaluation,
    )


def _train(make: Callable[[], nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    net = make().train()
    images, labels = _digits(held_out=False)
    optimizer = torch.optim.Adam(net.parameters(), 0.005)
    for _ in range(_EPOCHS):
        for batch in torch.randperm(len(images)).split(_BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(images[batch]), labels[batch]).backward()
            optimizer.step()
    return net.eval()


def _digits(held_out: bool) -> tuple[Tensor, Tensor]:
    """Images [n, 1, 8, 8] scaled to [0, 1] and their labels; the same random split every time."""
    pixels, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    chosen = order[:_HELD_OUT] if held_out else order[_HELD_OUT:]
    images = torch.from_numpy(pixels).float().div(16).reshape(-1, 1, 8, 8)
    return images[chosen], torch.from_numpy(labels)[chosen]
