"""Tests that transposed convolutions as convolutions of stride 1 compute PyTorch's results."""

import random

import pytest
import torch
from torch import nn

from tools.pipeline.export.backends.cortex_m.forms import make_quantizable
from tools.pipeline.export.ir.rewriting import run_decompositions

_TRANSPOSED = torch.ops.aten.conv_transpose2d.input
_CONVOLUTION = torch.ops.aten.conv2d.default


def _rewritten(layer: nn.Module, image: torch.Tensor) -> tuple[list[object], torch.Tensor]:
    """Returns the convolutions that a layer becomes, and their result for an image."""
    program = run_decompositions(torch.export.export(nn.Sequential(layer, nn.ReLU()).eval(), (image,)), {})
    graph = make_quantizable(program).graph
    kinds = [node.target for node in graph.nodes if node.target in (_TRANSPOSED, _CONVOLUTION)]
    return kinds, program.module()(image)


def _random_layer(draw: random.Random) -> tuple[nn.ConvTranspose2d, torch.Tensor]:
    strides = [draw.randint(1, 4) for _ in range(2)]
    kernels = [draw.randint(stride, 2 * stride + 2) for stride in strides]
    paddings = [draw.randint(0, kernel // 2 + 1) for kernel in kernels]
    more = [draw.randrange(stride) for stride in strides]
    sizes = [draw.randint(2 + 2 * padding // stride, 7) for padding, stride in zip(paddings, strides, strict=True)]
    channels, results = draw.randint(1, 6), draw.randint(1, 5)
    has_bias = draw.random() < 0.5
    layer = nn.ConvTranspose2d(channels, results, kernels, strides, paddings, more, bias=has_bias)
    return layer, torch.randn(draw.randint(1, 2), channels, *sizes)


@pytest.mark.parametrize("seed", range(8))
def test_convolutions_of_stride_1_compute_a_transposed_one(seed: int) -> None:
    torch.manual_seed(seed)
    layer, image = _random_layer(random.Random(seed))
    kinds, values = _rewritten(layer, image)
    assert _TRANSPOSED not in kinds
    torch.testing.assert_close(values, layer(image).relu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "layers"),
    [
        # All pixels have the same number of weights, or some have one more, in one or two dimensions.
        (2, 2, 0, 1),
        (4, 2, 1, 1),
        (3, 1, 1, 1),
        (3, 2, 1, 4),
        ((1, 5), (1, 2), (0, 2), 2),
    ],
)
def test_remainders_of_equally_many_weights_are_channels_of_one_layer(kernel, stride, padding, layers) -> None:
    kinds, _ = _rewritten(nn.ConvTranspose2d(4, 4, kernel, stride, padding), torch.randn(1, 4, 6, 6))
    assert kinds == [_CONVOLUTION] * layers


@pytest.mark.parametrize(
    "layer",
    [
        nn.ConvTranspose2d(4, 4, 2, 3),
        nn.ConvTranspose2d(4, 4, 4, 2, 1, groups=4),
        nn.ConvTranspose2d(4, 4, 3, 2, dilation=2),
    ],
    ids=["apart", "groups", "dilation"],
)
def test_others_stay(layer: nn.Module) -> None:
    image = torch.randn(1, 4, 6, 6)
    kinds, values = _rewritten(layer, image)
    assert kinds == [_TRANSPOSED]
    torch.testing.assert_close(values, layer(image).relu())
