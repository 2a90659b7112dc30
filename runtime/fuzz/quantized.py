"""Small models with int8 layers in every form that the export packs or leaves to a kernel of its own.

They have few channels, groups, strides, dilations, depthwise layers of odd counts; pools, paddings and elementwise
operators; norms and recurrent layers; enlarged images, volumes, state, control flow and floating point between them.
"""

import torch
from torch import Tensor, nn
from torch._higher_order_ops.map import map as torch_map
from torch._higher_order_ops.scan import scan
from torch.nn import functional


class Convolutions(nn.Module):
    """Convolutions that are packed."""

    def __init__(self) -> None:
        super().__init__()
        self.few = nn.Conv2d(3, 5, 3, padding=1)
        self.strided = nn.Conv2d(5, 8, (3, 2), stride=(2, 1), dilation=(1, 2), padding=2)
        self.point = nn.Conv2d(8, 6, 1)
        self.groups = nn.Conv2d(6, 8, 3, groups=2, padding=1)
        self.rows = nn.Conv2d(8, 16, (1, 3), stride=2)
        self.linear = nn.Linear(16, 7)

    def forward(self, x: Tensor) -> Tensor:
        x = self.point(functional.relu(self.strided(self.few(x))))
        x = self.rows(functional.relu6(self.groups(x)))
        return self.linear(x.mean((2, 3)))


class Tiles(nn.Module):
    """Convolutions of three by three that are computed in tiles, in the memory that the first layer needs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 16, 3, padding=1)
        self.down = nn.MaxPool2d(2)
        self.even = nn.Conv2d(16, 8, 3, padding=1)
        self.odd = nn.Conv2d(8, 7, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.odd(functional.relu(self.even(self.down(self.first(x)))))


class Depthwise(nn.Module):
    """Depthwise convolutions: packed, with and without padding, and unpacked ones."""

    def __init__(self) -> None:
        super().__init__()
        self.even = nn.Conv2d(16, 16, 3, padding=1, groups=16)
        self.wide = nn.Conv2d(16, 16, 5, stride=2, padding=2, groups=16)
        self.fewer = nn.Conv2d(16, 6, 1)
        self.odd = nn.Conv2d(6, 6, 3, groups=6)
        self.doubled = nn.Conv2d(6, 12, 2, groups=6)
        self.many = nn.Conv2d(12, 12, 1, groups=6)
        self.up = nn.ConvTranspose2d(12, 4, 3, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.many(self.doubled(self.odd(self.fewer(self.wide(self.even(x)))))))


class Elementwise(nn.Module):
    """Kernels without weights."""

    def forward(self, x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        pooled = functional.max_pool2d(x + y, 2, padding=1)
        mean = functional.avg_pool2d(x * y, 3, stride=2, padding=1)
        border = functional.pad(torch.maximum(x, y), (1, 2, 0, 1))
        product = torch.matmul(torch.minimum(x, y), y.transpose(2, 3)).softmax(-1)
        return pooled, mean, border.permute(0, 2, 3, 1).contiguous(), product, functional.gelu(x)


class Norms(nn.Module):
    """Normalizations and recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.group = nn.LayerNorm(8), nn.GroupNorm(2, 6)
        self.lstm, self.gru = nn.LSTM(8, 5, batch_first=True), nn.GRU(5, 4, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(self.lstm(self.group(self.layer(x)))[0])[0]


class Int4(nn.Module):
    """Layers that can have int4 weights: several groups of inputs with a remainder, images and rows."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Conv2d(5, 37, 1), nn.Conv2d(37, 3, 1, bias=False)
        self.rows, self.head = nn.Linear(12, 70), nn.Linear(70, 5, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.narrow(functional.relu6(self.wide(x)))
        return self.head(functional.relu(self.rows(x.flatten(2))))


class Enlarged(nn.Module):
    """Layers whose channels become pixels, and a convolution over a volume."""

    def __init__(self) -> None:
        super().__init__()
        self.volume = nn.Conv3d(2, 4, (3, 3, 2), padding=(1, 1, 0))
        self.first = nn.ConvTranspose2d(4, 5, 3, stride=2, padding=1, output_padding=1)
        self.second = nn.ConvTranspose2d(5, 8, (4, 3), stride=(2, 1), groups=1)
        self.shuffle = nn.PixelShuffle(2)

    def forward(self, x: Tensor) -> Tensor:
        return self.shuffle(self.second(functional.relu(self.first(self.volume(x).mean(4)))))


class State(nn.Module):
    """State in int8 and in floating point: past images, a recurrent layer's state, and sums between int8 layers."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("past", torch.zeros(1, 2, 4, 4))
        self.register_buffer("hidden", torch.zeros(1, 6))
        self.register_buffer("sum", torch.zeros(1, 6))
        self.conv, self.cell, self.head = nn.Conv2d(4, 3, 3), nn.GRUCell(12, 6), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        seen = self.conv(torch.cat([x, self.past], 1))
        self.past.copy_(x)
        self.hidden.copy_(self.cell(seen.flatten(1), self.hidden))
        self.sum.copy_(0.5 * self.sum + torch.cumsum(self.hidden, 1))
        return self.head(self.sum)


class Flow(nn.Module):
    """A condition, a scan, a map, and layers of two directions, which are written out for int8."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.lstm = nn.Linear(6, 6), nn.LSTM(6, 3, bidirectional=True)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        x = torch.cond(x.mean() > 0, lambda v: v * 2.0, lambda v: functional.relu(v + 1.0), (x,))
        last, states = scan(lambda state, v: (state * 0.5 + v, torch.tanh(state)), torch.zeros(2, 6), x)
        return last, self.lstm(states)[0], torch_map(lambda v: self.layer(v) * 0.5, x)


class _Entry:
    def __init__(self, module: type[nn.Module], *shapes: tuple[int, ...]) -> None:
        self._module = module
        self._shapes = shapes

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        return self._module().eval()

    def calibration_inputs(self) -> list[tuple[Tensor, ...]]:
        torch.manual_seed(1)
        return [tuple(torch.randn(shape) for shape in self._shapes) for _ in range(8)]

    def example_inputs(self) -> tuple[Tensor, ...]:
        return self.calibration_inputs()[0]


def entries() -> dict[str, _Entry]:
    image = (2, 4, 6, 6)
    return {
        "convolutions": _Entry(Convolutions, (1, 3, 8, 7)),
        "depthwise": _Entry(Depthwise, (1, 16, 9, 9)),
        "elementwise": _Entry(Elementwise, image, image),
        "enlarged": _Entry(Enlarged, (1, 2, 4, 3, 3)),
        "flow": _Entry(Flow, (3, 2, 6)),
        "int4": _Entry(Int4, (2, 5, 4, 3)),
        "norms": _Entry(Norms, (2, 6, 8)),
        "state": _Entry(State, (1, 2, 4, 4)),
        "tiles": _Entry(Tiles, (1, 1, 15, 14)),
    }
