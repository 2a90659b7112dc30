"""Small networks of the kinds that people bring: vision, attention, sound, sensors, and those of tutorials.

A model file for the exporter: each network is one of its entries(). They are our own, at small sizes, and made of what
larger ones of their kind are made of, so that what is said of them holds for those, too.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F  # noqa: N812  # as models write it
from torch import Tensor, nn

_CALIBRATION = 8
_EVALUATION = 4


@dataclass(frozen=True)
class Network:
    """A network and the shape of its input; values are those of a normal distribution.

    Attributes:
      batch: inputs at once for the statistics of batch normalization.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    batch: int = 1

    def model(self) -> nn.Module:
        """Returns the module with random weights, and statistics of batch normalization as after training."""
        torch.manual_seed(0)
        model = self.make()
        if any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in model.modules()):
            model.train()
            with torch.no_grad():
                for index in range(100, 100 + 8 * self.batch, self.batch):
                    model(*map(torch.cat, zip(*map(self.sample, range(index, index + self.batch)), strict=True)))
        return model.eval()

    def sample(self, seed: int) -> tuple[Tensor, ...]:
        """Returns the input number `seed`."""
        return (torch.randn(self.shape, generator=torch.Generator().manual_seed(seed)),)

    def entry(self) -> SimpleNamespace:
        """Returns what a model file has for it."""
        return SimpleNamespace(
            model=self.model,
            example_inputs=lambda: self.sample(0),
            calibration_inputs=lambda: [self.sample(index) for index in range(_CALIBRATION)],
            # It is not among the inputs of the calibration.
            evaluation_set=lambda: ([self.sample(50 + i) for i in range(_EVALUATION)], torch.zeros(_EVALUATION).long()),
        )


NETWORKS: dict[str, Network] = {}
_IMAGE = (1, 3, 16, 16)
_SERIES = (1, 3, 48)
_TOKENS = (1, 12, 16)


def _network(*shape: int) -> Callable[[type[nn.Module]], type[nn.Module]]:
    def register(kind: type[nn.Module]) -> type[nn.Module]:
        name = "".join(f"_{c.lower()}" if c.isupper() else c for c in kind.__name__).lstrip("_")
        NETWORKS[name] = Network(kind, shape)
        return kind

    return register


def entries() -> dict[str, SimpleNamespace]:
    """Returns the models of this file, by name."""
    return {name: network.entry() for name, network in NETWORKS.items()}


def _sequential(name: str, shape: tuple[int, ...], make: Callable[[], list[nn.Module]]) -> None:
    NETWORKS[name] = Network(lambda: nn.Sequential(*make()), shape)


def _conv(
    inputs: int, outputs: int, kernel: int = 3, stride: int = 1, groups: int = 1, act: type[nn.Module] | None = nn.ReLU
) -> nn.Sequential:
    """Returns a convolution, batch normalization and an activation."""
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), *([] if act is None else [act()]))


class _Head(nn.Module):
    def __init__(self, channels: int, classes: int = 5) -> None:
        super().__init__()
        self.fc = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x.mean((2, 3)))


# Networks of plain layers.
_sequential("vgg", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(True), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(True),
    nn.MaxPool2d(2), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(64, 16), nn.ReLU(True), nn.Dropout(),
    nn.Linear(16, 5),
])  # fmt: skip
_sequential("lenet", (1, 1, 20, 20), lambda: [
    nn.Conv2d(1, 6, 5), nn.Tanh(), nn.AvgPool2d(2), nn.Conv2d(6, 8, 5), nn.Sigmoid(), nn.AvgPool2d(2), nn.Flatten(),
    nn.Linear(32, 20), nn.Tanh(), nn.Linear(20, 10), nn.LogSoftmax(1),
])  # fmt: skip
_sequential("mobilenet_v1_blocks", _IMAGE, lambda: [
    _conv(3, 8, stride=2, act=nn.ReLU6), _conv(8, 8, groups=8, act=nn.ReLU6), _conv(8, 16, 1, act=nn.ReLU6), _Head(16),
])  # fmt: skip
_sequential("mlp", (1, 12), lambda: [nn.Linear(12, 24), nn.LeakyReLU(), nn.Linear(24, 24), nn.ELU(), nn.Linear(24, 3)])
_sequential("mlp_batch_norm", (4, 12), lambda: [
    nn.Linear(12, 24), nn.BatchNorm1d(24), nn.SELU(), nn.Linear(24, 24), nn.LayerNorm(24), nn.Mish(), nn.Linear(24, 3),
    nn.Softmax(-1),
])  # fmt: skip
_sequential("autoencoder_images", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(),
    nn.ConvTranspose2d(16, 8, 3, 2, 1, output_padding=1), nn.ReLU(), nn.ConvTranspose2d(8, 3, 2, 2), nn.Sigmoid(),
])  # fmt: skip
_sequential("dcgan_generator", (1, 8, 1, 1), lambda: [
    nn.ConvTranspose2d(8, 16, 4, 1, 0, bias=False), nn.BatchNorm2d(16), nn.ReLU(True),
    nn.ConvTranspose2d(16, 8, 4, 2, 1, bias=False), nn.BatchNorm2d(8), nn.ReLU(True),
    nn.ConvTranspose2d(8, 1, 4, 2, 1, bias=False), nn.Tanh(),
])  # fmt: skip
_sequential("dcgan_discriminator", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 4, 2, 1), nn.LeakyReLU(0.2, True), nn.Conv2d(8, 16, 4, 2, 1), nn.BatchNorm2d(16),
    nn.LeakyReLU(0.2, True), nn.Conv2d(16, 1, 4), nn.Sigmoid(), nn.Flatten(),
])  # fmt: skip
_sequential("all_convolutional", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3, stride=2, padding="valid"), nn.GELU(), nn.Conv2d(8, 8, 3, padding="same", padding_mode="zeros"),
    nn.GELU(), nn.Conv2d(8, 5, 1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.LogSoftmax(-1),
])  # fmt: skip
_sequential("norms", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3), nn.InstanceNorm2d(8, affine=True),
    nn.PReLU(), nn.Conv2d(8, 4, 1), nn.Hardtanh(), _Head(4),
])  # fmt: skip
_sequential("local_response", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3), nn.ReLU(), nn.LocalResponseNorm(3), nn.MaxPool2d(3, 2), nn.Conv2d(8, 8, 3), nn.Softplus(),
    _Head(8),
])  # fmt: skip
_sequential("video", (1, 2, 6, 10, 10), lambda: [
    nn.Conv3d(2, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.MaxPool3d(2), nn.Conv3d(4, 8, 3), nn.ReLU(),
    nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8, 3),
])  # fmt: skip
_sequential("pads", _IMAGE, lambda: [
    nn.ReflectionPad2d(1), nn.Conv2d(3, 8, 3), nn.ReLU(), nn.ReplicationPad2d(1), nn.Conv2d(8, 8, 3), nn.ReLU(),
    nn.ZeroPad2d((0, 1, 0, 1)), nn.Conv2d(8, 8, 3, 2), nn.Upsample(scale_factor=2), nn.Conv2d(8, 3, 1),
])  # fmt: skip
_sequential("upsampling", _IMAGE, lambda: [
    nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=False),
    nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2), nn.Conv2d(3, 1, 1),
])  # fmt: skip

# Sequences.
_sequential("raw_sound", (1, 1, 256), lambda: [
    nn.Conv1d(1, 8, 16, 4), nn.BatchNorm1d(8), nn.ReLU(), nn.MaxPool1d(4), nn.Conv1d(8, 8, 3), nn.ReLU(),
    nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(8, 4),
])  # fmt: skip
_sequential("har_cnn", _SERIES, lambda: [
    nn.Conv1d(3, 8, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Conv1d(8, 16, 5), nn.ReLU(), nn.MaxPool1d(2), nn.Flatten(),
    nn.Linear(144, 16), nn.ReLU(), nn.Linear(16, 6), nn.Softmax(1),
])  # fmt: skip
_sequential("denoiser", (1, 1, 64), lambda: [
    nn.Conv1d(1, 8, 9, padding=4), nn.ReLU(), nn.Conv1d(8, 8, 9, padding=4, groups=8), nn.ReLU(), nn.Conv1d(8, 8, 1),
    nn.ReLU(), nn.ConvTranspose1d(8, 1, 4, 2, 1),
])  # fmt: skip


@_network(*_IMAGE)
class ResNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.a, self.b = _conv(3, 8), _conv(8, 16, stride=2), _conv(16, 16, act=None)
        self.skip, self.head = _conv(8, 16, 1, 2, act=None), _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        return self.head(F.relu(self.b(self.a(x)) + self.skip(x)))


@_network(*_IMAGE)
class ResNeXtBottleneck(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16)
        self.body = nn.Sequential(_conv(16, 8, 1), _conv(8, 8, groups=4), _conv(8, 16, 1, act=None))
        self.head = _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x += self.body(x)
        return self.head(x.relu_())


@_network(*_IMAGE)
class InvertedResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 8, stride=2, act=nn.Hardswish)
        self.expand, self.depth = _conv(8, 24, 1, act=nn.Hardswish), _conv(24, 24, 5, groups=24, act=nn.Hardswish)
        self.fc1, self.fc2 = nn.Conv2d(24, 8, 1), nn.Conv2d(8, 24, 1)
        self.project, self.head = _conv(24, 8, 1, act=None), _Head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.depth(self.expand(x))
        y = y * F.hardsigmoid(self.fc2(F.relu(self.fc1(F.adaptive_avg_pool2d(y, 1)))))
        return self.head(x + self.project(y))


@_network(*_IMAGE)
class HandWrittenHardswish(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = _conv(3, 8, act=None), _conv(8, 8, act=None), _Head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        x = x * F.relu6(x + 3) / 6
        x = self.b(x)
        return self.head(x * ((x + 3).clamp(0, 6) / 6))


@_network(*_IMAGE)
class EfficientNetBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = _conv(3, 16, 3, 2, act=nn.SiLU), _conv(16, 16, 3, groups=16, act=nn.SiLU)
        self.reduce, self.expand = nn.Conv2d(16, 4, 1), nn.Conv2d(4, 16, 1)
        self.project, self.head = _conv(16, 16, 1, act=None), _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        y = self.b(x)
        scale = torch.sigmoid(self.expand(F.silu(self.reduce(y.mean((2, 3), keepdim=True)))))
        return self.head(self.project(scale * y) + x)


@_network(*_IMAGE)
class SqueezeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.pool = nn.Conv2d(3, 8, 3, 2), nn.MaxPool2d(3, 2, ceil_mode=True)
        self.squeeze, self.one, self.three = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1), nn.Conv2d(4, 8, 3, padding=1)
        self.classifier = nn.Conv2d(16, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.squeeze(self.pool(F.relu(self.stem(x)))))
        x = torch.cat([F.relu(self.one(x)), F.relu(self.three(x))], 1)
        return torch.flatten(F.adaptive_avg_pool2d(F.relu(self.classifier(x)), (1, 1)), 1)


@_network(*_IMAGE)
class ShuffleNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 16, stride=2)
        self.branch = nn.Sequential(_conv(8, 8, 1), _conv(8, 8, groups=8, act=None), _conv(8, 8, 1))
        self.head = _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        kept, x = self.stem(x).chunk(2, dim=1)
        x = torch.cat((kept, self.branch(x)), 1)
        b, c, h, w = x.shape
        x = x.view(b, 2, c // 2, h, w).transpose(1, 2).contiguous().view(b, c, h, w)
        return self.head(x)


@_network(*_IMAGE)
class GhostModule(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.primary, self.cheap, self.head = _conv(3, 6), _conv(6, 6, groups=6), _Head(11)

    def forward(self, x: Tensor) -> Tensor:
        x = self.primary(x)
        return self.head(torch.cat([x, self.cheap(x)], 1)[:, :11, :, :])


@_network(*_IMAGE)
class DenseNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(8 + 4 * i) for i in range(3))
        self.convs = nn.ModuleList(nn.Conv2d(8 + 4 * i, 4, 3, padding=1) for i in range(3))
        self.head = _Head(20)

    def forward(self, x: Tensor) -> Tensor:
        features = [self.stem(x)]
        for norm, conv in zip(self.norms, self.convs, strict=True):
            features.append(conv(F.relu(norm(torch.cat(features, 1)))))
        return self.head(F.avg_pool2d(torch.cat(features, 1), 2))


@_network(*_IMAGE)
class Inception(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.d = _conv(3, 4, 1), _conv(3, 4, 3), _conv(3, 4, 5), _conv(3, 4, 1)
        self.head = _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        pooled = F.avg_pool2d(x, 3, stride=1, padding=1)
        return self.head(torch.cat([self.a(x), self.b(x), self.c(x), self.d(pooled)], 1))


@_network(*_IMAGE)
class ConvNeXtBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.depth = nn.Conv2d(3, 8, 4, 4), nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.norm = nn.LayerNorm(8)
        self.up, self.down, self.gamma = nn.Linear(8, 32), nn.Linear(32, 8), nn.Parameter(0.5 * torch.ones(8))
        self.head = _Head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.gamma * self.down(F.gelu(self.up(y)))
        return self.head(x + y.permute(0, 3, 1, 2))


@_network(*_IMAGE)
class UNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.up = _conv(3, 8), _conv(8, 16), nn.ConvTranspose2d(16, 8, 2, 2)
        self.c, self.out = _conv(16, 8), nn.Conv2d(8, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        a = self.a(x)
        return self.out(self.c(torch.cat([a, self.up(self.b(F.max_pool2d(a, 2)))], dim=1)))


@_network(*_IMAGE)
class YoloC2f(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one = _conv(3, 16, 1, act=nn.SiLU)
        self.blocks = nn.ModuleList(_conv(8, 8, act=nn.SiLU) for _ in range(2))
        self.two, self.box, self.cls = _conv(32, 16, 1, act=nn.SiLU), nn.Conv2d(16, 4, 1), nn.Conv2d(16, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = list(self.one(x).chunk(2, 1))
        y.extend(block(y[-1]) for block in self.blocks)
        x = self.two(torch.cat(y, 1))
        return torch.cat([self.box(x).flatten(2), self.cls(x).flatten(2).sigmoid()], 1)


@_network(*_IMAGE)
class SpatialPyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.head = _conv(3, 8, 1), _conv(32, 8, 1), _Head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        y = F.max_pool2d(x, 5, 1, 2)
        z = F.max_pool2d(y, 5, 1, 2)
        return self.head(self.b(torch.cat([x, y, z, F.max_pool2d(z, 5, 1, 2)], 1)))


@_network(*_IMAGE)
class AtrousPyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 8, stride=2)
        self.rates = nn.ModuleList(nn.Conv2d(8, 4, 3, padding=r, dilation=r) for r in (1, 2, 3))
        self.pool, self.out = nn.Conv2d(8, 4, 1), nn.Conv2d(16, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        pooled = F.interpolate(F.elu(self.pool(F.adaptive_avg_pool2d(x, 1))), size=x.shape[2:], mode="bilinear")
        return self.out(torch.cat([*(F.relu(conv(x)) for conv in self.rates), pooled], 1))


@_network(*_IMAGE)
class FeaturePyramid(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = _conv(3, 8, stride=2), _conv(8, 16, stride=2)
        self.la, self.lb, self.out = nn.Conv2d(8, 8, 1), nn.Conv2d(16, 8, 1), nn.Conv2d(8, 2, 3, padding=1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        a = self.a(x)
        b = self.lb(self.b(a))
        return self.out(self.la(a) + F.interpolate(b, scale_factor=2.0, mode="nearest")), self.out(b)


@_network(*_IMAGE)
class ConvBlockAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.mlp = _conv(3, 8), nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 8))
        self.space, self.head = nn.Conv2d(2, 1, 7, padding=3), _Head(8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        scale = torch.sigmoid(self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3))))
        x = x * scale[:, :, None, None]
        planes = torch.cat([x.mean(1, keepdim=True), x.max(1, keepdim=True)[0]], 1)
        return self.head(x * torch.sigmoid(self.space(planes)))


@_network(1, 1, 16, 16)
class SpatialTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.local, self.theta = nn.Conv2d(1, 4, 5), nn.Linear(144, 6)
        self.conv, self.fc = nn.Conv2d(1, 8, 3), nn.Linear(392, 5)

    def forward(self, x: Tensor) -> Tensor:
        theta = self.theta(F.relu(F.max_pool2d(self.local(x), 2)).view(-1, 144)).view(-1, 2, 3)
        x = F.grid_sample(x, F.affine_grid(theta, list(x.size()), align_corners=False), align_corners=False)
        return F.log_softmax(self.fc(F.max_pool2d(F.relu(self.conv(x)), 2).view(-1, 392)), dim=1)


@_network(1, 1, 28, 28)
class MnistExample(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.conv2, self.drop = nn.Conv2d(1, 10, 5), nn.Conv2d(10, 20, 5), nn.Dropout2d()
        self.fc1, self.fc2 = nn.Linear(320, 50), nn.Linear(50, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool2d(self.conv1(x), 2))
        x = F.relu(F.max_pool2d(self.drop(self.conv2(x)), 2))
        x = F.dropout(F.relu(self.fc1(x.view(-1, 320))), training=self.training)
        return F.log_softmax(self.fc2(x), dim=1)


@_network(*_IMAGE)
class SuperResolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 5, padding=2), nn.Conv2d(8, 8, 3, padding=1)
        self.c = nn.Conv2d(8, 12, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.pixel_shuffle(self.c(F.relu(self.b(F.relu(self.a(x))))), 2)
        return y + F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


@_network(*_IMAGE)
class FastStyleTransfer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.n = nn.Conv2d(3, 8, 3), nn.InstanceNorm2d(8, affine=True)
        self.r, self.out = nn.Conv2d(8, 8, 3, padding=1, padding_mode="reflect"), nn.Conv2d(8, 3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.n(self.a(F.pad(x, (1, 1, 1, 1), mode="reflect"))))
        return torch.tanh(self.out(x + self.r(x))) * 150 + 127.5


@_network(1, 4, 8, 8)
class AlphaZero(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.res, self.p, self.v = _conv(4, 8), _conv(8, 8, act=None), nn.Conv2d(8, 2, 1), nn.Conv2d(8, 1, 1)
        self.policy, self.value = nn.Linear(128, 10), nn.Linear(64, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        x = self.stem(x)
        x = F.relu(x + self.res(x))
        policy = F.log_softmax(self.policy(F.relu(self.p(x)).flatten(1)), dim=-1)
        return policy, torch.tanh(self.value(F.relu(self.v(x)).reshape(x.size(0), -1)))


@_network(*_IMAGE)
class DuelingDqn(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.value, self.advantage = nn.Conv2d(3, 8, 4, 4), nn.Linear(128, 1), nn.Linear(128, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.elu(self.conv(x)).flatten(1)
        advantage = self.advantage(x)
        return self.value(x) + advantage - advantage.mean(dim=1, keepdim=True)


@_network(1, 10)
class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.e, self.m, self.s, self.d = nn.Linear(10, 16), nn.Linear(16, 4), nn.Linear(16, 4), nn.Linear(4, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = F.relu(self.e(x))
        mean, log = self.m(h), self.s(h)
        return torch.sigmoid(self.d(mean)), (log.exp() + mean**2 - 1 - log).sum(1) * 0.5


@_network(1, 12)
class TabularGates(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.out = nn.Linear(12, 32), nn.Linear(16, 32), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.glu(self.a(x))
        return self.out(math.sqrt(0.5) * (x + F.glu(self.b(x))))


# Attention.
class _Attention(nn.Module):
    """An attention as written by hand: one projection, heads by reshape."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.project, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: Tensor) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * (c // self.heads) ** -0.5
        return self.project((scores.softmax(dim=-1) @ v).transpose(1, 2).reshape(b, n, c))


@_network(*_IMAGE)
class VisionTransformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.patches, self.token = nn.Conv2d(3, 16, 4, 4), nn.Parameter(torch.randn(1, 1, 16) * 0.1)
        self.place = nn.Parameter(torch.randn(1, 17, 16) * 0.1)
        self.n1, self.n2, self.attention = nn.LayerNorm(16), nn.LayerNorm(16), _Attention(16, 2)
        self.mlp, self.head = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 16)), nn.Linear(16, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.token.expand(x.shape[0], -1, -1), x), dim=1) + self.place
        x = x + self.attention(self.n1(x))
        return self.head((x + self.mlp(self.n2(x)))[:, 0])


@_network(*_IMAGE)
class SwinWindows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.norm, self.attention = nn.Conv2d(3, 8, 2, 2), nn.LayerNorm(8), _Attention(8, 2)
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).permute(0, 2, 3, 1)
        b, h, w, c = x.shape
        y = torch.roll(self.norm(x), shifts=(-2, -2), dims=(1, 2))
        y = y.view(b, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)
        y = self.attention(y).view(b, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, w, c)
        return self.head((x + torch.roll(y, (2, 2), (1, 2))).mean((1, 2)))


@_network(*_IMAGE)
class ChannelAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.qkv, self.t = nn.Conv2d(3, 8, 1), nn.Conv2d(8, 24, 1), nn.Parameter(torch.ones(2, 1, 1))
        self.out = nn.Conv2d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.avg_pool2d(self.a(x), 2)
        q, k, v = (part.view(1, 2, 4, -1) for part in self.qkv(x).chunk(3, 1))
        q, k = F.normalize(q, dim=-1), F.normalize(k, dim=-1)
        return self.out((((q @ k.transpose(-2, -1)) * self.t).softmax(-1) @ v).view(1, 8, 8, 8))


@_network(*_TOKENS)
class EncoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True, norm_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@_network(*_TOKENS)
class DecoderLayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(12))

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x, x * 0.5, tgt_mask=self.mask)


@_network(*_TOKENS)
class GptBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(16), nn.LayerNorm(16)
        self.w1, self.b1 = nn.Parameter(torch.randn(16, 48) * 0.2), nn.Parameter(torch.zeros(48))
        self.w2, self.b2 = nn.Parameter(torch.randn(16, 16) * 0.2), nn.Parameter(torch.zeros(16))
        self.up, self.down = nn.Linear(16, 64), nn.Linear(64, 16)
        self.register_buffer("mask", torch.tril(torch.ones(12, 12)).view(1, 1, 12, 12))

    def forward(self, x: Tensor) -> Tensor:
        b, t, c = x.size()
        y = torch.addmm(self.b1, self.n1(x).view(-1, c), self.w1).view(b, t, 3 * c)
        q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in y.split(c, dim=2))
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // 2)
        scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf"))
        y = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, c)
        x = x + torch.addmm(self.b2, y.view(-1, c), self.w2).view(b, t, c)
        y = self.up(self.n2(x))
        y = 0.5 * y * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (y + 0.044715 * torch.pow(y, 3.0))))
        return x + self.down(y)


@_network(*_TOKENS)
class LlamaBlock(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 16, False), nn.Linear(16, 8, False), nn.Linear(16, 8, False)
        self.o = nn.Linear(16, 16, False)
        self.gate, self.up, self.down = nn.Linear(16, 32, False), nn.Linear(16, 32, False), nn.Linear(32, 16, False)
        self.w1, self.w2 = nn.Parameter(torch.ones(16)), nn.Parameter(torch.ones(16))
        angles = torch.arange(12)[:, None] / 100.0 ** (torch.arange(0, 8, 2) / 8)
        self.register_buffer("cos", angles.cos().repeat(1, 2))
        self.register_buffer("sin", angles.sin().repeat(1, 2))

    def _norm(self, x: Tensor, weight: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * weight

    def _rotate(self, x: Tensor) -> Tensor:
        one, two = x[..., :4], x[..., 4:]
        return x * self.cos + torch.cat((-two, one), -1) * self.sin

    def forward(self, x: Tensor) -> Tensor:
        y = self._norm(x, self.w1)
        q, k, v = (layer(y).reshape(1, 12, -1, 8).transpose(1, 2) for layer in (self.q, self.k, self.v))
        k, v = (part.repeat_interleave(2, 1) for part in (self._rotate(k), v))
        y = F.scaled_dot_product_attention(self._rotate(q), k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, 12, 16))
        y = self._norm(x, self.w2)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


@_network(*_TOKENS)
class MaskedPooling(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.fc = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 3)
        self.register_buffer("padding", torch.tensor([[False] * 9 + [True] * 3]))

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.attention(x, x, x, key_padding_mask=self.padding)
        kept = (~self.padding).float().unsqueeze(-1)
        return self.fc((y * kept).sum(1) / kept.sum(1))


@_network(*_TOKENS)
class MlpMixer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.n1, self.n2, self.a, self.b = nn.LayerNorm(16), nn.LayerNorm(16), nn.Linear(12, 12), nn.Linear(16, 16)

    def forward(self, x: Tensor) -> Tensor:
        x = x + F.gelu(self.a(self.n1(x).transpose(1, 2))).transpose(1, 2)
        return x + F.gelu(self.b(self.n2(x)))


@_network(*_TOKENS)
class LinearAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = nn.Linear(16, 8), nn.Linear(16, 8), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> Tensor:
        q, k = F.elu(self.q(x)) + 1, F.elu(self.k(x)) + 1
        context = torch.einsum("bnd,bne->bde", k, self.v(x))
        return torch.einsum("bnd,bde,bn->bne", q, context, 1 / torch.einsum("bnd,bd->bn", q, k.sum(1)))


@_network(*_TOKENS)
class Conformer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.wide = nn.LayerNorm(16), nn.Conv1d(16, 32, 1)
        self.depth = nn.Conv1d(16, 16, 5, padding=2, groups=16)
        self.batch, self.out = nn.BatchNorm1d(16), nn.Conv1d(16, 16, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = F.glu(self.wide(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)


@_network(*_IMAGE)
class DepthDecoder(nn.Module):
    """A network of depth estimation: elements reflected around images, and repeated."""

    def __init__(self) -> None:
        super().__init__()
        self.down, self.up = _conv(3, 16, stride=2), nn.Conv2d(16, 8, 3)
        self.mix, self.out = nn.Conv2d(11, 8, 3), nn.Conv2d(8, 1, 3)

    def forward(self, x: Tensor) -> Tensor:
        around = nn.ReflectionPad2d(1)
        y = F.interpolate(F.elu(self.up(around(self.down(x)))), scale_factor=2, mode="nearest")
        y = F.elu(self.mix(around(torch.cat([y, x], 1))))
        return torch.sigmoid(self.out(around(y)))


@_network(*_IMAGE)
class CoordinateAttention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.reduce = _conv(3, 16), _conv(16, 8, 1, act=nn.Hardswish)
        self.rows, self.columns, self.head = nn.Conv2d(8, 16, 1), nn.Conv2d(8, 16, 1), _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        rows, columns = F.adaptive_avg_pool2d(x, (None, 1)), F.adaptive_avg_pool2d(x, (1, None)).permute(0, 1, 3, 2)
        y = self.reduce(torch.cat([rows, columns], 2))
        rows, columns = torch.split(y, [16, 16], 2)
        return self.head(x * self.rows(rows).sigmoid() * self.columns(columns.permute(0, 1, 3, 2)).sigmoid())


@_network(*_IMAGE)
class FeatureModulation(nn.Module):
    """FiLM: each channel's factor and addend are computed."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.film, self.b, self.head = _conv(3, 16), nn.Linear(16, 32), _conv(16, 16), _Head(16)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        factor, addend = self.film(x.mean((2, 3))).chunk(2, 1)
        return self.head(self.b(F.relu(x * factor[:, :, None, None] + addend[:, :, None, None])))


@_network(1, 1, 4, 64)
class EegNet(nn.Module):
    """Filters over time, and two per filter over electrodes."""

    def __init__(self) -> None:
        super().__init__()
        self.time = nn.Sequential(nn.Conv2d(1, 8, (1, 15), padding="same", bias=False), nn.BatchNorm2d(8))
        self.space = nn.Sequential(nn.Conv2d(8, 16, (4, 1), groups=8, bias=False), nn.BatchNorm2d(16), nn.ELU())
        self.depth = nn.Conv2d(16, 16, (1, 8), padding="same", groups=16, bias=False)
        self.point = nn.Sequential(nn.Conv2d(16, 16, 1, bias=False), nn.BatchNorm2d(16), nn.ELU())
        self.fc = nn.Linear(128, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(F.avg_pool2d(self.space(self.time(x)), (1, 4)), 0.25, self.training)
        return self.fc(F.avg_pool2d(self.point(self.depth(x)), (1, 2)).flatten(1))


@_network(1, 8, 64)
class ConvTasNet(nn.Module):
    """Its separator: depthwise convolutions of growing dilation between pointwise ones, and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.ModuleList(nn.Conv1d(8, 24, 1) for _ in range(3))
        self.depth = nn.ModuleList(nn.Conv1d(24, 24, 3, padding=2**i, dilation=2**i, groups=24) for i in range(3))
        self.narrow = nn.ModuleList(nn.Conv1d(24, 8, 1) for _ in range(3))
        self.mask = nn.Conv1d(8, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        y = x
        for wide, depth, narrow in zip(self.wide, self.depth, self.narrow, strict=True):
            y = y + narrow(F.leaky_relu(depth(F.leaky_relu(wide(y), 0.25)), 0.25))
        return x * torch.sigmoid(self.mask(y))


@_network(1, 24, 40)
class TimeDelaySpeaker(nn.Module):
    """ECAPA's block: dilated convolutions of parts, gates of channels, statistics."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(24, 16, 5, padding=2)
        self.parts = nn.ModuleList(nn.Conv1d(4, 4, 3, padding=2, dilation=2) for _ in range(3))
        self.down, self.up, self.fc = nn.Linear(16, 8), nn.Linear(8, 16), nn.Linear(32, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        first, *others = torch.chunk(x, 4, 1)
        done = [first]
        for part, layer in zip(others, self.parts, strict=True):
            done.append(F.relu(layer(part if len(done) == 1 else part + done[-1])))
        y = torch.cat(done, 1)
        y = x + y * torch.sigmoid(self.up(F.relu(self.down(y.mean(2))))).unsqueeze(2)
        mean = y.mean(2)
        return self.fc(torch.cat([mean, ((y * y).mean(2) - mean * mean).clamp(min=1e-4).sqrt()], 1))


@_network(1, 10, 12)
class RelationNetwork(nn.Module):
    """Something computed for each pair."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.g, self.f = nn.Linear(12, 16), nn.Linear(12, 16), nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        pairs = F.relu(self.a(x).unsqueeze(2) + self.b(x).unsqueeze(1))
        return self.f(F.relu(self.g(pairs)).sum((1, 2)))


# Sound, sensors and state.
@_network(*_SERIES)
class TemporalConvolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv1d(3, 8, 3, padding=2), nn.Conv1d(8, 8, 3, padding=4, dilation=2)
        self.skip, self.fc = nn.Conv1d(3, 8, 1), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.a(x)[:, :, :-2])
        y = F.relu(self.b(y)[:, :, :-4])
        return self.fc(F.relu(y + self.skip(x))[:, :, -1])


@_network(*_SERIES)
class WaveNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv1d(3, 8, 1)
        self.filters = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**i) for i in range(3))
        self.gates = nn.ModuleList(nn.Conv1d(8, 8, 2, dilation=2**i) for i in range(3))
        self.mixes, self.out = nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(3)), nn.Conv1d(8, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        x, skip = self.stem(x), 0
        for index, (f, g, mix) in enumerate(zip(self.filters, self.gates, self.mixes, strict=True)):
            padded = F.pad(x, (2**index, 0))
            y = mix(torch.tanh(f(padded)) * torch.sigmoid(g(padded)))
            skip, x = skip + y, x + y
        return self.out(F.relu(skip))


@_network(1, 1, 20, 24)
class BroadcastedResidual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem, self.f2 = nn.Conv2d(1, 8, 5, (2, 1), 2), nn.Conv2d(8, 8, (3, 1), padding=(1, 0), groups=8)
        self.f1, self.mix = nn.Conv2d(8, 8, (1, 3), padding=(0, 1), groups=8), nn.Conv2d(8, 8, 1)
        self.fc = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        y = self.f2(x)
        z = F.silu(self.mix(self.f1(y.mean(2, keepdim=True))))
        return self.fc((x + y + z).relu().mean((2, 3)).view(-1, 8))


@_network(1, 20, 24)
class DsCnnKeywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c, self.fc = _conv(1, 8, 3, 2), _conv(8, 8, groups=8), _conv(8, 8, 1), nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.c(self.b(self.a(x.unsqueeze(1))))
        return self.fc(F.avg_pool2d(x, x.shape[2:]).squeeze(-1).squeeze(-1))


@_network(1, 24, 8)
class GruClassifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gru, self.fc = nn.GRU(8, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(self.gru(x)[0][:, -1])


@_network(1, 24, 8)
class LstmTagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.fc = nn.LSTM(8, 8, num_layers=2, bidirectional=True, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(F.dropout(self.lstm(x)[0], 0.2, self.training))


@_network(1, 3, 48)
class DeepConvLstm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.lstm, self.fc = nn.Conv1d(3, 8, 5), nn.LSTM(8, 8, batch_first=True), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(F.relu(self.conv(x)).transpose(1, 2))
        return self.fc(y[:, -1, :])


@_network(1, 8)
class RunningMean(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(8, 4)
        self.register_buffer("mean", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.mean.mul_(0.9).add_(0.1 * x)
        return self.fc(x - self.mean)


@_network(1, 4, 2)
class RingBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv1d(4, 6, 3), nn.Linear(36, 3)
        self.register_buffer("past", torch.zeros(1, 4, 8))

    def forward(self, x: Tensor) -> Tensor:
        y = torch.cat([self.past[:, :, 2:], x], dim=2)
        with torch.no_grad():
            self.past.copy_(y)
        return self.fc(F.relu(self.conv(y)).flatten(1))


@_network(1, 6)
class StreamingCell(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.fc = nn.GRUCell(6, 8), nn.Linear(8, 2)
        self.register_buffer("state", torch.zeros(1, 8))

    def forward(self, x: Tensor) -> Tensor:
        state = self.cell(x, self.state)
        with torch.no_grad():
            self.state.copy_(state)
        return self.fc(state)


@_network(1, 10, 6)
class SelectiveScan(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inside, self.delta, self.out = nn.Linear(6, 8), nn.Linear(6, 8), nn.Linear(8, 6)

    def forward(self, x: Tensor) -> Tensor:
        step = torch.exp(-F.softplus(self.delta(x)))
        value, state, rows = self.inside(x), torch.zeros(1, 8), []
        for index in range(x.shape[1]):
            state = step[:, index] * state + (1 - step[:, index]) * value[:, index]
            rows.append(state)
        return self.out(torch.stack(rows, 1)) + x


@_network(1, 6, 3)
class PointNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.fc = nn.Conv1d(3, 8, 1), nn.Conv1d(8, 16, 1), nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.b(F.relu(self.a(x.transpose(2, 1)))))
        return self.fc(torch.max(x, 2, keepdim=True)[0].view(-1, 16))


@_network(1, 8, 6)
class GraphConvolution(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 4)
        self.register_buffer("adjacency", torch.softmax(torch.randn(8, 8), 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.adjacency @ self.b(F.relu(self.adjacency @ self.a(x)))


@_network(1, 8, 4)
class NBeats(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 36)) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        rest, forecast = x.flatten(1), torch.zeros(1, 4)
        for block in self.blocks:
            back, ahead = block(rest).split([32, 4], dim=-1)
            rest, forecast = rest - back, forecast + ahead
        return forecast


@_network(1, 3, 48)
class SensorStatistics(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(15, 4)

    def forward(self, x: Tensor) -> Tensor:
        parts = [x.mean(-1), x.std(-1), x.amax(-1), x.amin(-1), x.abs().mean(-1)]
        return self.fc(torch.cat(parts, 1))


@_network(1, 8, 8, 4)
class GlobalFilter(nn.Module):
    """A filter in the spectrum of images, with complex weights."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4)
        self.weight = nn.Parameter(torch.randn(8, 5, 4, 2) * 0.3)
        self.fc = nn.Linear(4, 8)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft2(self.norm(x), dim=(1, 2), norm="ortho")
        filtered = torch.fft.irfft2(spectrum * torch.view_as_complex(self.weight), s=(8, 8), dim=(1, 2), norm="ortho")
        return F.gelu(self.fc(x + filtered)).mean((1, 2))


@_network(1, 4, 32)
class FourierOperator(nn.Module):
    """A layer of a Fourier neural operator: the lowest frequencies are mixed, the others are none."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4, 6, dtype=torch.cfloat) * 0.3)
        self.skip = nn.Conv1d(4, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        spectrum = torch.fft.rfft(x)
        mixed = torch.zeros_like(spectrum)
        mixed[..., :6] = torch.einsum("bix,iox->box", spectrum[..., :6], self.weight)
        return F.gelu(torch.fft.irfft(mixed, n=x.shape[-1]) + self.skip(x))


@_network(6, 5)
class GraphAttention(nn.Module):
    """Attention along the edges of a graph: a softmax over those that end in the same node."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(5, 8)
        self.attention = nn.Linear(16, 1)
        self.register_buffer("edges", torch.tensor([[0, 1, 2, 3, 4, 5, 0, 2, 4], [1, 2, 3, 4, 5, 0, 3, 5, 1]]))

    def forward(self, x: Tensor) -> Tensor:
        begin, end = self.edges
        x = self.fc(x)
        score = F.leaky_relu(self.attention(torch.cat([x[begin], x[end]], -1)).squeeze(-1), 0.2)
        largest = torch.full((len(x),), -math.inf).scatter_reduce(0, end, score, "amax")
        weight = (score - largest[end]).exp()
        weight = weight / torch.zeros(len(x)).scatter_add(0, end, weight)[end]
        return torch.zeros_like(x).index_add(0, end, weight[:, None] * x[begin])


@_network(1, 1, 40, 20)
class MemoryBlocks(nn.Module):
    """Feedforward sequential memory: convolutions over time of images that are one pixel wide."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.ModuleList([nn.Linear(20, 32), nn.Linear(32, 32)])
        self.memory = nn.ModuleList(nn.Conv2d(32, 32, (9, 1), padding=(4, 0), groups=32, bias=False) for _ in range(2))
        self.out = nn.Linear(32, 6)

    def forward(self, x: Tensor) -> Tensor:
        x = x.squeeze(1)
        for inside, memory in zip(self.inside, self.memory, strict=True):
            hidden = inside(x)
            x = F.relu(hidden + memory(hidden.transpose(1, 2).unsqueeze(-1)).squeeze(-1).transpose(1, 2))
        return self.out(x.mean(1)).log_softmax(-1)


@_network(1, 6, 1, 16, 16)
class TimeDistributed(nn.Module):
    """A recurrent layer over what separable convolutions make of each of several images."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, 3, 2), nn.ReLU(),
            nn.Conv2d(8, 8, 3, padding=1, groups=8), nn.ReLU(), nn.Conv2d(8, 16, 1), nn.ReLU(),
            nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.ReLU(), nn.Conv2d(16, 24, 1), nn.ReLU(),
        )  # fmt: skip
        self.gru, self.fc = nn.GRU(24, 16, batch_first=True), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        features = self.features(x.flatten(0, 1)).mean((2, 3))
        return self.fc(self.gru(features.view(*x.shape[:2], -1))[0][:, -1])
