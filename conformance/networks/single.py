"""Single operators at several sizes, from whose instructions costs.py makes costs.json.

A model file for the exporter: each operator at each size is one of its entries().
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace

import torch
import torch.nn.functional as F  # noqa: N812  # as models write it
from torch import Tensor, nn


class _Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Tensor]) -> None:
        super().__init__()
        self._function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self._function(*inputs)


class _First(nn.Module):
    """The first result of a layer that has several."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self._layer = layer

    def forward(self, *inputs: Tensor) -> Tensor:
        return self._layer(*inputs)[0]


class _CausalSoftmax(nn.Module):
    """A softmax of scores whose rows each see the earlier ones and themselves."""

    def forward(self, scores: Tensor) -> Tensor:
        rows, columns = scores.shape[-2:]
        return (scores + torch.full((rows, columns), -torch.inf).triu(1)).softmax(-1)


@dataclass(frozen=True)
class Single:
    """An operator and the shapes of its inputs, whose values are those of a normal distribution.

    Attributes:
      is_int8: whether the int8 form is to be measured; those of functions are tables, all alike.
      is_float32: whether that of floating point is, which may be several operators.
    """

    make: Callable[[], nn.Module]
    shapes: tuple[tuple[int, ...], ...]
    is_int8: bool = True
    is_float32: bool = True

    def has(self, form: str) -> bool:
        """Returns whether a form is to be measured: `float32`, or others."""
        return self.is_float32 if form == "float32" else self.is_int8

    def sample(self, seed: int) -> tuple[Tensor, ...]:
        """Returns the inputs number `seed`."""
        generator = torch.Generator().manual_seed(seed)
        return tuple(torch.randn(shape, generator=generator) for shape in self.shapes)

    def entry(self) -> SimpleNamespace:
        """Returns what a model file has for it."""

        def model() -> nn.Module:
            torch.manual_seed(0)
            return self.make().eval()

        return SimpleNamespace(
            model=model,
            example_inputs=lambda: self.sample(0),
            calibration_inputs=lambda: [self.sample(index) for index in range(4)],
        )


SINGLES: dict[str, Single] = {}


def _normalization(channels: int) -> nn.Module:
    norm = nn.BatchNorm2d(channels)
    nn.init.uniform_(norm.weight, 0.5, 2)
    nn.init.uniform_(norm.bias, -1, 1)
    return norm


def _slopes(channels: int) -> nn.Module:
    activation = nn.PReLU(channels)
    nn.init.uniform_(activation.weight, 0, 0.5)
    return activation


def _add(name: str, make: Callable[[], nn.Module], *shapes: tuple[int, ...], **forms: bool) -> None:
    SINGLES[f"{name}_{sum(key.rpartition('_')[0] == name for key in SINGLES)}"] = Single(make, shapes, **forms)


def _convolution(
    inputs: int,
    outputs: int,
    size: int,
    kernel: int,
    stride: int = 1,
    groups: int = 1,
    dilation: int = 1,
    is_padded: bool = True,
) -> None:
    name = "convolution" if groups == 1 else "depthwise" if groups == outputs else "grouped"
    pad = dilation * (kernel // 2) if is_padded else 0
    _add(name, lambda: nn.Conv2d(inputs, outputs, kernel, stride, pad, dilation, groups), (1, inputs, size, size))


for _shape in [
    (3, 8, 16, 3), (3, 16, 20, 5, 2), (8, 8, 12, 3), (16, 16, 8, 3), (16, 32, 12, 3, 2), (8, 16, 16, 1), (32, 32, 8, 1),
    (6, 8, 12, 3), (16, 4, 4, 1), (8, 8, 4, 3), (2, 4, 24, 3), (1, 6, 20, 5), (6, 8, 10, 5),
]:  # fmt: skip
    _convolution(*_shape)
for _shape in [
    (8, 8, 16, 3, 1, 8), (16, 16, 8, 3, 2, 16), (32, 32, 8, 3, 1, 32), (16, 16, 12, 5, 1, 16), (64, 64, 4, 3, 1, 64),
    (8, 8, 24, 3, 2, 8), (48, 48, 5, 3, 2, 48), (10, 10, 10, 3, 1, 10), (16, 16, 10, 3, 1, 16, 1, False),
    (24, 24, 7, 5, 1, 24), (16, 16, 14, 5, 2, 16), (12, 12, 9, 7, 1, 12), (8, 8, 12, 5, 1, 8, 1, False),
    (8, 8, 12, 2, 2, 8, 1, False),
]:  # fmt: skip
    _convolution(*_shape)
for _shape in [
    (6, 6, 12, 3, 1, 6), (6, 6, 20, 3, 1, 6), (8, 8, 12, 3, 1, 8, 2), (8, 16, 12, 3, 1, 4), (6, 6, 12, 5, 1, 6),
    (16, 16, 8, 3, 1, 4), (8, 8, 6, 3, 1, 2), (12, 12, 10, 3, 1, 3), (8, 16, 12, 5, 1, 2),
    (16, 16, 8, 3, 1, 8), (24, 24, 10, 3, 1, 6), (16, 32, 8, 1, 1, 8), (8, 16, 8, 3, 1, 8), (4, 8, 10, 3, 1, 4),
    (40, 40, 6, 3, 1, 5), (64, 64, 6, 1, 1, 8), (32, 32, 8, 3, 2, 8), (30, 30, 6, 3, 1, 10), (12, 12, 12, 3, 1, 12, 2),
    (18, 18, 8, 3, 1, 6), (30, 60, 6, 1, 1, 10), (12, 12, 10, 3, 2, 6), (10, 10, 8, 3, 1, 5), (32, 64, 6, 3, 1, 4),
    (48, 48, 5, 3, 1, 6), (16, 16, 12, 3, 2, 2), (6, 9, 8, 3, 1, 3), (10, 10, 12, 5, 1, 2),
]:  # fmt: skip
    _convolution(*_shape)
for _i, _o, _size, _kernel, _pad in [
    (8, 8, 6, 2, 0), (16, 8, 8, 4, 0), (4, 8, 12, 3, 0), (16, 16, 4, 2, 0), (16, 8, 4, 4, 1), (8, 1, 8, 4, 1),
    (8, 3, 8, 2, 0), (6, 8, 6, 2, 0), (3, 4, 10, 4, 1),
]:  # fmt: skip
    _add(
        "transposed",
        lambda i=_i, o=_o, k=_kernel, p=_pad: nn.ConvTranspose2d(i, o, k, 2, p),
        (1, _i, _size, _size),
        # In int8 it is a convolution and moves of pixels.
        is_int8=False,
    )
for _rows, _i, _o in [
    (1, 16, 8), (1, 64, 32), (12, 16, 16), (12, 16, 48), (64, 8, 24), (1, 256, 64), (24, 64, 16),
    (12, 64, 192), (50, 32, 32), (17, 128, 64), (3, 32, 16), (8, 96, 10), (2, 40, 20), (1, 33, 10), (6, 5, 8),
    (8, 8, 4),
]:  # fmt: skip
    _add("linear", lambda i=_i, o=_o: nn.Linear(i, o), (_rows, _i))
for _b, _n, _k, _m in [(2, 12, 8, 12), (2, 12, 12, 8), (4, 16, 4, 16), (1, 24, 16, 24), (8, 8, 8, 8)]:
    _add("bmm", lambda: _Call(torch.bmm), (_b, _n, _k), (_b, _k, _m))
for _shape in [(1, 10), (4, 12), (2, 32), (2, 100)]:
    _add("softmax", lambda: nn.Softmax(-1), _shape)
for _shape in [(24, 12), (16, 32), (4, 100), (98, 49), (64, 8)]:
    _add("softmax_by_table", lambda: nn.Softmax(-1), _shape)
for _shape in [(2, 12, 12), (4, 32, 32), (8, 16, 16), (1, 64, 64)]:
    _add("masked_softmax", _CausalSoftmax, _shape, is_float32=False)
for _shape in [(1, 16), (16, 32), (24, 64), (4, 256), (64, 8)]:
    _add("layer_norm", lambda size=_shape[-1]: nn.LayerNorm(size), _shape)
    _add("rms_norm", lambda size=_shape[-1]: nn.RMSNorm(size), _shape)
for _groups, _image in [(2, (1, 8, 6, 6)), (4, (1, 16, 12, 12)), (32, (1, 32, 8, 8)), (1, (1, 32, 4, 4))]:
    _add("group_norm", lambda groups=_groups, image=_image: nn.GroupNorm(groups, image[1]), _image)

# It works over time: one row of pixels.
for _channels, _size, _kernel, _pad, _dilation in [
    (8, 95, 48, 12, 1), (8, 48, 9, 2, 1), (16, 37, 3, 0, 1), (6, 64, 9, 2, 1), (24, 48, 3, 1, 1), (24, 48, 3, 2, 2),
    (16, 64, 3, 4, 4), (8, 40, 5, 4, 2),
]:  # fmt: skip
    _add(
        "depthwise",
        lambda c=_channels, k=_kernel, p=_pad, d=_dilation: nn.Conv2d(c, c, (1, k), 1, (0, p), (1, d), c),
        (1, _channels, 1, _size),
    )
for _i, _o, _size, _kernel, _stride, _dilation in [
    (3, 16, 48, 5, 1, 1), (8, 16, 48, 3, 1, 1), (16, 16, 64, 3, 1, 4), (1, 8, 320, 16, 4, 1), (16, 24, 40, 5, 2, 1),
    (10, 20, 32, 7, 1, 1), (24, 24, 30, 3, 1, 1), (1, 16, 96, 9, 1, 1),
]:  # fmt: skip
    _add(
        "convolution",
        lambda i=_i, o=_o, k=_kernel, s=_stride, d=_dilation: nn.Conv2d(i, o, (1, k), s, (0, d * (k // 2)), (1, d)),
        (1, _i, 1, _size),
    )
# Images that are much higher than wide, and such as are hardly larger than the kernel.
for _i, _o, _size, _kernel in [
    (8, 8, (40, 3), (3, 3)), (16, 16, (30, 2), (5, 1)), (8, 8, (24, 5), (5, 3)), (16, 16, (3, 3), (3, 3)),
    (4, 16, (40, 4), (3, 3)), (8, 8, (30, 2), (5, 1)), (16, 16, (2, 2), (2, 2)), (16, 32, (2, 2), (3, 3)),
]:  # fmt: skip
    for _groups in (1, _i):
        if _groups == 1 or _i == _o:
            _pad = (_kernel[0] // 2, _kernel[1] // 2) if _size != _kernel else (0, 0)
            _add(
                "convolution" if _groups == 1 else "depthwise",
                lambda i=_i, o=_o, k=_kernel, p=_pad, g=_groups: nn.Conv2d(i, o, k, 1, p, 1, g),
                (1, _i, *_size),
            )

_IMAGES = [(1, 8, 6, 6), (1, 8, 16, 16)]
for _image in _IMAGES:
    for _name, _function in {"add": lambda x, y: x + y, "mul": lambda x, y: x * y, "maximum": torch.maximum}.items():
        _add(_name, lambda f=_function: _Call(f), _image, _image)
    _add("add_broadcast", lambda: _Call(lambda x, y: x + y), _image, (1, _image[1], 1, 1))
    _add("mul_broadcast", lambda: _Call(lambda x, y: x * y), _image, (1, _image[1], 1, 1))
    for _channels in (_image[1], 6):
        _half = (1, _channels, *_image[2:])
        _add("cat", lambda: _Call(lambda x, y: torch.cat([x, y], 1)), _half, _half)
    for _name, _function in {
        "relu": F.relu,
        "gelu": F.gelu,
        "slice": lambda x: x[:, :6],
        "permute": lambda x: x.permute(0, 2, 3, 1).contiguous(),
        "pad": lambda x: F.pad(x, (1, 1, 1, 1)),
        "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    }.items():
        _add(_name, lambda f=_function: _Call(f), _image)
    for _name, _function in {"hardtanh": F.relu6, "scale": lambda x: x * 0.3}.items():
        _add(_name, lambda f=_function: _Call(f), _image)
# Upsampling and padding with elements do this in int8 programs: rows, and pixels, of channels-last images.
for _dim in (0, 1):
    for _shape in [(6, 6, 8), (16, 16, 8), (8, 8, 24)]:
        _index = torch.arange(2 * _shape[_dim]) // 2
        _add("index_select", lambda d=_dim, i=_index: _Call(lambda x: x.index_select(d, i)), _shape)
for _name, _function in {
    "sigmoid": torch.sigmoid, "tanh": torch.tanh, "silu": F.silu, "leaky_relu": F.leaky_relu, "elu": F.elu,
    "mish": F.mish, "softplus": F.softplus, "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "exp": torch.exp,
    "abs": torch.abs, "sin": torch.sin, "pow": lambda x: x.abs() ** 2.5,
}.items():  # fmt: skip
    for _image in _IMAGES:
        _add(_name, lambda f=_function: _Call(f), _image, is_int8=False)
for _image in _IMAGES:
    _add("amax", lambda: _Call(lambda x: x.amax((2, 3))), _image, is_int8=False)
    _add("amax", lambda: _Call(lambda x: x.amax(1)), _image, is_int8=False)
    _add("sum", lambda: _Call(lambda x: x.sum(-1)), _image, is_int8=False)
    _add("sum", lambda: _Call(lambda x: x.sum(1)), _image, is_int8=False)
    _add("upsample_bilinear2d", lambda: nn.Upsample(scale_factor=2, mode="bilinear"), _image, is_int8=False)
# Padding and upsampling do this in floating point, where only a table of indices tells what is chosen.
for _shape in [(1, 8, 16, 16), (1, 3, 20, 20), (1, 16, 6, 6), (1, 8, 64)]:
    for _dim in range(2, len(_shape)):
        _index = (torch.arange(_shape[_dim] + 2) - 1).abs().clamp(max=_shape[_dim] - 1)
        _add("index", lambda d=_dim, i=_index: _Call(lambda x: x[(slice(None),) * d + (i,)]), _shape, is_int8=False)
for _shape in [(1, 8, 8, 8), (1, 3, 12, 12), (1, 16, 5, 5), (1, 8, 3, 20)]:
    _add("upsample_nearest2d", lambda: nn.Upsample(scale_factor=2), _shape, is_int8=False)
    _add("upsample_nearest2d", lambda: nn.Upsample(scale_factor=1.5), _shape, is_int8=False)
for _i, _o, _size, _kernel, _pad in [
    (2, 4, (6, 10, 10), 3, 1), (4, 8, (3, 5, 5), 3, 0), (1, 8, (4, 8, 8), 3, 1), (8, 8, (4, 6, 6), 1, 0),
    (4, 4, (5, 6, 6), (3, 1, 1), 0), (3, 6, (4, 8, 8), (1, 3, 3), 0), (2, 2, (4, 6, 6), 3, 1), (8, 16, (4, 4, 4), 3, 1),
    (4, 8, (8, 8, 8), 2, 0), (3, 8, (3, 12, 12), 3, 1),
]:  # fmt: skip
    _add(
        "convolution3d", lambda i=_i, o=_o, k=_kernel, p=_pad: nn.Conv3d(i, o, k, 1, p), (1, _i, *_size), is_int8=False
    )
for _image in _IMAGES:
    _add("div", lambda: _Call(torch.div), _image, _image, is_int8=False)
    _add("gt", lambda: _Call(torch.gt), _image, _image, is_int8=False)
    _mask = torch.arange(_image[-1]) % 2 == 0
    for _name, _chosen in (("where_broadcast", _mask), ("where", _mask.expand(_image).clone())):
        _add(_name, lambda m=_chosen: _Call(lambda x, y: torch.where(m, x, y)), _image, _image, is_int8=False)
    _add("log_softmax", lambda: nn.LogSoftmax(-1), _image, is_int8=False)
for _image in (*_IMAGES, (1, 1, 20, 20), (1, 3, 12, 12), (1, 2, 8, 30)):
    _grid = (1, *_image[2:], 2)
    _add(
        "grid_sampler_2d",
        lambda: _Call(lambda x, y: F.grid_sample(x, y, align_corners=False)),
        _image,
        _grid,
        is_int8=False,
    )
for _channels, _size, _kernel, _stride in [(8, 16, 2, 2), (8, 12, 3, 1), (16, 8, 2, 2), (8, 12, 5, 1)]:
    for _name, _kind in (("max_pool2d", nn.MaxPool2d), ("avg_pool2d", nn.AvgPool2d)):
        _add(_name, lambda t=_kind, k=_kernel, s=_stride: t(k, s), (1, _channels, _size, _size))
for _channels, _size in [(16, 8), (64, 4), (8, 7), (6, 16)]:
    _add("avg_pool2d", lambda k=_size: nn.AvgPool2d(k), (1, _channels, _size, _size))
for _image in [*_IMAGES, (1, 10, 23, 23), (1, 64, 4, 4), (4, 24)]:
    _add("prelu", lambda c=_image[1]: _slopes(c), _image)
for _name, _kind in (("max_pool2d", nn.MaxPool2d), ("avg_pool2d", nn.AvgPool2d)):
    for _channels, _size in [(6, 16), (20, 16)]:
        _add(_name, lambda t=_kind: t(2), (1, _channels, _size, _size))
    # Windows over one dimension only: over time, or over channels.
    for _kernel, _shape in [((3, 1), (1, 1, 8, 196)), ((5, 1), (1, 4, 20, 16)), ((1, 3), (1, 8, 6, 20))]:
        _add(_name, lambda t=_kind, k=_kernel: t(k, 1), _shape)
# Channels that are left over by words.
for _channels, _kernel in [(3, 2), (6, 3), (10, 5)]:
    _add("max_pool2d", lambda k=_kernel: nn.MaxPool2d(k, 2), (1, _channels, 16, 16))
for _channels, _size in [(8, 16), (12, 12), (20, 16), (64, 4), (3, 24), (2, 12)]:
    _add("channelwise", lambda c=_channels: _normalization(c), (1, _channels, _size, _size))
for _kind, _gates in ((nn.LSTM, "lstm"), (nn.GRU, "gru")):
    for _steps, _i, _hidden in [(32, 16, 32), (16, 64, 64), (12, 3, 16), (24, 8, 8)]:
        _add(_gates, lambda t=_kind, i=_i, h=_hidden: _First(t(i, h, batch_first=True)), (1, _steps, _i))


def entries() -> dict[str, SimpleNamespace]:
    """Returns the models of this file, by name."""
    return {name: single.entry() for name, single in SINGLES.items()}
