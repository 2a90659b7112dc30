"""Removes channels that don't affect the result, exactly.

A filter whose weights are all zero always returns its bias: its channel is constant. Pooling, activations and sums of
constant channels are constant, too. A layer can do without a constant input channel if the constant is zero, or if the
layer has no padding and its bias absorbs the channel's contribution. A channel that all layers read with zero weights
need not be computed.

Operators such as sums and depthwise convolutions map channels one to one, so that both sides lose a channel or neither.
Operators that this pass doesn't know keep all channels. The channels that remain are rounded up to a multiple of four,
because the kernels read that many at once.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.fx import Node

from tools.pipeline.export.ir.constants import Constants, add_constant
from tools.pipeline.export.ir.operators import CONVOLUTIONS, CONVOLUTIONS_BY_WORD, COPIES, DROPOUTS, RESHAPES
from tools.pipeline.export.ir.rewriting import run_decompositions

_aten = torch.ops.aten

_CONVOLUTIONS = CONVOLUTIONS | CONVOLUTIONS_BY_WORD
_LAYERS = _CONVOLUTIONS | {_aten.linear.default}
# Each output channel depends on one input channel only, and constant channels stay constant.
_POOLS = (
    _aten.max_pool1d.default, _aten.max_pool2d.default, _aten.avg_pool1d.default, _aten.avg_pool2d.default,
    _aten.adaptive_avg_pool1d.default, _aten.adaptive_avg_pool2d.default, _aten.upsample_nearest2d.default,
    _aten.upsample_nearest2d.vec, _aten.upsample_bilinear2d.default, _aten.upsample_bilinear2d.vec,
)  # fmt: skip
# Those that average over zero padding, and the index of their padding argument.
_PADDED = {_aten.avg_pool1d.default: 3, _aten.avg_pool2d.default: 3}
_FLATTEN = RESHAPES | {_aten.flatten.using_ints}
_TOGETHER = 4


def remove_dead_channels(program: ExportedProgram) -> ExportedProgram:
    """Returns the program without channels that don't affect the result, or the same program if it has none.

    Args:
      program: the captured program, with batch normalization folded.
    """
    if not _has_zeros(program):
        return program
    functional = run_decompositions(program, {})
    return functional if _Channels(functional).remove() else program


def _has_zeros(program: ExportedProgram) -> bool:
    """Whether a layer has a filter that is all zero, or multiplies an input by zeros only."""
    constants = Constants(program)
    for node in program.graph.nodes:
        if node.target in _LAYERS:
            weight = constants.value(node.args[1])
            if weight is not None and not (_reads(weight, 0).all() and _reads(weight, 1).all()):
                return True
    return False


def _reads(weight: Tensor, dim: int) -> Tensor:
    """Returns which filters (dim 0) or inputs (dim 1) of a weight are not all zero."""
    return (weight != 0).transpose(0, dim).flatten(1).any(1)


class _Channels:
    """The channels of a program's tensors: which ones are needed, and which ones are constant."""

    def __init__(self, program: ExportedProgram) -> None:
        self._program = program
        self._constants = Constants(program)
        # The channel dimension of each tensor; tensors that are missing here keep all channels.
        self._dims: dict[Node, int] = {}
        # The constant of each channel, or NaN if it is not constant.
        self._numbers: dict[Node, Tensor] = {}
        self._needed: dict[Node, Tensor] = {}
        self._depthwise: set[Node] = set()

    def remove(self) -> bool:
        """Rewrites the program; returns whether it had channels to remove."""
        nodes = [node for node in self._program.graph.nodes if node.op == "call_function"]
        for node in nodes:
            self._describe(node)
        self._needed = {node: torch.zeros(self._count(node), dtype=torch.bool) for node in self._dims}
        for node in nodes:
            self._read(node)
        while self._spread(nodes) or self._round_up(nodes):
            pass
        if all(needed.all() for needed in self._needed.values()):
            return False
        self._rewrite(nodes)
        return True

    def _count(self, node: Node) -> int:
        return int(node.meta["val"].shape[self._dims[node]])

    def _describe(self, node: Node) -> None:
        """Records a node's channel dimension and constant channels."""
        value = node.meta.get("val")
        if not isinstance(value, Tensor) or not all(isinstance(size, int) for size in value.shape):
            return
        if node.target in _LAYERS:
            self._describe_layer(node)
        elif node.target == _aten.cat.default:
            tensors, dim = node.args[0], node.args[1] if len(node.args) > 1 else 0
            if all(self._dims.get(tensor) == dim % value.dim() for tensor in tensors):
                self._note(node, dim % value.dim(), torch.cat([self._numbers[tensor] for tensor in tensors]))
        elif isinstance(node.target, OpOverload) and torch.Tag.pointwise in node.target.tags:
            self._describe_elementwise(node, value)
        elif node.args and isinstance(node.args[0], Node) and node.args[0] in self._dims:
            self._describe_passed_on(node, node.args[0])

    def _note(self, node: Node, dim: int, numbers: Tensor) -> None:
        self._dims[node], self._numbers[node] = dim, numbers

    def _describe_layer(self, node: Node) -> None:
        weight, bias = self._constants.value(node.args[1]), self._bias(node)
        value, image = node.meta["val"], node.args[0].meta["val"]
        is_batched = node.target not in _CONVOLUTIONS or value.dim() == node.args[1].meta["val"].dim()
        if weight is None or bias is None or node.kwargs or not is_batched:
            return
        dim = 1 if node.target in _CONVOLUTIONS else value.dim() - 1
        is_depthwise = dim == 1 and weight.shape[1] == 1 < weight.shape[0] == image.shape[1]
        if is_depthwise:
            self._depthwise.add(node)
        elif weight.shape[1] != image.shape[dim]:
            return
        numbers = self._numbers.get(node.args[0], torch.full((image.shape[dim],), math.nan))
        # [filters, inputs], or [filters, 1] for depthwise layers.
        sums = weight.double().reshape(*weight.shape[:2], -1).sum(2)
        reads = (weight != 0).reshape(*weight.shape[:2], -1).any(2)
        if is_depthwise:
            numbers, absorbed = numbers.unsqueeze(1), self._absorbed(node, numbers).unsqueeze(1)
        else:
            absorbed = self._absorbed(node, numbers)
        is_number = ~(reads & ~absorbed).any(1)
        made = bias + (sums * numbers.where(absorbed & reads, 0.0)).sum(1)
        self._note(node, dim, made.where(is_number, math.nan))

    def _absorbed(self, layer: Node, numbers: Tensor) -> Tensor:
        """Returns which constant channels contribute the same number to all of a layer's results."""
        return numbers == 0 if self._pads(layer) else ~numbers.isnan()

    def _bias(self, node: Node) -> Tensor | None:
        """Returns a layer's bias, zeros if it has none, or None if it is not constant."""
        bias = node.args[2] if len(node.args) > 2 else None
        if bias is None:
            return torch.zeros(node.args[1].meta["val"].shape[0], dtype=torch.double)
        value = self._constants.value(bias)
        return None if value is None else value.double()

    def _pads(self, node: Node) -> bool:
        if node.target == _aten.linear.default:
            return False
        padding = node.args[4] if len(node.args) > 4 else 0
        return (
            padding != "valid" if isinstance(padding, str) else any([padding] if isinstance(padding, int) else padding)
        )

    def _describe_passed_on(self, node: Node, source: Node) -> None:
        value, before, numbers = node.meta["val"], source.meta["val"], self._numbers[source]
        dim = self._dims[source]
        if node.target in COPIES | DROPOUTS:
            self._note(node, dim, numbers)
        elif node.target in _POOLS and dim == 1 and value.dim() == before.dim():
            place = _PADDED.get(node.target)
            padding = node.args[place] if place is not None and len(node.args) > place else 0
            keeps = not any([padding] if isinstance(padding, int) else padding)
            self._note(node, dim, numbers if keeps else numbers.where(numbers == 0, math.nan))
        elif node.target == _aten.mean.dim and self._is_mean_beside(node, dim):
            dims = sorted(each % before.dim() for each in node.args[1])
            keeps = len(node.args) > 2 and node.args[2]
            self._note(node, dim if keeps else dim - sum(each < dim for each in dims), numbers)
        elif node.target == _aten.constant_pad_nd.default and len(node.args[1]) // 2 <= before.dim() - 1 - dim:
            number = node.args[2] if len(node.args) > 2 else 0
            self._note(node, dim, numbers.where(numbers == number, math.nan))
        elif node.target in _FLATTEN and dim == 1 and self._is_flattening(node):
            self._note(node, 1, numbers.repeat_interleave(before.shape[2:].numel()))

    def _describe_elementwise(self, node: Node, value: Tensor) -> None:
        operands = [argument for argument in node.args if isinstance(argument, Node)]
        dims = {self._dims[operand] for operand in operands if operand in self._dims}
        if len(dims) != 1 or not any(operand.meta["val"].shape == value.shape for operand in operands):
            return
        (dim,) = dims
        terms = {operand: self._term(operand, value, dim) for operand in operands}
        if any(term is None for term in terms.values()):
            return
        args = torch.fx.node.map_arg(node.args, terms.__getitem__)
        with torch.no_grad():
            made = node.target(*args, **node.kwargs)
        if not made.is_floating_point():
            return
        known = torch.stack([~term.isnan() for term in terms.values() if term is not None]).all(0)
        made = made.double().expand(value.shape[dim]).where(known, math.nan)
        if node.target == _aten.mul.Tensor:
            is_zero = torch.stack([term == 0 for term in terms.values() if term is not None]).any(0)
            made = made.where(~is_zero, 0.0)
        self._note(node, dim, made)

    def _is_mean_beside(self, node: Node, dim: int) -> bool:
        rank = node.args[0].meta["val"].dim()
        return bool(node.args[1]) and all(each % rank != dim for each in node.args[1]) and not node.kwargs

    def _is_flattening(self, node: Node) -> bool:
        before, value = node.args[0].meta["val"], node.meta["val"]
        return before.dim() > 2 and value.shape == (before.shape[0], before.shape[1:].numel())

    def _term(self, other: Node, value: Tensor, dim: int) -> Tensor | None:
        """Returns an operand of an elementwise operator as one number per channel, or None if it has several."""
        size = value.shape[dim]
        if other in self._dims:
            is_alike = self._dims[other] == dim and other.meta["val"].dim() == value.dim()
            return self._numbers[other] if is_alike and self._count(other) == size else None
        constant = self._constants.value(other)
        if constant is None or not constant.is_floating_point():
            return None
        if constant.numel() == 1:
            return constant.double().reshape(1).expand(size)
        shape = [1] * (value.dim() - constant.dim()) + list(constant.shape)
        if constant.dim() <= value.dim() and shape[dim] == size and constant.numel() == size:
            return constant.double().reshape(-1)
        return None

    def _read(self, node: Node) -> None:
        """Marks all channels of operands as needed by operators whose needs are unknown."""
        for operand in node.all_input_nodes:
            if operand in self._dims and not self._is_known_reader(node, operand):
                self._needed[operand][:] = True
        for user in node.users:
            if user.op == "output" and node in self._dims:
                self._needed[node][:] = True

    def _is_known_reader(self, node: Node, operand: Node) -> bool:
        if node not in self._dims:
            return False
        return node.target not in _LAYERS or (node.args[0] is operand and node.args[1:].count(operand) == 0)

    def _spread(self, nodes: Sequence[Node]) -> bool:
        """Marks the channels that needed channels depend on; returns whether any were new."""
        before = sum(int(needed.sum()) for needed in self._needed.values())
        for node in reversed(nodes):
            if node in self._dims:
                self._spread_from(node)
        return sum(int(needed.sum()) for needed in self._needed.values()) > before

    def _spread_from(self, node: Node) -> None:
        needed = self._needed[node]
        if node.target in _LAYERS and node not in self._depthwise:
            source = node.args[0]
            if source in self._dims:
                self._needed[source] |= self._read_by(node, needed)
        elif node.target == _aten.cat.default:
            place = 0
            for tensor in node.args[0]:
                part = needed[place : place + self._count(tensor)]
                part |= self._needed[tensor]
                self._needed[tensor] |= part
                place += self._count(tensor)
        elif node in self._depthwise and node.args[0] not in self._dims:
            needed[:] = True
        else:
            for source in node.all_input_nodes:
                if source not in self._dims:
                    continue
                times = self._count(node) // self._count(source)
                self._needed[source] |= needed.reshape(-1, times).any(1)
                needed |= self._needed[source].repeat_interleave(times)

    def _read_by(self, layer: Node, needed: Tensor) -> Tensor:
        """Returns which channels of its operand a layer needs for its needed results."""
        weight = self._constants.value(layer.args[1])
        assert weight is not None
        absorbed = self._absorbed(layer, self._numbers[layer.args[0]])
        reads = _reads(weight[needed], 1) if needed.any() else torch.zeros_like(absorbed)
        return reads & ~absorbed

    def _round_up(self, nodes: Sequence[Node]) -> bool:
        """Keeps further channels where a layer's kernel reads several at once; returns whether it kept any."""
        for node in nodes:
            if node.target not in _LAYERS or node not in self._dims:
                continue
            needed = self._needed[node]
            count = int(needed.sum())
            missing = min(max(-count % _TOGETHER, 0 if count else 1), len(needed) - count)
            if missing:
                needed[(~needed).nonzero().flatten()[:missing]] = True
                return True
        return False

    def _rewrite(self, nodes: Sequence[Node]) -> None:
        for node in nodes:
            if node in self._dims:
                self._rewrite_operands(node)
                args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda operand: operand.meta["val"])
                node.meta["val"] = node.target(*args, **kwargs)
        self._program.graph.eliminate_dead_code()
        self._program.graph_module.recompile()

    def _rewrite_operands(self, node: Node) -> None:
        needed = self._needed[node]
        if node.target in _LAYERS:
            self._rewrite_layer(node, needed)
        elif node.target in (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default):
            if self._count(node) != int(needed.sum()):
                node.args = (node.args[0], [node.meta["val"].shape[0], int(needed.sum())])
        elif not needed.all():
            for operand in node.all_input_nodes:
                constant = None if operand in self._dims else self._constants.value(operand)
                if constant is not None and constant.numel() > 1:
                    dim = [size > 1 for size in constant.shape].index(True)
                    name = f"p_{node.name}_{operand.name}"
                    node.replace_input_with(operand, self._add(name, constant.index_select(dim, _indices(needed))))

    def _rewrite_layer(self, node: Node, needed: Tensor) -> None:
        source, is_depthwise = node.args[0], node in self._depthwise
        inputs = self._needed.get(source)
        if needed.all() and (inputs is None or inputs.all()):
            return
        weight, bias = self._constants.value(node.args[1]), self._bias(node)
        assert weight is not None and bias is not None
        arguments = [*node.args, *[None] * (3 - len(node.args))]
        has_bias = arguments[2] is not None
        if not is_depthwise and inputs is not None and not inputs.all():
            # The bias absorbs the contribution of removed channels.
            numbers = self._numbers[source].where(~inputs, 0.0).nan_to_num(0.0)
            added = weight.double().reshape(*weight.shape[:2], -1).sum(2) @ numbers
            bias, has_bias = bias + added, has_bias or bool(added.any())
            weight = weight.index_select(1, _indices(inputs))
        arguments[1] = self._add(f"p_{node.name}_weight", weight.index_select(0, _indices(needed)))
        if has_bias:
            arguments[2] = self._add(f"p_{node.name}_bias", bias.index_select(0, _indices(needed)).to(weight.dtype))
        if is_depthwise:
            arguments[6] = int(needed.sum())
        node.args = tuple(arguments)

    def _add(self, name: str, value: Tensor) -> Node:
        return add_constant(self._program, name, value.contiguous())


def _indices(needed: Tensor) -> Tensor:
    return needed.nonzero().flatten()
