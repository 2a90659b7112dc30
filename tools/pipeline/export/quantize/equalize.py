"""Equalizes the channels between convolutions before they are quantized, without changing results in floating point.

An int8 tensor has one scale for all of its channels. If their magnitudes differ, as they do after batch normalization
is folded into depthwise convolutions, channels of small numbers use few of the 256 integers. Activations such as relu
commute with a positive factor: a convolution can divide a channel by a factor that its readers multiply with. Tensors
that are added must have the same factors, so that there are *groups* of tensors from the convolutions that write them
to those that read them. Weights of convolutions have a scale per output, which absorbs the first factor, and also the
second one if a reader is depthwise. Otherwise the factors make its weights differ, so they are chosen to minimize the
total noise that is expected in the readers' results.

The factors are powers of two, so that floating-point results stay equal bit by bit. A relu6 or hardtanh commutes with a
factor as long as the channel stays inside its bounds, with a margin for samples beyond calibration; a channel that
reaches them is not scaled.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Node

from tools.pipeline.export.ir.operators import CLAMPS
from tools.pipeline.export.quantize.float64 import Float64Interpreter
from tools.pipeline.export.quantize.nodes import attribute, bounds
from tools.pipeline.model_file.deterministic import computing

_aten = torch.ops.aten

# Operators that commute with a factor per channel.
_PASSED = frozenset((
    _aten.relu.default, _aten.leaky_relu.default, _aten.max_pool2d.default, _aten.avg_pool2d.default,
    _aten.adaptive_avg_pool2d.default, _aten.prelu.default, _aten.dropout.default,
))  # fmt: skip
# Operators that commute with a factor between their bounds.
_BOUNDED = frozenset((_aten.hardtanh.default, _aten.clamp.default))
# The degrees of equalization: 0 is none, 1 gives all channels the same magnitude.
_EXPONENTS = (0.25, 0.5, 0.75, 1.0)
# Channels of tiny magnitude are not scaled up without limit.
_SMALLEST = 2.0**-10
# The largest remaining share of the noise that counts as a gain; smaller gains may be chance.
_LEAST_GAIN = 0.7
# The number of samples on which channels are measured.
_SAMPLES = 8
# A channel's bound must exceed its largest observed number by this factor.
_MARGIN = 1.5
# The largest multiplier from a writer's integer products to the integers of its result. From 1/2 on kernels need wider
# arithmetic, and a channel that such coarse inputs compute would not gain from more resolution.
_LARGEST_FACTOR = 0.25


@dataclass
class _Reader:
    """A layer that reads a tensor of a group.

    Attributes:
      layer: a convolution, or a linear layer after a pooling to one pixel.
      tensor: the tensor of the group.
    """

    layer: Node
    tensor: Node

    @property
    def groups(self) -> int:
        """The groups of a convolution."""
        return 1 if self.layer.target == _aten.linear.default else int([*self.layer.args, *[1] * 7][6])


@dataclass
class _Group:
    """Tensors whose channels have the same factors.

    Attributes:
      writers: convolutions whose results are members.
      members: the tensors.
      readers: the layers that read them.
    """

    writers: list[Node]
    members: list[Node]
    readers: list[_Reader]


def equalize(module: GraphModule, samples: Iterable[tuple[Tensor, ...]]) -> list[Node]:
    """Equalizes the channels of a module's tensors where that improves quantization, in place.

    Args:
      module: with batch normalization folded.
      samples: calibration inputs, of which the first ones are run.

    Returns:
      the layers whose operands have changed factors.
    """
    groups = _find_groups(module)
    if not groups:
        return []
    measured = {member for group in groups for member in group.members}
    measured |= {writer.args[0] for group in groups for writer in group.writers}
    runs = []
    with computing():
        for sample, _ in zip(samples, range(_SAMPLES), strict=False):
            run = _Run(module, measured)
            run.run(*sample)
            runs.append(run.found)
    equalized = []
    for group in groups:
        channels = {
            member: _Channels(
                torch.stack([run[member].low for run in runs]).amin(0),
                torch.stack([run[member].high for run in runs]).amax(0),
                torch.stack([run[member].squares for run in runs]).mean(0),
            )
            for member in [*group.members, *(writer.args[0] for writer in group.writers)]
        }
        factors = _factors(module, group, channels)
        if factors is not None:
            _scale(module, group, factors)
            equalized += [reader.tensor for reader in group.readers]
    return list(dict.fromkeys(equalized))


def _find_groups(module: GraphModule) -> list[_Group]:
    targets = [node.target for node in module.graph.nodes if node.op == "get_attr"]
    # Maps each tensor to those that must have the same factors.
    found: dict[Node, list[Node]] = {}
    for node in module.graph.nodes:
        if node.op == "call_function":
            joined = [node]
            for other in _sources(node):
                joined += [each for each in found.get(other, [other]) if each not in joined]
            found.update(dict.fromkeys(joined, joined))
    groups = []
    for members in {id(each): each for each in found.values()}.values():
        group = _group(members, targets)
        if group is not None:
            groups.append(group)
    return groups


def _sources(node: Node) -> list[Node]:
    """Returns the operands whose factors a node passes on."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor) or value.dim() != 4:
        return []
    if node.target in _PASSED:
        return [node.args[0]]
    if node.target in _BOUNDED:
        low, high = bounds(node)
        return [node.args[0]] if low <= 0 < high or low < 0 <= high else []
    if node.target == _aten.add.Tensor and not node.kwargs:
        terms = node.all_input_nodes
        if len(node.args) == 2 and all(isinstance(arg, Node) and _shape(arg) == value.shape for arg in node.args):
            return terms
    return []


def _shape(node: Node) -> Any:
    value = node.meta.get("val")
    return value.shape if isinstance(value, Tensor) else None


def _group(members: list[Node], targets: list[Any]) -> _Group | None:
    """Returns the group of some tensors, or None unless only layers with weights of their own write and read them."""
    writers = [member for member in members if not _sources(member)]
    if not all(_has_own_weights(writer, targets) and writer.target == _aten.conv2d.default for writer in writers):
        return None
    readers = []
    for member in members:
        for user in member.users:
            if member in _sources(user):
                continue
            # A convolution can read one member and write another: `x + conv(x)`.
            layer = user
            if user.target == _aten.reshape.default and _is_flat(user) and len(user.users) == 1:
                (layer,) = user.users
            if not _has_own_weights(layer, targets) or (layer is user) == (layer.target == _aten.linear.default):
                return None
            if layer.args[0] is not (member if layer is user else user):
                return None
            readers.append(_Reader(layer, member))
    # The order must not depend on that of joining.
    return _Group(writers, members, readers) if readers else None


def _is_flat(view: Node) -> bool:
    """Whether a view drops the spatial dimensions of an image of one pixel."""
    image, value = view.args[0].meta["val"], view.meta["val"]
    return tuple(image.shape[2:]) == (1, 1) and tuple(value.shape) == tuple(image.shape[:2])


def _has_own_weights(node: Node, attributes: list[Any]) -> bool:
    """Whether a node is a convolution or linear layer with constants that no other node reads."""
    if node.target not in (_aten.conv2d.default, _aten.linear.default):
        return False
    constants = [operand for operand in node.args[1:3] if operand is not None]
    return all(
        isinstance(each, Node) and each.op == "get_attr" and len(each.users) == 1 and attributes.count(each.target) == 1
        for each in constants
    )


@dataclass
class _Channels:
    """The minima, maxima and mean squares of a tensor's channels."""

    low: Tensor
    high: Tensor
    squares: Tensor

    @property
    def sizes(self) -> Tensor:
        """The largest absolute values."""
        return torch.maximum(self.high, -self.low).double()

    def step(self, factors: Tensor) -> float:
        """Returns the scale of the tensor if its channels are divided by factors."""
        least, most = (self.low / factors).amin().clamp(max=0), (self.high / factors).amax().clamp(min=0)
        return float(most - least) / 255


class _Run(Float64Interpreter):
    """Measures channels of some tensors in a run."""

    def __init__(self, module: GraphModule, nodes: set[Node]) -> None:
        super().__init__(module)
        self._nodes = nodes
        self.found: dict[Node, _Channels] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n in self._nodes:
            channels = result.transpose(0, 1).flatten(1)
            self.found[n] = _Channels(channels.amin(1), channels.amax(1), channels.square().mean(1))
        return result


def _factors(module: GraphModule, group: _Group, channels: dict[Node, _Channels]) -> Tensor | None:
    """Returns the divisor of each channel, at most 1, or None if equalization gains little."""
    sizes = [channels[member].sizes for member in group.members]
    if not all(bool(each.isfinite().all()) and bool(each.any()) for each in sizes):
        return None
    relative = torch.stack([each / each.max() for each in sizes]).amax(0).clamp(min=_SMALLEST)
    least = torch.zeros_like(relative)
    for node in group.members:
        if node.target in _BOUNDED:
            (source,) = _sources(node)
            for limit, ends in zip(bounds(node), (channels[source].low, channels[source].high), strict=True):
                if limit and math.isfinite(limit):
                    least = torch.maximum(least, _MARGIN * ends.double() / limit)
    # A tensor whose activation is fused is not quantized itself.
    tensors = [node for node in group.members if [user.target in CLAMPS for user in node.users] != [True]]
    step = min(channels[tensor].step(torch.ones_like(relative)) for tensor in tensors)
    for writer in group.writers:
        weight = attribute(module, str(writer.args[1].target)).detach().double()
        given = channels[writer.args[0]]
        products = given.step(torch.ones_like(given.low)) * weight.flatten(1).abs().amax(1) / 127
        least = torch.maximum(least, products / (_LARGEST_FACTOR * step))
    is_summed = any(node.target == _aten.add.Tensor for node in group.members)

    def noise(factors: Tensor) -> list[float]:
        """Returns the noise in each reader's result."""
        steps = {tensor: channels[tensor].step(factors) for tensor in tensors}
        found = []
        for reader in group.readers:
            # The noise of all terms adds up in a sum.
            read = steps.values() if is_summed else [steps[reader.tensor]]
            squares = channels[reader.tensor].squares.double() / factors.square()
            weight = _weight(module, reader) * _by_input(factors, reader, module)[:, :, None]
            weight_steps = weight.flatten(1).abs().amax(1) / 127
            if reader.layer.target == _aten.linear.default:
                weight_steps = weight_steps.amax().expand_as(weight_steps)
            inputs = _by_input(squares, reader, module).sum(1) * weight.shape[2]
            found.append(
                sum(step**2 for step in read) * float(weight.square().sum())
                + float((weight_steps.square() * inputs).sum())
            )
        return found

    before = noise(torch.ones_like(relative))

    def left(factors: Tensor) -> float:
        """Returns the remaining share of the noise."""
        shares = [after / each if each else 1.0 for after, each in zip(noise(factors), before, strict=True)]
        return sum(shares) / len(shares)

    candidates = [
        torch.exp2(torch.log2(torch.maximum(relative**exponent, least).clamp(max=1)).ceil()) for exponent in _EXPONENTS
    ]
    best = min(candidates, key=left)
    return best if left(best) <= _LEAST_GAIN else None


def _weight(module: GraphModule, reader: _Reader) -> Tensor:
    """Returns a reader's weights [output, input of its group, element]."""
    weight = attribute(module, str(reader.layer.args[1].target)).detach().double()
    return weight.flatten(2) if weight.dim() > 2 else weight[:, :, None]


def _by_input(values: Tensor, reader: _Reader, module: GraphModule) -> Tensor:
    """Expands values of channels to a reader's weights: [output, input of its group]."""
    outputs = len(attribute(module, str(reader.layer.args[1].target)))
    return values.reshape(reader.groups, -1).repeat_interleave(outputs // reader.groups, 0)


def _scale(module: GraphModule, group: _Group, factors: Tensor) -> None:
    """Divides the channels of a group by factors, and multiplies the weights of its readers by them."""
    for writer in group.writers:
        for constant in writer.args[1:3]:
            if constant is not None:
                name = str(constant.target)
                value = attribute(module, name)
                _multiply(module, name, (1 / factors).reshape(-1, *[1] * (value.dim() - 1)))
    for reader in group.readers:
        name = str(reader.layer.args[1].target)
        by_input = _by_input(factors, reader, module)
        _multiply(module, name, by_input.reshape(*by_input.shape, *[1] * (attribute(module, name).dim() - 2)))


def _multiply(module: GraphModule, name: str, factors: Tensor) -> None:
    """Replaces an attribute of a module by its product with factors. The original tensor may belong to another program,
    too.
    """
    value = attribute(module, name).detach()
    owner, _, last = name.rpartition(".")
    delattr(module.get_submodule(owner), last)
    module.get_submodule(owner).register_buffer(last, value * factors.to(value.dtype))
