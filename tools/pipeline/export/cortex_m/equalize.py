"""Equalizes the channels between two convolutions before they are quantized; in floating point nothing changes.

An int8 tensor has one scale for all of its channels. Where they differ in size, as they do after batch normalization is
folded into depthwise convolutions, those of small numbers are left with few of the 256 steps. Activations such as relu
let a positive factor through: what a convolution divides a channel by, the next one multiplies it with. Weights of
convolutions have a scale per output, which takes up the first factor, and the second one too if the next convolution is
depthwise. Otherwise the factors make its weights differ, so they are chosen by the noise that both together are
expected to make in what the next convolution returns.

The factors are powers of two, with which floating point computes the same numbers to the bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from tools.pipeline.export.cortex_m.functions import attribute
from tools.pipeline.model_file.deterministic import computing

_aten = torch.ops.aten

# Factors let through, of each channel by itself.
_PASSED = frozenset((
    _aten.relu.default, _aten.leaky_relu.default, _aten.max_pool2d.default, _aten.avg_pool2d.default,
    _aten.dropout.default,
))  # fmt: skip
# How far channels are equalized: 0 not at all, 1 to the same size.
_EXPONENTS = (0.25, 0.5, 0.75, 1.0)
# Channels of next to nothing are not blown up.
_SMALLEST = 2.0**-10
# The share of the noise that may be left: networks that gain less are no better for it in practice.
_LEAST_GAIN = 0.1
# Samples that the channels are measured on.
_SAMPLES = 8


@dataclass
class _Pair:
    """Two convolutions that alone read and write a tensor.

    Attributes:
      first, second: the convolutions.
      between: what the second one reads.
    """

    first: Node
    second: Node
    between: Node


def equalize(module: GraphModule, samples: Iterable[tuple[Tensor, ...]]) -> list[Node]:
    """Equalizes the channels of a module's tensors where that makes quantization better, in place.

    Args:
      module: with batch normalization folded.
      samples: calibration inputs, of which the first ones are run.

    Returns:
      the nodes whose results have other factors than before.
    """
    pairs = _find_pairs(module)
    if not pairs:
        return []
    runs = []
    with computing():
        for sample, _ in zip(samples, range(_SAMPLES), strict=False):
            run = _Channels(module, {pair.between for pair in pairs})
            run.run(*sample)
            runs.append(run.found)
    equalized = []
    for pair in pairs:
        low, high, squares = (torch.stack(each) for each in zip(*(run[pair.between] for run in runs), strict=True))
        weight = attribute(module, str(pair.second.args[1].target))
        factors = _factors(low.amin(0), high.amax(0), squares.mean(0), weight)
        if factors is not None:
            _scale(module, pair, factors)
            equalized.append(pair.between)
    return equalized


def _find_pairs(module: GraphModule) -> list[_Pair]:
    targets = [node.target for node in module.graph.nodes if node.op == "get_attr"]
    found = []
    for node in module.graph.nodes:
        if not _is_own_convolution(node, targets):
            continue
        after = node
        while len(after.users) == 1 and next(iter(after.users)).target in _PASSED:
            (after,) = after.users
        if len(after.users) != 1:
            continue
        (reader,) = after.users
        if not _is_own_convolution(reader, targets) or reader.args[0] is not after:
            continue
        weight, channels = reader.args[1].meta["val"], after.meta["val"].shape[1]
        if weight.shape[1] == channels or weight.shape[1] == 1 == weight.shape[0] // channels:
            found.append(_Pair(node, reader, after))
    return found


def _is_own_convolution(node: Node, attributes: list[Any]) -> bool:
    """Whether a node convolves with constants that nothing else reads."""
    if node.target != _aten.conv2d.default:
        return False
    constants = [operand for operand in node.args[1:3] if operand is not None]
    return all(
        isinstance(each, Node) and each.op == "get_attr" and len(each.users) == 1 and attributes.count(each.target) == 1
        for each in constants
    )


class _Channels(Interpreter):
    """Measures channels of some tensors in a run: their smallest and largest numbers, and the mean of their squares."""

    def __init__(self, module: GraphModule, nodes: set[Node]) -> None:
        super().__init__(module)
        self._nodes = nodes
        self.found: dict[Node, tuple[Tensor, Tensor, Tensor]] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n in self._nodes:
            channels = result.transpose(0, 1).flatten(1)
            self.found[n] = (channels.amin(1), channels.amax(1), channels.square().mean(1))
        return result


def _factors(low: Tensor, high: Tensor, squares: Tensor, weight: Tensor) -> Tensor | None:
    """What each channel is divided by, no more than 1; None if that gains little.

    Args:
      low, high, squares: what _Channels measured.
      weight: of the convolution that reads the channels.
    """
    sizes = torch.maximum(high, -low).double()
    if not bool(sizes.isfinite().all()) or not bool(sizes.any()):
        return None
    relative = (sizes / sizes.max()).clamp(min=_SMALLEST)
    # [outputs, channels, elements]; of a depthwise one each output has one of the channels.
    kernel = weight.detach().double().flatten(2)
    is_depthwise = kernel.shape[1] == 1 < len(sizes)

    def noise(factors: Tensor) -> float:
        least, most = (low / factors).amin().clamp(max=0), (high / factors).amax().clamp(min=0)
        step = float(most - least) / 255
        scaled = kernel * (factors[:, None, None] if is_depthwise else factors[:, None])
        steps = scaled.flatten(1).abs().amax(1) / 127
        read = (squares / factors.square()).double()
        weights = read * kernel.shape[2] if is_depthwise else (read.sum() * kernel.shape[2]).expand(len(steps))
        return float(step**2 * scaled.square().sum() + (steps.square() * weights).sum())

    candidates = [torch.exp2(torch.log2(relative**exponent).ceil()) for exponent in _EXPONENTS]
    best = min(candidates, key=noise)
    return best if noise(best) <= _LEAST_GAIN * noise(torch.ones_like(relative)) else None


def _scale(module: GraphModule, pair: _Pair, factors: Tensor) -> None:
    """Divides the channels of a pair's first convolution by factors, and lets the second one multiply them."""
    for constant in pair.first.args[1:3]:
        if constant is not None:
            _multiply(module, str(constant.target), 1 / factors, 0)
    name = str(pair.second.args[1].target)
    _multiply(module, name, factors, 0 if attribute(module, name).shape[1] == 1 < len(factors) else 1)


def _multiply(module: GraphModule, name: str, factors: Tensor, dim: int) -> None:
    """Multiplies an attribute of a module along a dimension; what it was before may be another program's, too."""
    value = attribute(module, name).detach()
    shape = [1] * value.dim()
    shape[dim] = -1
    owner, _, last = name.rpartition(".")
    delattr(module.get_submodule(owner), last)
    module.get_submodule(owner).register_buffer(last, value * factors.to(value.dtype).reshape(shape))
